//! Rules from files.
//!
//! ```text
//! text   ->  Node              yaml/: a tree with positions, in bounds
//! Node   ->  rules of a file   native/ or envoy/, by reader/: what is known, of which type, and what was meant
//! files  ->  Domains           load.rs: files of one domain add up; lint/ says what is legal but odd
//! errors ->  Report            diagnostic/: all of them at once, as a compiler would say it, or as JSON
//! ```
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
mod flat;
mod join;
mod lint;
mod load;
mod native;
mod owned_request;
mod reader;
mod reloader;
mod schema;
mod source;
mod span;
mod yaml;

pub use crate::engine::Answer;
pub use diagnostic::{Colour, DIAGNOSTICS_MAX, Diagnostic, Related, Report, Severity};
pub use expectations::{RuleTests, STEP_TIMES_MAX, TESTS_REQUESTS_MAX, TestResult, TestResults, TestStatus};
pub use flat::{FlatField, FlatFile, FlatValue};
pub use load::{BYTES_MAX, FILES_MAX, LoadedRules, load, parse};
pub use native::{LIMITS_PER_RULE_MAX, NAME_BYTES_MAX};
pub use owned_request::{OwnedDescriptor, OwnedRequest};
pub use reloader::{Reload, Reloader};
pub use schema::schema;
pub use source::{SourceUpdate, Source};
pub use span::{FileId, Span};
pub use tidegate_core::rules::{
    Action, Apply, KeyStatus, Attribute, CompiledLimit, Condition, CostSource, DenyCache, Descriptor, Domain,
    CompiledDomain, Elastic, ElasticSource, EntryPatterns, Entry, AnswerKind, KeySpec, KeyPart, Level, LimitAnswer, LimitId, RuleLimits,
    Lookup, Margin, OnMissingKey, ParseLevelError, REQUEST_LIMIT_RULE, OnStoreFailure, Pattern, Pool, Request, RequestLimit,
    Rule, RuleLimit, Ruleset, RulesetError, Signal, Tiers, TimeUnit,
};
pub use yaml::{DEPTH_MAX, FILE_BYTES_MAX, NODES_MAX};
