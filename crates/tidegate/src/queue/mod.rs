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
mod resettable_sleep;
mod pace_forecast;
mod wait_queue;
mod group;
mod queues;
#[cfg(all(test, loom))]
mod queues_loom_tests;
mod slot;
#[cfg(test)]
mod testing;

pub(crate) use acquire::{Acquire, AcquireOutput, Attempt, AttemptResult, AcquireFailure, acquire};
pub(crate) use forecast::Forecaster;
pub(crate) use group::{QueueGroup, QueueGroups};
pub(crate) use queues::WaitQueues;
pub use queues::WAITERS_MAX;
#[cfg(feature = "rules")]
pub(crate) use {
    wait_queue::Ticket,
    queues::{Admission, QueueObserver, Postponement, AskContext},
    slot::{JoinPolicy, WaitContext, NewWaiter, QueueSlot, WakeReason},
};

use tidegate_core::Nanos;

/// The most requests that wait for one key, unless a limiter is built with another bound.
pub const QUEUE_MAX_DEFAULT: usize = 16_384;
/// How late a request may be woken and still be decided as of the instant it was due.
pub const LATE_NS_MAX: u64 = 10_000_000;

/// Why a request does not wait, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Refusal {
    /// It asks for more than its limits can ever hold.
    Never,
    /// It cannot be admitted within its maximum wait. If it is known, it would be after `wait`.
    TooLong {
        /// From when it asked until it would be admitted, behind all requests that wait already.
        wait: Option<Nanos>,
    },
    /// The wait queue is full.
    QueueFull,
}
