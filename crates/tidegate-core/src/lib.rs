//! Rate limits as pure functions.
//!
//! One request flows through Tidegate like this:
//!
//! ```text
//! listener  ->  Request  ->  rules  ->  Plan  ->  store  ->  Outcome  ->  Decision  ->  response
//! ```
//!
//! This crate holds the words in the middle and nothing else: what a [`Limit`] is and how it is written, what
//! each [`algorithm`] means to the last unit, the [`Plan`] of counters that one request touches, and
//! how the [`Outcome`]s of a plan become one [`Decision`]. It knows no async, no I/O and no clock; time is a
//! [`Timestamp`] that the caller hands in. The crate `tidegate` adds a store, a clock and a limiter on top.
//!
//! ```
//! use tidegate_core::{Limit, Verdict};
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
//! The feature `calendar` (on by default) has windows that are days, weeks or months of a time zone, the feature `rules`
//! has `rules`: matching requests to limits.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_debug_implementations)]

pub mod algorithm;
mod charged_at;
mod decimal;
mod decision;
pub mod headers;
mod key;
mod key_values;
mod lease_token;
mod leases;
mod usage_log;
mod limit;
mod limit_id;
mod op;
mod outcome;
mod packed;
mod plan;
mod rate;
#[cfg(feature = "rules")]
pub mod rules;
pub mod migration;
pub mod text;
mod time;

pub use charged_at::ChargedAt;
pub use decision::Decision;
pub use key::{IntoKey, IpKey, KeyBuf, KeyDigits};
pub use key_values::{KeyValue, key_values};
pub use lease_token::{LeaseToken, ParseLeaseTokenError};
pub use leases::{FencingToken, Grant, LeaseEntry, Leases, LeasesError};
pub use usage_log::{CopyProgress, UsageLog, UsageLogCopy, UsageEntry, UsageLogError};
pub use limit::{Algorithm, AlgorithmName, Limit, LimitBuilder, LimitError, LimitSpec, ReleaseRate};
pub use limit_id::LimitId;
pub use op::Op;
pub use outcome::{TimedCost, Outcome, ChargeDecision, OutcomeKind};
pub use packed::PackedState;
pub use plan::{
    Charge, Counter, CounterId, DenyCache, KeyForm, Mode, OnStoreFailure, PLAN_CHARGES_MAX, Plan, PlanFull,
    StorePolicy, Role,
};
pub use rate::{Rate, UNITS_MAX, WINDOW_NS_MAX, WINDOW_NS_MIN};
pub use time::{Nanos, Timestamp, Wait};
