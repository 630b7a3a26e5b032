//! Rules: what to limit, for whom and how hard.
//!
//! ```text
//! Domain of Rules   ->  compiled once        domain.rs, rule.rs, pattern/
//! Request           ->  the rules it matches  request.rs, matching/
//! ```
//!
//! All of this is plain data and pure functions. How rules are written in files, and how the matching ones are
//! charged in a store, is for the crate `tidegate`.

mod action;
mod attribute;
mod domain;
mod key;
mod matching;
mod pattern;
mod request;
mod rule;

pub use action::{Action, Elastic, ElasticBy};
pub use attribute::Attribute;
pub use domain::{Apply, Domain, Lookup, Pool};
pub use key::{Key, KeyPart, Missing};
pub use matching::{Found, Index, Matches, Mismatch};
pub use pattern::{
    Case, Net, NetSet, PATH_SEGMENTS_MAX, PATTERN_TEXT_BYTES_MAX, PathPattern, Pattern, PatternError,
    REGEX_COMPILED_BYTES_MAX, REGEX_NESTING_MAX, Regex, SET_ENTRIES_MAX, Segment, ValueSet, Wildcard,
    path_segment, path_without_query,
};
pub use request::{Descriptor, Entry, Request};
pub use rule::{Condition, CostFrom, Entries, LimitId, Limits, Rule, RuleLimit, Tiers};
