//! Rules: what to limit, for whom and how hard.
//!
//! ```text
//! Domain of Rules  ->  Ruleset, compiled once                 domain.rs, rule.rs, pattern/  ->  ruleset.rs, rule_gates.rs, gate.rs
//! Request          ->  the rules that apply                   request.rs  ->  matching/, levels.rs
//!                  ->  the limits it touches, as a Plan       touches.rs, key_bytes.rs, request_limit.rs, holders.rs
//! Outcomes         ->  the Answer                             answer.rs
//! ```
//!
//! All of this is plain data and pure functions. How rules are written in files, and who asks the store in between,
//! is for the crate `tidegate`.

mod action;
mod answer;
mod attribute;
mod delays;
mod domain;
mod gate;
mod holders;
mod identity;
mod key;
mod key_bytes;
mod levels;
mod matching;
mod pattern;
mod refusing;
mod request;
mod request_limit;
mod rule;
mod rule_gates;
mod ruleset;
mod signal;
mod touches;

pub use action::{Action, Elastic, ElasticBy, Margin};
pub use answer::{Answer, Asked, Fate, LimitAnswer};
pub use attribute::Attribute;
pub use delays::Delay;
pub use domain::{Apply, Domain, Lookup, Pool};
pub use gate::Gate;
pub use key::{Key, KeyPart, Missing};
pub use key_bytes::{KEY_PART_BYTES_MAX, key_text, value_text};
pub use levels::Levels;
pub use matching::{Found, Index, Matches, Mismatch};
pub use pattern::{
    Case, Net, NetSet, PATH_SEGMENTS_MAX, PATTERN_TEXT_BYTES_MAX, PathPattern, PathSet, Pattern,
    PatternError, REGEX_COMPILED_BYTES_MAX, REGEX_NESTING_MAX, Regex, SET_ENTRIES_MAX, Segment, ValueSet,
    Wildcard, path_segment, path_without_query,
};
pub use request::{Descriptor, Entry, Request};
pub use request_limit::{OVERRIDE_RULE, RequestLimit, Unit};
pub use rule::{Condition, CostFrom, DenyCache, Entries, Limits, OnStoreFailure, Rule, RuleLimit, Tiers};
pub use ruleset::{DomainRules, Ruleset, RulesetError};
pub use signal::{Level, NotALevel, Signal};
pub use touches::{Drawn, Touch, Touches};

pub use crate::{KeyValue, LimitId, key_values};
