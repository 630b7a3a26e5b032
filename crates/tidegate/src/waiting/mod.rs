//! Waiting for a limit: instead of being denied, a request is held until it is admitted.
//!
//! First come, first served. The requests that wait for a key are in its [wait queue](queues). Only the head is awake: it asks the
//! store, sleeps until the store can admit it, takes its units and wakes the next. So a key has one timer, and nothing is charged
//! before it is used: a request that is dropped while it waits leaves the queue as if it had never been there.
//!
//! ```text
//! Limiter::acquire  ->  acquire.rs           \
//!                                              slot.rs  ->  queues.rs  ->  queue.rs, forecast.rs, pace_forecast.rs
//! Engine::decide    ->  engine/wait_task.rs  /
//! ```
//!
//! No lock is held while a store is asked, so limiters and engines wait over any store by one protocol. What the memory store can do
//! besides:
//!
//! - Exact [forecasts](forecast): a request with a `max_wait` is refused at once if the requests before it leave no room in time.
//!   Leases are released at any time, so a request for a concurrency limit waits until its time is over.
//! - Decisions at any instant. A timer wakes late, by microseconds or, on a busy machine, by milliseconds. A request that was due is
//!   decided as of the instant it was due, if that was no longer than [`LATE_NS_MAX`] ago, so lateness does not add up. In exchange,
//!   requests may leave closer together than they were decided, by that much at most.
//!
//! Over a shared store the reply says when the head may fit, and [the limit's release rate](pace_forecast) when requests behind it may.

mod acquire;
mod forecast;
#[cfg(all(test, loom))]
mod limiter_loom_tests;
mod limiter_request;
mod nap;
mod pace_forecast;
mod queue;
mod queue_group;
mod queues;
#[cfg(all(test, loom))]
mod queues_loom_tests;
mod slot;
#[cfg(test)]
mod testing;

pub(crate) use limiter_request::LimiterRequest;
pub(crate) use queue_group::{QueueGroup, QueueGroups};
pub(crate) use queues::Queues;
pub use queues::WAITERS_MAX;
#[cfg(feature = "rules")]
pub(crate) use {
    forecast::Forecaster,
    queue::Ticket,
    queues::{Admission, Observed, Postponement, Turn as QueueTurn},
    slot::{Company, Delayed, Newcomer, QueueSlot, Woken},
};

use std::fmt;
use std::time::Duration;

use tidegate_core::{Decision, IntoKey, Nanos};

use crate::blocking::block_on;
use crate::{Holding, Limiter, Timer};

/// The most requests that wait for one key, unless a limiter is built with another bound.
pub const QUEUE_MAX_DEFAULT: usize = 16_384;
/// How late a request may be woken and still be decided as of the instant it was due.
pub const LATE_NS_MAX: u64 = 10_000_000;

/// How waiting for a limit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// Admitted and charged, after a wait.
    Admitted {
        /// What the limits said.
        decision: Decision,
        /// From when it asked until it was due.
        waited: Nanos,
    },
    /// Not admitted, and not charged.
    Refused(Refusal),
}

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

impl Turn {
    /// Whether the request was admitted.
    pub fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted { .. })
    }
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

/// Waiting, first come first served. Of requests for one key, those that [`check`](Limiter::check) do not stand in
/// line: a program that waits for a key should always wait for it.
impl<C: Timer> Limiter<C> {
    /// Waits until `cost` units for `key` are admitted, and takes them.
    ///
    /// What a concurrency limit gives this way is held for the limit's ttl, as with [`check`](Self::check); to hold it
    /// and give it back, [`until_acquired`](Self::until_acquired).
    ///
    /// Dropped before it is done, the future leaves no hole in the line and has charged nothing. It has to be polled
    /// when it is woken, for those behind it wait for it.
    ///
    /// ```
    /// # use tidegate::{Limiter, Turn};
    /// # async fn example() -> Result<(), tidegate::LimiterError> {
    /// let limiter = Limiter::new("10/s burst 1")?;
    /// for page in 1..=3 {
    ///     if let Turn::Refused(why) = limiter.until_ready("crawler", 1).await {
    ///         println!("page {page} is not fetched: {why}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn until_ready(&self, key: impl IntoKey, cost: u64) -> impl Future<Output = Turn> {
        LimiterRequest::new(self, key.key_bytes().as_ref(), cost).turn(None)
    }

    /// As [`until_ready`](Self::until_ready) for a request that is worth no more than `max_wait`: refused at once if
    /// that cannot be met.
    pub fn delay(&self, key: impl IntoKey, cost: u64, max_wait: Duration) -> impl Future<Output = Turn> {
        LimiterRequest::new(self, key.key_bytes().as_ref(), cost).turn(Some(max_wait))
    }

    /// As [`until_ready`](Self::until_ready), and holds what concurrency limits gave until it is dropped. A lease
    /// that is given back wakes the request in front.
    pub fn until_acquired(
        &self,
        key: impl IntoKey,
        cost: u64,
    ) -> impl Future<Output = Result<Holding<'_, C>, Refusal>> {
        LimiterRequest::new(self, key.key_bytes().as_ref(), cost).holding(None)
    }

    /// As [`until_acquired`](Self::until_acquired) for a request that is worth no more than `max_wait`.
    pub fn acquire_within(
        &self,
        key: impl IntoKey,
        cost: u64,
        max_wait: Duration,
    ) -> impl Future<Output = Result<Holding<'_, C>, Refusal>> {
        LimiterRequest::new(self, key.key_bytes().as_ref(), cost).holding(Some(max_wait))
    }

    /// As [`until_ready`](Self::until_ready), with the thread at hand.
    pub fn until_ready_blocking(&self, key: impl IntoKey, cost: u64) -> Turn {
        block_on(self.until_ready(key, cost))
    }

    /// As [`delay`](Self::delay), with the thread at hand.
    pub fn delay_blocking(&self, key: impl IntoKey, cost: u64, max_wait: Duration) -> Turn {
        block_on(self.delay(key, cost, max_wait))
    }

    /// As [`until_acquired`](Self::until_acquired), with the thread at hand.
    pub fn until_acquired_blocking(&self, key: impl IntoKey, cost: u64) -> Result<Holding<'_, C>, Refusal> {
        block_on(self.until_acquired(key, cost))
    }

    /// As [`acquire_within`](Self::acquire_within), with the thread at hand.
    pub fn acquire_within_blocking(
        &self,
        key: impl IntoKey,
        cost: u64,
        max_wait: Duration,
    ) -> Result<Holding<'_, C>, Refusal> {
        block_on(self.acquire_within(key, cost, max_wait))
    }
}
