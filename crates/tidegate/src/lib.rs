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
//!   limits       -> Plan of charges          limiter/, tidegate_core::Plan
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
//! assert_eq!(pacer.acquire_blocking(3)?.waited(), Duration::ZERO);
//! // The next caller pays for those three. In a task: `pacer.acquire(1).await?`.
//! assert!(pacer.acquire_blocking(1)?.waited() <= Duration::from_millis(6));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # One scheme of verbs
//!
//! Limiters, locks, pacers and engines take and wait by the same verbs: `try_x` never waits, `x` waits, and `x_within` waits for a
//! maximum time. They return `Ok` with a guard, for a limiter [`Admitted`], or [`Refused`], which says why. `check`, `peek` and
//! `reserve` decide at once. The suffix `_blocking` waits with the thread at hand.
//!
//! # One store for many processes
//!
//! Counters are in the memory of the process, or in Redis (feature `redis`), where any number of processes share them. Over a shared
//! store the same calls are futures: `limiter.check("user:42", 1).await`. See [`LimiterBuilder::store`] and [`Locks::over`].
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

mod background;
mod blocking;
pub mod clock;
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub mod engine;
mod fence_gate;
mod grant;
pub mod guide;
pub mod limiter;
pub mod locks;
mod memory;
pub mod pacer;
mod part;
#[cfg(all(feature = "redis", not(loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub mod redis;
mod refused;
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub mod rules;
pub mod snapshot;
pub mod store;
mod sync;
mod queue;

pub use clock::{Clock, ClockStats, ManualClock, SystemClock, Timer};
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub use engine::{DecideOutput, Engine, EngineError};
pub use fence_gate::{FencingGuard, StaleFencingToken};
pub use limiter::{Admitted, IntoLimit, LIMITS_MAX, Limiter, LimiterBuilder, LimiterError, Reservation};
pub use locks::{LockGuard, Locks};
pub use memory::{Lease, MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN, MemoryStats, MemoryStore, Release, Renewal};
pub use pacer::{ColdFactor, IntoRate, Pacer, PacerBuilder, PacerError};
pub use refused::Refused;
pub use store::StoreError;
pub use tidegate_core::algorithm::{Align, CalendarSpec, Weekday};
pub use tidegate_core::headers;
pub use tidegate_core::{
    Algorithm, AlgorithmName, Decision, FencingToken, IntoKey, IpKey, LeaseToken, Limit, LimitBuilder, LimitError,
    LimitSpec, Nanos, ParseLeaseTokenError, OnStoreFailure, Rate, Timestamp, OutcomeKind, Wait,
};
pub use queue::{LATE_NS_MAX, QUEUE_MAX_DEFAULT, WAITERS_MAX};

pub(crate) use memory::Outcomes;
#[cfg(feature = "rules")]
pub(crate) use queue::Refusal;

/// The examples of the README are compiled, and most of them run, like any other.
#[cfg(all(doctest, feature = "calendar", feature = "redis", feature = "rules"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
