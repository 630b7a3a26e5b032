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
//! The [`guide`] helps to choose an algorithm, and shows waiting, leases, locks, calendars and snapshots.
//!
//! # How a request flows
//!
//! A limiter decides by its own limits:
//!
//! ```text
//! Limiter::check(key, cost)
//!   Clock   -> now                      clock/
//!   limits  -> Plan of charges          limiter/, tidegate_core::Plan
//!   Store   -> one Outcome per charge   memory/ or redis/, with the algorithms of tidegate_core
//!   merge   -> Decision                 tidegate_core::Decision
//! ```
//!
//! An engine (feature `rules`) first finds the rules that match the request:
//!
//! ```text
//! Engine::decide(&request)              engine/
//!   rules   -> limits that match        tidegate_core::rules
//!   limits  -> Plan of charges
//!   Store   -> one Outcome per charge
//!   merge   -> Decision
//!   rules   -> Answer                   what each rule does when its limit is exceeded
//! ```
//!
//! # Layout
//!
//! ```text
//! clock/     time, and sleeping until an instant
//! limiter/   limits over a store
//! leases/    locks by key, their guards and renewal, fencing tokens
//! pacer/     permits at a steady rate
//! queue/     wait queues: requests that wait for a limit
//! store/     the store interface, and the fallback over a shared store
//! memory/    the store in memory, and its snapshots
//! redis/     the store on Redis (feature `redis`)
//! etcd/      leases in etcd (feature `etcd`)
//! rules/     rules from files (feature `rules`)
//! overrides/ limits of single keys, set while the server runs (feature `rules`)
//! config/    the config store: the interface, and a store in memory (feature `rules`)
//! stored_rules/ rules in the config store, with their history (feature `rules`)
//! engine/    rules over a store (feature `rules`)
//! identity/  attributes of real HTTP requests (feature `identity`)
//! tower/     layers for HTTP servers and clients (feature `tower`)
//! guide/     the guide
//! ```
//!
//! # Time in tests
//!
//! A test passes in its own clock and never sleeps:
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
//! # Pacing
//!
//! A limiter admits or denies. A [`Pacer`] makes its callers wait, as tasks of any runtime or as threads, so that they
//! proceed at a steady rate, like Guava's `RateLimiter`.
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
//! # Naming of methods
//!
//! Limiters, locks, pacers and engines use the same names: `try_x` never waits, `x` waits, and `x_within` waits for a
//! maximum time. They return a guard (a limiter returns [`Admitted`]), or [`Refused`] with the reason. `check`, `peek`
//! and `reserve` never wait for a limit. Methods that end in `_blocking` block the current thread.
//!
//! # One store for many processes
//!
//! Counters are in the memory of the process, or in Redis (feature `redis`), where any number of processes share them.
//! Over a shared store the same calls are futures: `limiter.check("user:42", 1).await`. See [`LimiterBuilder::store`]
//! and [`Locks::with_store`].
//!
//! # Features
//!
//! | feature | adds | needs |
//! |---|---|---|
//! | `calendar`, on by default | windows that are days, weeks or months of a time zone | jiff with its time zones |
//! | `rules` | rules from files, and `Engine` | regex, a YAML parser |
//! | `redis` | counters in Redis or Valkey, shared by many processes | tokio, TLS |
//! | `identity` | attributes of HTTP requests: client address, path, user | regex, base64 |
//! | `jwt` | users from JSON Web Tokens; includes `identity` | ring, JSON |
//! | `tower` | layers for HTTP servers and clients: axum, tonic, hyper, reqwest; includes `identity` | http, tower-service |
//! | `etcd` | locks and other leases in etcd, which never grants a lock twice | tokio, TLS, hyper |
//!
//! The features are independent. With none of them, limiters (with every other kind of limit), locks and pacers work. A
//! limit that needs a missing feature is an error that names the feature.
//!
//! # Rules
//!
//! With the feature `rules`, an `Engine` decides requests by rules from files. Rules say which limits apply to a
//! request and what happens when a limit is exceeded. They can change under traffic, and counters keep their values.
//! The reference is `docs/rules.md` in the repository.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_debug_implementations)]

mod background;
mod blocking;
pub mod clock;
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub mod config;
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub mod engine;
#[cfg(all(feature = "etcd", not(loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "etcd")))]
pub mod etcd;
pub mod guide;
#[cfg(feature = "identity")]
#[cfg_attr(docsrs, doc(cfg(feature = "identity")))]
pub mod identity;
pub mod leases;
pub mod limiter;
mod memory;
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub mod overrides;
pub mod pacer;
mod queue;
#[cfg(all(feature = "redis", not(loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub mod redis;
mod refused;
#[cfg(any(feature = "etcd", feature = "redis", feature = "rules"))]
mod regular_file;
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub mod rules;
pub mod store;
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub mod stored_rules;
mod sync;
#[cfg(all(any(feature = "etcd", feature = "redis"), not(loom)))]
mod tls;
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub mod tower;

/// Snapshots: a memory store in a file, so that counters survive a restart. See the [guide](crate::guide::restarts).
pub mod snapshot {
    pub use crate::memory::{
        RestoreStatus, Restored, SNAPSHOT_EVERY_MIN, SnapshotAttempts, SnapshotError, SnapshotReport,
        SnapshotWriter,
    };
}

pub use clock::{Clock, ClockStats, ManualClock, SystemClock, Timer};
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub use engine::{DecideOutput, Engine, EngineError};
pub use leases::{FencingGuard, LockGuard, Locks, StaleFencingToken};
pub use limiter::{Admitted, IntoLimit, LIMITS_MAX, Limiter, LimiterBuilder, LimiterError, Reservation};
pub use memory::{Lease, MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN, MemoryStats, MemoryStore, Release, Renewal};
pub use pacer::{ColdFactor, IntoRate, Pacer, PacerBuilder, PacerError};
pub use queue::{LATE_NS_MAX, QUEUE_MAX_DEFAULT, WAITERS_MAX};
pub use refused::Refused;
pub use store::StoreError;
pub use tidegate_core::algorithm::{Align, CalendarSpec, Weekday};
pub use tidegate_core::headers;
pub use tidegate_core::{
    Algorithm, AlgorithmName, Decision, FencingToken, IntoKey, IpKey, LeaseToken, Limit, LimitBuilder,
    LimitError, LimitSpec, Mode, Nanos, OnStoreFailure, OutcomeKind, ParseLeaseTokenError, Rate, Timestamp,
    Wait,
};

pub(crate) use memory::Outcomes;
#[cfg(feature = "rules")]
pub(crate) use queue::Refusal;

/// Compiles the examples of the README, and runs most of them.
#[cfg(all(doctest, feature = "calendar", feature = "redis", feature = "rules", feature = "tower"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The same for docs/tower.md.
#[cfg(all(doctest, feature = "rules", feature = "tower"))]
#[doc = include_str!("../../../docs/tower.md")]
struct TowerPage;

/// The same for docs/library.md.
#[cfg(all(doctest, feature = "calendar", feature = "redis", feature = "rules"))]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryPage;
