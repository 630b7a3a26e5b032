//! Waiting for a limit: a request that is not admitted waits in a queue until it is.
//!
//! ```text
//! Limiter::acquire  ->  acquire.rs           \                                   wait_queue.rs
//!                                              slot.rs  ->  wait_queues.rs  ->   forecast.rs
//! Engine::decide    ->  engine/wait_task.rs  /                                   rate_forecast.rs
//! ```
//!
//! # Protocol
//!
//! Each key has a [wait queue](wait_queues), first come first served. The limiter or the engine keeps the queues, not
//! the store, because the process waits. Limiters and engines use the same protocol over any store.
//!
//! Only the head of a queue is awake. It asks the store, sleeps until the store can admit it, takes its units and wakes
//! the next waiter. So a key needs one timer. Nothing is charged in advance, so a request that is dropped while it
//! waits has nothing to refund. The exception is an admitted request that a leaky bucket delays: its charge is
//! refunded, except from windows that have passed meanwhile.
//!
//! No lock is held while the store is asked, so units may come back during the call. Therefore a refund or a release
//! counts a wake in the queue of its key. The head reads the count before it asks, and compares it, with the queue
//! locked, before it sleeps. A request that asks before it is in a queue observes the queues that it may have to enter,
//! so that wakes are counted there. `loom_tests.rs` checks this protocol, alone and with a limiter over it.
//!
//! # Over the memory store
//!
//! - Exact [forecasts](forecast): a request with a `max_wait` is refused immediately if the requests before it leave no
//!   room in time. The requests of the queue are decided on copies of the states (`memory/forecast.rs`). The copy after
//!   the last request is kept, so a new request takes one step. The whole queue is forecast again only if an answer
//!   depends on it: when the head is later than its forecast, and before a new request is refused after another one
//!   left. Leases can be released at any time, so a request for a concurrency limit waits until its deadline.
//! - Decisions in the past. A timer wakes late, by microseconds or, on a busy machine, by milliseconds. A request is
//!   decided as of the instant at which it was due, if that was at most [`LATE_NS_MAX`] (10 ms) ago. Otherwise lateness
//!   would add up: with a burst of one, each wake would reduce the release rate. In exchange, requests may leave closer
//!   together than they were decided, by at most that time.
//!
//! # Over a shared store
//!
//! The reply says when the head may be admitted, and the limit's [release rate](rate_forecast) says when the requests
//! behind it may be. A new request is refused only if it would be too late even at that rate. Other nodes may refund
//! units, so the head polls once a second. If it waits for leases it also watches their keys (`Store::watch`): Redis
//! sends a message when another node releases one. Where the store cannot do that, the head polls ten times a second.
//! If units remain after the head took its own, the requests behind it ask at the same time.
//!
//! # Queue groups
//!
//! The limiters of one rule over one store form a [queue group](group), whether they were built separately or one
//! replaced the other. Each limiter has its own queues. Units that are given back to one of them wake the heads of all.
//!
//! # Requests held by rules
//!
//! A request waits in one queue at a time, and there is a queue for each counter and key of a `delay` limit. Tickets
//! are numbered across all queues, so a request keeps its position when it moves to another queue. A change of the
//! rules or of a signal is counted before the heads of all queues are woken. Each request compares that count before it
//! sleeps.

mod acquire;
mod forecast;
mod group;
#[cfg(all(test, loom))]
mod limiter_loom_tests;
#[cfg(all(test, loom))]
mod loom_tests;
mod rate_forecast;
mod resettable_sleep;
mod slot;
mod wait_queue;
mod wait_queues;

use tidegate_core::Nanos;

pub(crate) use acquire::{Acquire, AcquireFailure, AcquireOutput, Attempt, AttemptResult, acquire};
pub(crate) use forecast::Forecaster;
pub(crate) use group::{QueueGroup, QueueGroups};
pub use wait_queues::WAITERS_MAX;
pub(crate) use wait_queues::WaitQueues;

/// What `engine/wait_task.rs` needs.
#[cfg(feature = "rules")]
pub(crate) use {
    slot::{JoinPolicy, NewWaiter, QueueSlot, WaitContext, WakeReason},
    wait_queue::Ticket,
    wait_queues::{Admission, AskContext, Postponement, QueueObserver},
};

/// The most requests that wait for one key, unless the limiter's builder sets another maximum.
pub const QUEUE_MAX_DEFAULT: usize = 16_384;
/// How late a request may wake and still be decided as of the instant at which it was due.
pub const LATE_NS_MAX: u64 = 10_000_000;

/// Why a request does not wait, or stops waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Refusal {
    /// The request costs more than its limits can ever admit.
    Never,
    /// The request cannot be admitted within its maximum wait.
    TooLong {
        /// From when the request was made until it would be admitted, behind all requests that wait already. None if it
        /// is not known.
        wait: Option<Nanos>,
    },
    /// The wait queue is full.
    QueueFull,
}
