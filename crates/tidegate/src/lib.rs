//! Rate limiting by key: every algorithm people know, exact, all-or-nothing, in bounded memory.
//!
//! ```
//! use tidegate::Limiter;
//!
//! // At most 5 a second in bursts of 10, and at most 100 in any hour, for each key.
//! let limiter = Limiter::builder()
//!     .limit("5/s burst 10")
//!     .limit("{algorithm: sliding_log, limit: 100, per: 1h}")
//!     .build()?;
//!
//! let decision = limiter.check("user:42", 1);
//! assert!(decision.is_allowed());
//! assert_eq!(decision.remaining, 9);
//! # Ok::<(), tidegate::LimiterError>(())
//! ```
//!
//! The [`guide`] says which algorithm to choose, and what there is besides yes and no: waiting, leases, locks, calendars,
//! snapshots.
//!
//! # How a request flows
//!
//! ```text
//! Limiter::check(key, cost)
//!   Clock        -> now                      clock/
//!   limits       -> Plan of charges          limiter.rs, tidegate_core::Plan
//!   MemoryStore  -> one Outcome per charge   memory/, by the algorithms of tidegate_core
//!   merge        -> Decision                 tidegate_core::Decision
//! ```
//!
//! A test hands in its own time and never sleeps:
//!
//! ```
//! use std::time::Duration;
//! use tidegate::{Limiter, ManualClock};
//!
//! let clock = ManualClock::default();
//! let limiter = Limiter::builder().limit("1 per minute").clock(clock.clone()).build()?;
//! assert!(limiter.check("key", 1).is_allowed());
//! assert!(!limiter.check("key", 1).is_allowed());
//! clock.advance(Duration::from_secs(60));
//! assert!(limiter.check("key", 1).is_allowed());
//! # Ok::<(), tidegate::LimiterError>(())
//! ```
//!
//! # When, instead of whether
//!
//! A limiter says yes or no. A [`Pacer`] lets its callers wait, as tasks of any runtime or as threads, so that they
//! go at a steady rate: what Guava's `RateLimiter` does.
//!
//! ```
//! use std::time::Duration;
//! use tidegate::Pacer;
//!
//! let pacer = Pacer::new("500/s")?;
//! assert_eq!(pacer.acquire_blocking(3), Duration::ZERO);
//! // The next caller pays for those three. In a task: `pacer.acquire(1).await`.
//! assert!(pacer.acquire_blocking(1) <= Duration::from_millis(6));
//! # Ok::<(), tidegate::PacerError>(())
//! ```
//!
//! # Features
//!
//! | feature | adds | needs |
//! |---|---|---|
//! | `calendar`, on by default | windows that are days, weeks or months of a time zone | jiff with its time zones |
//! | `rules` | rules from files, and `Engine` | regex, a YAML parser |
//! | `redis` | counters in Redis or Valkey, shared by many processes | tokio, TLS |
//!
//! Each works without the others. Without any, there are limiters with every other kind of limit, locks and pacers. A
//! limit that needs a feature which is off is refused, and the error names the feature.
//!
//! # Rules
//!
//! With the feature `rules`, an `Engine` decides requests by rules from files: which limits apply to whom, what happens
//! over them, changed under traffic without resetting anybody. `docs/rules.md` in the repository is the reference.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_debug_implementations)]

mod blocking;
mod clock;
#[cfg(feature = "rules")]
mod engine;
mod fence_gate;
mod grant;
pub mod guide;
mod holding;
mod limiter;
mod locks;
mod memory;
mod pacer;
#[cfg(all(feature = "redis", not(loom)))]
pub mod redis;
#[cfg(feature = "rules")]
pub mod rules;
pub mod store;
mod sync;
mod waiting;

pub use clock::{Clock, ClockStats, ManualClock, ManualSleep, SystemClock, SystemSleep, Timer};
#[cfg(feature = "rules")]
pub use engine::{
    ActiveRules, CheckedOne, CheckingOne, Decided, Deciding, EXPLAINED_RULES_MAX, Engine, EngineError,
    ExplainedDescriptor, ExplainedLimit, ExplainedRule, Explanation, SignalLevel, StageTimes, Standing,
    UnknownSignal,
};
pub use fence_gate::{FenceGate, StaleFence};
pub use holding::Holding;
pub use limiter::{IntoLimit, LIMITS_MAX, Limiter, LimiterBuilder, LimiterError};
pub use locks::Locks;
pub use memory::{
    Found, Lease, MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN, MemoryStats, MemoryStore, Outcomes,
    OutcomesIntoIter, Release, Renewal, Restored, SNAPSHOT_EVERY_MIN, SnapshotAttempts, SnapshotError,
    SnapshotReport, SnapshotWriter,
};
pub use pacer::{
    COLD_FACTOR_TERM_MAX, ColdFactor, IntoRate, Pacer, PacerBuilder, PacerError, PermitsRefused,
};
pub use store::{Fallback, NodeStore, Store, StoreFailure};
pub use tidegate_core::algorithm::{Align, CalendarSpec, Weekday};
pub use tidegate_core::headers;
pub use tidegate_core::{
    Algorithm, AlgorithmName, Charge, ChargedAt, Counter, CounterId, Decision, DenyCache, Fence, IntoKey,
    IpKey, KeyBuf, KeyDigits, LeaseToken, Limit, LimitBuilder, LimitError, LimitSpec, Mode, Nanos, NotAToken,
    OnStoreFailure, Op, Outcome, Plan, PlanFull, Policy, Rate, Role, Timestamp, Verdict, Wait,
};
pub use waiting::{LATE_NS_MAX, QUEUE_MAX_DEFAULT, Refusal, Turn, WAITERS_MAX};

/// The examples of the README are compiled, and most of them run, like any other.
#[cfg(all(doctest, feature = "calendar", feature = "rules"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
