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
mod delay_limits;
mod domain;
mod evaluation;
mod name_history;
mod key;
mod key_bytes;
mod descriptor_tree;
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
pub use action::{Action, Elastic, ElasticSource, Margin};
pub use answer::{Answer, KeyStatus, AnswerKind, LimitAnswer};
pub use attribute::Attribute;
pub use compiled_limit::CompiledLimit;
pub use delay_limits::DelayLimit;
pub use domain::{Apply, Domain, Lookup, Pool};
pub use evaluation::{EvaluationPhase, Evaluation, NextCall, Progress};
pub use key::{KeySpec, KeyPart, OnMissingKey};
pub use key_bytes::{KEY_PART_BYTES_MAX, key_text, value_text};
pub use descriptor_tree::DescriptorTree;
pub use matched::{LimitPosition, LimitRef, MatchedLimit, MatchedLimits, LimitOverride, ResolvedLimit};
pub use matching::{AttributeValues, RuleIndex, RuleMatches, Mismatch};
pub use pattern::{
    CaseSensitivity, Net, NetSet, PATH_SEGMENTS_MAX, PATTERN_TEXT_BYTES_MAX, PathPattern, PathSet, Pattern,
    PatternError, REGEX_COMPILED_BYTES_MAX, REGEX_NESTING_MAX, Regex, SET_ENTRIES_MAX, Segment, ValueSet,
    Wildcard, path_segment, path_without_query,
};
pub use plan_draft::{PlanDraft, PlanParts};
pub use request::{Descriptor, Entry, Request};
pub use request_limit::{REQUEST_LIMIT_RULE, RequestLimit, TimeUnit};
pub use rule::{Condition, CostSource, EntryPatterns, RuleLimits, Rule, RuleLimit, Tiers};
pub use ruleset::{CompiledDomain, Ruleset, RulesetError};
pub use signal::{Level, ParseLevelError, Signal};

pub use crate::{KeyValue, LimitId, key_values};
