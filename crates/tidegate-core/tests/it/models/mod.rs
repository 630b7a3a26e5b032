//! The simplest possible model of each algorithm. The real algorithms must match them.
//!
//! A model keeps no running state. It has the whole past of a key, all requests that were counted, and recounts it from
//! scratch to decide one thing: is this request admitted? Everything else follows from the same question at other
//! times and with other costs: [`verify`] checks an outcome that way and [`predict`] computes one.
//!
//! Instants are `u128` here, because "the request is admitted after its `retry_after`" may be about an instant after
//! the end of [`Timestamp`](tidegate_core::Timestamp).

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod calendar;
mod concurrency;
mod fixed_window;
mod gcra;
mod leaky_bucket;
pub mod observed_bucket;
pub mod predict;
mod sliding_log;
mod sliding_window;
mod sub_windows;
mod token_bucket;
pub mod verify;

use std::fmt::Debug;
use std::rc::Rc;

use tidegate_core::algorithm::CountDenied;
use tidegate_core::{AlgorithmName, LimitSpec};

/// A request: units at an instant of the caller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: u128,
    pub cost: u64,
}

/// What an algorithm means.
pub trait Model: Debug {
    /// Whether `request` is admitted. `past` has the requests counted so far, in the order in which they came.
    fn admits(&self, past: &[Event], request: Event) -> bool;

    /// The same without `min_interval`, which `remaining` ignores.
    fn has_room(&self, past: &[Event], request: Event) -> bool {
        self.admits(past, request)
    }

    /// The largest cost that fits a key never seen.
    fn capacity(&self) -> u64;

    /// The units counted beyond the limit for a request at `at`.
    fn over(&self, _past: &[Event], _at: u128) -> u64 {
        0
    }

    /// Which denied requests are counted too.
    fn count_denied(&self) -> CountDenied {
        CountDenied::Never
    }

    /// How long the last request of `past`, which came at `at`, is held. Zero except for a queue.
    fn delay(&self, _past: &[Event], _at: u128) -> u128 {
        0
    }
}

/// A key with a limit: a model and a past.
#[derive(Clone, Debug)]
pub struct ModelKey {
    model: Rc<dyn Model>,
    past: Vec<Event>,
}

impl ModelKey {
    /// A key that was never seen. The spec must be valid.
    pub fn new(spec: &LimitSpec) -> Self {
        Self { model: model_of(spec), past: Vec::new() }
    }

    /// The same past with another limit.
    pub fn with_limit(&self, spec: &LimitSpec) -> Self {
        Self { model: model_of(spec), past: self.past.clone() }
    }

    pub fn admits(&self, request: Event) -> bool {
        self.model.admits(&self.past, request)
    }

    pub fn has_room(&self, request: Event) -> bool {
        self.model.has_room(&self.past, request)
    }

    pub fn capacity(&self) -> u64 {
        self.model.capacity()
    }

    pub fn over(&self, at: u128) -> u64 {
        self.model.over(&self.past, at)
    }

    /// The key after a request that all limits of the plan allowed or denied.
    #[must_use]
    pub fn after(&self, request: Event, passed: bool) -> Self {
        let mut after = self.clone();
        let is_counted = match self.model.count_denied() {
            CountDenied::Never => passed,
            CountDenied::Always => true,
            CountDenied::IfOver => passed || !self.admits(request),
        };
        if request.cost > 0 && is_counted {
            after.past.push(request);
        }
        after
    }

    /// How long `request`, which just passed, is held.
    pub fn delay(&self, request: Event) -> u128 {
        if request.cost == 0 { 0 } else { self.model.delay(&self.past, request.at) }
    }
}

fn model_of(spec: &LimitSpec) -> Rc<dyn Model> {
    let (limit, window) = (spec.limit, spec.per_ns);
    let burst = spec.burst.unwrap_or(limit);
    let count_denied = spec.count_denied.unwrap_or_default();
    match spec.algorithm.unwrap_or_default() {
        AlgorithmName::Gcra => Rc::new(gcra::Gcra { limit, window, burst }),
        AlgorithmName::TokenBucket => Rc::new(token_bucket::TokenBucket { limit, window, burst }),
        AlgorithmName::LeakyBucket => {
            Rc::new(leaky_bucket::LeakyBucket { limit, window, queue: spec.queue.unwrap_or(limit) })
        }
        AlgorithmName::FixedWindow => {
            let align = spec.align.clone().unwrap_or_default();
            Rc::new(fixed_window::FixedWindow { limit, window, align, count_denied })
        }
        AlgorithmName::SlidingLog => {
            let min_interval = spec.min_interval_ns.unwrap_or(0);
            Rc::new(sliding_log::SlidingLog { limit, window, count_denied, min_interval })
        }
        AlgorithmName::Concurrency => {
            Rc::new(concurrency::Concurrency { limit, ttl: spec.ttl_ns.unwrap_or(0) })
        }
        AlgorithmName::SlidingWindow => Rc::new(sliding_window::SlidingWindow { limit, window }),
        AlgorithmName::SubWindows => {
            let (number, strict) = (spec.sub_windows.unwrap_or(60), spec.strict.unwrap_or(true));
            Rc::new(sub_windows::SubWindows { limit, window, number, strict })
        }
    }
}

fn sum_of(events: impl Iterator<Item = Event>) -> u128 {
    events.map(|event| u128::from(event.cost)).sum()
}

/// `past` with every instant replaced by its `stamp`, but never before the previous one: a request whose time is older
/// than the state counts at the time of the state.
fn stamped(past: &[Event], stamp: impl Fn(u128) -> u128) -> Vec<Event> {
    let mut newest = 0;
    let mut stamped = past.to_vec();
    for event in &mut stamped {
        newest = stamp(event.at).max(newest);
        event.at = newest;
    }
    stamped
}

/// Converts for signed arithmetic. Every quantity here is far below 2^127.
fn signed(number: impl Into<u128>) -> i128 {
    i128::try_from(number.into()).expect("below 2^127")
}
