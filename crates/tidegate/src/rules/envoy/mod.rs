//! Files for envoyproxy/ratelimit, without changes.
//!
//! ```yaml
//! domain: edge
//! descriptors:
//!   - key: remote_address
//!     rate_limit: { unit: minute, requests_per_unit: 100 }
//! ```
//!
//! Such a file means the same here: a descriptor is looked up
//! [level by level](tidegate_core::rules::DescriptorTree). Each limit is a fixed window aligned to the epoch,
//! counted for the values of all entries. It counts every hit, also beyond the limit, unless
//! [`Counting`](super::Counting) says otherwise. A file that does not load there does not load here. The
//! differences:
//!
//! - Key and value are compared separately, not as `key_value`: `a` with the value `b_c` differs from `a_b`
//!   with the value `c`.
//! - Fields without effect cause a warning, and so do names in `replaces` that no limit has.
//! - `tidegate`, beside `rate_limit`, adds what that cannot express.

mod convert;
mod extension;
mod limits;
mod mapping;
mod metadata;
mod rate_limit;
mod read;
mod replaces;
mod rule_name;
mod scalars;

use super::yaml::Node;

pub use convert::{ConvertedRules, convert, convert_with};
pub(super) use read::read;
pub(super) use replaces::resolve as resolve_replaces;
pub(super) use rule_name::level_name;

/// Whether a file is for envoyproxy/ratelimit and not a native one.
pub(super) fn is_envoy_file(root: &Node) -> bool {
    root.get("descriptors").is_some() && root.get("rules").is_none()
}
