//! Rules: what to limit, for whom and how hard.
//!
//! ```text
//! Domain of Rules  ->  Ruleset, compiled once             domain.rs, rule.rs, pattern/  ->  ruleset.rs, compiled_rule.rs, compiled_limit.rs
//! Request          ->  the rules that apply               request.rs  ->  matching/, levels.rs
//!                  ->  the limits it falls under          matched.rs, key_bytes.rs, request_limit.rs
//!                  ->  the plan that charges them         plan_draft.rs
//! Outcomes         ->  the answer                         answer.rs; evaluation.rs has the steps of one decision
//! ```
//!
//! All of this is plain data and pure functions. How rules are written in files, and who asks the store in between,
//! is for the crate `tidegate`.

mod action;
mod answer;
mod attribute;
mod compiled_limit;
mod compiled_rule;
mod delays;
mod domain;
mod evaluation;
mod identity;
mod key;
mod key_bytes;
mod levels;
mod matched;
mod matching;
mod pattern;
mod plan_draft;
mod refusing;
mod request;
mod request_limit;
mod rule;
mod ruleset;
mod signal;

pub use crate::{DenyCache, OnStoreFailure};
pub use action::{Action, Elastic, ElasticBy, Margin};
pub use answer::{Answer, Asked, Fate, LimitAnswer};
pub use attribute::Attribute;
pub use compiled_limit::CompiledLimit;
pub use delays::Delay;
pub use domain::{Apply, Domain, Lookup, Pool};
pub use evaluation::{AskPurpose, Evaluation, NextAsk, Progress};
pub use key::{Key, KeyPart, Missing};
pub use key_bytes::{KEY_PART_BYTES_MAX, key_text, value_text};
pub use levels::Levels;
pub use matched::{LimitPosition, LimitRef, MatchedLimit, MatchedLimits, OwnedLimit, ResolvedLimit};
pub use matching::{Found, Index, Matches, Mismatch};
pub use pattern::{
    Case, Net, NetSet, PATH_SEGMENTS_MAX, PATTERN_TEXT_BYTES_MAX, PathPattern, PathSet, Pattern,
    PatternError, REGEX_COMPILED_BYTES_MAX, REGEX_NESTING_MAX, Regex, SET_ENTRIES_MAX, Segment, ValueSet,
    Wildcard, path_segment, path_without_query,
};
pub use plan_draft::{PlanDraft, PlanParts};
pub use request::{Descriptor, Entry, Request};
pub use request_limit::{OVERRIDE_RULE, RequestLimit, Unit};
pub use rule::{Condition, CostFrom, Entries, Limits, Rule, RuleLimit, Tiers};
pub use ruleset::{DomainRules, Ruleset, RulesetError};
pub use signal::{Level, NotALevel, Signal};

pub use crate::{KeyValue, LimitId, key_values};
