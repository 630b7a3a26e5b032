//! Rate limits as pure functions.
//!
//! One request flows through Tidegate like this:
//!
//! ```text
//! listener  ->  Request  ->  rules  ->  Plan  ->  store  ->  Outcome  ->  Decision  ->  response
//! ```
//!
//! This crate has the types in the middle of that flow and the functions between them. It has no async, no I/O and no
//! clock: time is a [`Timestamp`] that the caller passes in. The crate `tidegate` adds stores, clocks and limiters.
//!
//! - A [`Limit`] is an [`algorithm`] with checked parameters, such as `100 per minute`.
//! - A [`Plan`] is all that one request charges. Each [`Charge`] is a cost for a key on a [`Counter`].
//! - An [`Outcome`] is what one limit of a plan says about the request.
//! - A [`Decision`] is the merged outcomes of a plan: allowed or denied, and which limit decided.
//! - An `Answer` (in `rules`) is what the rules make of the outcomes for a listener. Rules can do more than allow and
//!   deny: delay a request, mark it, shadow-ban it, or only report that it is over a limit.
//!
//! ```
//! use tidegate_core::Limit;
//!
//! let limit: Limit = "5 per 30s".parse()?;
//! let long: Limit = "{algorithm: gcra, limit: 5, per: 30s, burst: 5}".parse()?;
//! assert_eq!(limit, long);
//!
//! let error = "5 per fortnight".parse::<Limit>().unwrap_err();
//! assert!(error.to_string().contains("fortnight"));
//! # Ok::<(), tidegate_core::LimitError>(())
//! ```
//!
//! The feature `calendar` (on by default) adds windows that are days, weeks or months of a time zone. The feature
//! `rules` adds the module `rules`, which finds the limits of a request.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_debug_implementations)]

pub mod algorithm;
mod answer_kind;
mod charged_at;
mod counter;
mod decimal;
mod decision;
mod divisor;
pub mod headers;
mod key;
mod lease_token;
mod leases;
mod limit;
mod limit_id;
pub mod migration;
mod mode_bound;
mod op;
mod outcome;
mod packed_state;
mod plan;
pub mod problem;
mod rate;
mod rule_mode;
#[cfg(feature = "rules")]
pub mod rules;
mod store_policy;
pub mod text;
mod time;
mod usage_log;

pub use algorithm::Algorithm;
pub use answer_kind::AnswerKind;
pub use charged_at::ChargedAt;
pub use counter::{Counter, CounterId, KeyForm};
pub use decision::Decision;
pub use key::{IntoKey, IpKey, KeyBuf, KeyDigits, KeyValue, key_values, push_key_value};
pub use lease_token::{LeaseToken, ParseLeaseTokenError};
pub use leases::{FencingToken, Grant, LeaseEntry, Leases, LeasesError};
pub use limit::{AlgorithmName, Limit, LimitBuilder, LimitError, LimitSpec, ReleaseRate};
pub use limit_id::LimitId;
pub use mode_bound::{Excess, ModeBound};
pub use op::Op;
pub use outcome::{ChargeDecision, Outcome, OutcomeKind, TimedCost};
pub use packed_state::PackedState;
pub use plan::{Charge, PLAN_CHARGES_MAX, Plan, PlanFull, Role};
pub use rate::{Rate, UNITS_MAX, WINDOW_NS_MAX, WINDOW_NS_MIN};
pub use rule_mode::{RuleMode, UnsupportedMode};
pub use store_policy::{Carry, DenyCache, Mode, OnStoreFailure, StorePolicy};
pub use time::{Nanos, Timestamp, Wait};
pub use usage_log::{CopyProgress, UsageEntry, UsageLog, UsageLogCopy, UsageLogError};
