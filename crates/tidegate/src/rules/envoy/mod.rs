//! Files written for envoyproxy/ratelimit, as they are.
//!
//! ```yaml
//! domain: edge
//! descriptors:
//!   - key: remote_address
//!     rate_limit: { unit: minute, requests_per_unit: 100 }
//! ```
//!
//! What such a file means there it means here: a descriptor goes [level by level](tidegate_core::rules::Levels); each
//! limit is a fixed window that begins with the epoch, counted for the values of all entries; a file that does not load
//! there does not load here. What differs:
//!
//! - a request that is denied is charged nowhere; `tidegate: { count_denied: true }` counts it, as is done there;
//! - key and value are compared each by itself, not as `key_value`: `a` with the value `b_c` is not `a_b` with the value
//!   `c`;
//! - fields in a place where they have no effect are warned of, as are names in `replaces` that no limit has;
//! - `tidegate`, beside `rate_limit`, says what that cannot.

mod convert;
mod extension;
mod limits;
mod mapping;
mod metadata;
mod rule_name;
mod rate_limit;
mod read;
mod replaces;
mod scalars;

pub use convert::{ConvertedRules, convert};
pub(super) use read::read;

use super::yaml::Node;

/// Whether a file is one of these and not a native one.
pub(super) fn is_envoy_file(root: &Node) -> bool {
    root.get("descriptors").is_some() && root.get("rules").is_none()
}
