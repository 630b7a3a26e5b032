//! Rules from files.
//!
//! ```text
//! text   ->  Node              yaml/: a tree with positions, bounded in bytes, nodes and depth
//! Node   ->  RulesFile         native/ or envoy/: which fields are known, their types, and suggestions
//! files  ->  Domains           load.rs, join.rs: merge the files of a domain; lint/: warnings
//! errors ->  Report            diagnostic/: all errors together, as text like a compiler's or as JSON
//! ```
//!
//! A reader takes what it can read and reports what is wrong, so all errors of a file appear in one report.
//! Both languages end in the same model, [`Domain`]. Files for envoyproxy/ratelimit differ only in how a
//! descriptor finds its rule ([`Lookup::DescriptorTree`]).
//!
//! ```
//! let loaded = tidegate::rules::parse("api.yaml", "domain: api\nrules: [ { name: all, limit: 5 per second } ]")?;
//! assert_eq!(&*loaded.domains[0].rules[0].name, "all");
//!
//! let report = tidegate::rules::parse("api.yaml", "domain: api\nrules: [ { name: all, limit: 5 per sekond } ]");
//! assert!(report.unwrap_err().to_string().contains("did you mean `second`?"));
//! # Ok::<(), tidegate::rules::Report>(())
//! ```

mod diagnostic;
pub mod envoy;
mod expectations;
mod file;
mod file_kind;
mod flat_file;
mod join;
mod lint;
mod load;
mod load_options;
mod native;
mod owned_request;
pub(crate) mod paths;
mod reloader;
mod schema;
mod source;
mod span;
mod yaml;

pub use crate::engine::Answer;
pub use diagnostic::{Colour, DIAGNOSTICS_MAX, Diagnostic, Related, Report, Severity, SkippedFile};
pub use expectations::{RuleTests, STEP_TIMES_MAX, TESTS_REQUESTS_MAX, TestResult, TestResults, TestStatus};
pub use flat_file::{FlatField, FlatFile, FlatValue};
pub use load::{
    BYTES_MAX, FILES_MAX, LoadedRules, RulesText, load, load_with, parse, parse_all, parse_with, read_all,
};
pub use load_options::{Counting, LoadOptions};
pub use native::{LIMITS_PER_RULE_MAX, NAME_BYTES_MAX};
pub use owned_request::{OwnedDescriptor, OwnedRequest};
pub use reloader::{Reload, Reloader};
pub use schema::schema;
pub use source::{SharedFiles, Source, SourceUpdate};
pub use span::{FileId, Span};
pub use tidegate_core::rules::{
    Access, Action, AnswerKind, AppliedOverride, Apply, Attribute, BlockStatus, CompiledDomain,
    CompiledLimit, Condition, CostSource, Descriptor, Domain, Elastic, ElasticSource, Entry, EntryPatterns,
    KeyOverrides, KeyPart, KeySpec, KeyStatus, Level, LiftedLimit, LimitAnswer, Lookup, Margin, MatchedLimit,
    MatchedLimits, Metadata, MetadataValue, OnMissingKey, OnOverrideMiss, Overridable, Override,
    OverrideValues, ParseLevelError, Pattern, Pool, REQUEST_LIMIT_RULE, Request, RequestLimit, Rule,
    RuleLimit, RuleLimits, Ruleset, RulesetError, Signal, Tiers, TimeUnit, UNKNOWN_DOMAIN_RULE,
    UnknownDomain,
};
pub use tidegate_core::rules::{denial, headers};
pub use tidegate_core::{Carry, DenyCache, LimitId, OnStoreFailure, RuleMode};
pub use yaml::{DEPTH_MAX, FILE_BYTES_MAX, NODES_MAX};
