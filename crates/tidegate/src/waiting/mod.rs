//! Waiting for a limit: instead of being denied, a request is held until it is admitted.
//!
//! First come, first served. The requests that wait for a key stand in a line; only the one in front is awake: it
//! asks the store, sleeps until the store can say yes, takes its units and wakes the next. So a key has one timer,
//! nobody is woken in vain, and nothing is charged before it is used: a request that is dropped while it waits steps
//! out of the line as if it had never stood there.
//!
//! A request with a `max_wait` is refused at once if those in front of it leave no room in time. That is known by
//! playing them out on copies of the states ([`Foresight`](crate::memory::Foresight)), again when others took units past
//! the line, and before a newcomer is refused after somebody left it. Nobody knows when leases are given back, so in
//! front of a concurrency limit a request waits for its turn until its time is over.
//!
//! A timer wakes late, by microseconds or, on a busy machine, by milliseconds. A request that was due is decided as
//! of the instant it was due, if that was no longer than [`LATE_NS_MAX`] ago, so lateness does not add up and the pace
//! is the limit's. In exchange, requests may leave closer together than they were decided, by that much at most.

mod future;
mod kin;
#[cfg(feature = "rules")]
mod later;
#[cfg(all(test, loom, feature = "rules"))]
mod later_loom_tests;
#[cfg(all(test, loom))]
mod loom_tests;
mod nap;
mod of_limiter;
mod playing;
mod queue;
mod queues;
mod request;
mod unlocked;

pub(crate) use future::UntilAcquired;
pub(crate) use kin::{Kin, Kins};
pub(crate) use of_limiter::OfLimiter;
pub(crate) use queues::Queues;
pub use queues::WAITERS_MAX;
#[cfg(feature = "rules")]
pub(crate) use {
    later::{Admission, Forecast, Look, Postponed, PutOff, Stood},
    nap::Nap,
    queue::{Exit, Ticket, Waiter},
    request::Forecaster,
};

use std::fmt;

use tidegate_core::Nanos;

/// The most requests that wait for one key, unless a limiter is built with another bound.
pub const QUEUE_MAX_DEFAULT: usize = 16_384;
/// How late a request may be woken and still be decided as of the instant it was due.
pub const LATE_NS_MAX: u64 = 10_000_000;

/// Why a request does not wait, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Refusal {
    /// It asks for more than its limits can ever hold.
    Never,
    /// It cannot be admitted in `max_wait`. If it is known, it would be after `wait`.
    TooLong {
        /// From when it asked until it would be let go, all that wait in front of it included.
        wait: Option<Nanos>,
    },
    /// As many wait already as may.
    QueueFull,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("it asks for more than the limit can ever hold"),
            Self::TooLong { wait: Some(wait) } => write!(f, "it would have to wait for {wait}"),
            Self::TooLong { wait: None } => f.write_str("its turn did not come in time"),
            Self::QueueFull => f.write_str("as many wait already as may"),
        }
    }
}

impl std::error::Error for Refusal {}
