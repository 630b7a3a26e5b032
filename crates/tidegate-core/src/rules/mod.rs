//! Rules: which requests to limit, by which key, and how.
//!
//! ```text
//! Domain of Rules  ->  Ruleset, compiled once       domain.rs, rule.rs, pattern/ -> ruleset.rs, compiled_rule.rs,
//!                                                   compiled_limit.rs
//! Request          ->  the rules that apply         request.rs -> matching.rs, index/, descriptor_tree.rs
//!                  ->  the limits it falls under    matched.rs, key_bytes.rs, request_limit.rs,
//!                                                   unknown_domain.rs
//!                  ->  other limits for some keys   overrides.rs, apply_overrides.rs,
//!                                                   overridden_limits.rs
//!                  ->  the plan that charges them   plan_draft.rs
//! Outcomes         ->  the answer                   answer.rs; evaluation.rs has the steps of one decision
//! ```
//!
//! Everything here is plain data and pure functions. The crate `tidegate` reads rules from files, and calls the store
//! between these steps.
//!
//! When rules change, counters must be found again. The identity of a counter is its domain, the oldest name of its
//! rule, the names of the attributes of its key, and the name or position of its limit. `name_history.rs` keeps
//! identities stable when rules or limits are renamed or moved. `compiled_limit.rs` keeps superseded counters enforced
//! for a while.

mod action;
mod answer;
mod apply_overrides;
mod attribute;
mod blake2b;
mod client_address;
mod compiled_limit;
mod compiled_rule;
mod delay_limits;
pub mod denial;
mod denying_counters;
mod descriptor_tree;
mod domain;
mod evaluation;
pub mod headers;
mod index;
mod key_bytes;
mod key_spec;
mod matched;
mod matching;
mod metadata;
mod mismatch;
mod name_history;
mod named_attributes;
mod overridden_limits;
mod override_list;
mod overrides;
mod pattern;
mod plan_draft;
mod repeated_counters;
mod request;
mod request_limit;
mod rule;
mod ruleset;
mod signal;
mod unknown_domain;

pub use crate::AnswerKind;
pub use action::{Action, Elastic, ElasticSource, Margin};
pub use answer::{Answer, KeyStatus, LimitAnswer};
pub use apply_overrides::{LiftedLimit, OverridableRule, OverridePlaceNames, OverrideStatus};
pub use attribute::{AddressAttribute, Attribute};
pub use blake2b::digest as blake2b_256;
pub use client_address::parse_client_address;
pub use compiled_limit::{CompiledLimit, HeaderTexts};
pub use delay_limits::DelayLimit;
pub use descriptor_tree::DescriptorTree;
pub use domain::{Apply, Domain, Lookup, Pool};
pub use evaluation::{Evaluation, EvaluationPhase, NextCall, Progress};
pub use index::{RuleIndex, RuleMatches};
pub use key_bytes::{KEY_PART_BYTES_MAX, counted_value, key_text, key_value, missing_key_parts, value_text};
pub use key_spec::{KeyPart, KeySpec, OnMissingKey};
pub use matched::{
    LimitOverride, LimitPosition, LimitRef, MatchedLimit, MatchedLimits, OverriddenValues, RequestLimitKind,
    ResolvedLimit,
};
pub use metadata::{Metadata, MetadataValue};
pub use mismatch::{AttributeValues, Mismatch};
pub use named_attributes::NamedAttributes;
pub use override_list::OverrideList;
pub use overrides::{
    Access, AppliedOverride, BlockStatus, FoundEntry, FoundOverrides, KeyOverrides, Override, OverrideHint,
    OverrideLookup, OverrideScope, OverrideSource, OverrideTarget, OverrideValues, PreviousTier,
    PreviousValues,
};
pub use pattern::{
    CaseSensitivity, Net, NetSet, PATH_SEGMENTS_MAX, PATTERN_TEXT_BYTES_MAX, PathPattern, PathSet, Pattern,
    PatternError, REGEX_COMPILED_BYTES_MAX, REGEX_NESTING_MAX, REGEX_VALUE_BYTES_MAX, Regex, SET_ENTRIES_MAX,
    Segment, ValueSet, Wildcard, path_segment, path_without_query,
};
pub use plan_draft::{PlanDraft, PlanParts};
pub use request::{Descriptor, Entry, Request};
pub use request_limit::{REQUEST_LIMIT_RULE, RequestLimit, TimeUnit};
pub use rule::{
    Condition, CostSource, EntryPatterns, OnOverrideMiss, Overridable, Rule, RuleLimit, RuleLimits, Tiers,
};
pub use ruleset::{CompiledDomain, Ruleset, RulesetError};
pub use signal::{Level, ParseLevelError, Signal};
pub use unknown_domain::{UNKNOWN_DOMAIN_RULE, UnknownDomain};
