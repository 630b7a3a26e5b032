//! The plainest possible model of each algorithm, for the real ones to be held to.
//!
//! A model keeps no running state. It has the whole past of a key, every request that was counted, and recounts
//! it from scratch to answer one question: is this request admitted? All else is derived from that answer, by
//! asking it again at other times and for other costs: [`judge`] checks an outcome that way and [`foretell`]
//! works one out.
//!
//! Instants are `u128` here because "the request is admitted after its `retry_after`" may be about an instant
//! past the end of [`Timestamp`](tidegate_core::Timestamp).

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod calendar;
mod concurrency;
mod fixed_window;
pub mod predict;
mod gcra;
pub mod judge;
mod leaky_bucket;
pub mod observed_bucket;
mod sliding_log;
mod sliding_window;
mod sub_windows;
mod token_bucket;

use std::fmt::Debug;
use std::rc::Rc;

use tidegate_core::{AlgorithmName, LimitSpec};

/// A request: so many units at this instant, as its caller said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: u128,
    pub cost: u64,
}

/// What an algorithm means.
pub trait Model: Debug {
    /// Whether `asked` is admitted after `past`, the requests counted so far in the order they came.
    fn admits(&self, past: &[Event], asked: Event) -> bool;

    /// The same without `min_interval`, which `remaining` ignores.
    fn has_room(&self, past: &[Event], asked: Event) -> bool {
        self.admits(past, asked)
    }

    /// The largest cost that a key never seen admits.
    fn capacity(&self) -> u64;

    /// Whether denied requests are counted too.
    fn counts_denied(&self) -> bool {
        false
    }

    /// How long the last of `past`, which asked at `at`, is held. Only a queue holds anything.
    fn delay(&self, _past: &[Event], _at: u128) -> u128 {
        0
    }
}

/// A key under a limit: a model and a past.
#[derive(Clone, Debug)]
pub struct ModelKey {
    model: Rc<dyn Model>,
    past: Vec<Event>,
}

impl ModelKey {
    /// A key that `spec` has never seen. The spec is taken to be valid.
    pub fn new(spec: &LimitSpec) -> Self {
        Self { model: model_of(spec), past: Vec::new() }
    }

    /// The same past under another limit.
    pub fn with_limit(&self, spec: &LimitSpec) -> Self {
        Self { model: model_of(spec), past: self.past.clone() }
    }

    pub fn admits(&self, asked: Event) -> bool {
        self.model.admits(&self.past, asked)
    }

    pub fn has_room(&self, asked: Event) -> bool {
        self.model.has_room(&self.past, asked)
    }

    pub fn capacity(&self) -> u64 {
        self.model.capacity()
    }

    /// The key after a request that passed, or did not, by the word of all limits it touched.
    #[must_use]
    pub fn after(&self, asked: Event, passed: bool) -> Self {
        let mut after = self.clone();
        if asked.cost > 0 && (passed || self.model.counts_denied()) {
            after.past.push(asked);
        }
        after
    }

    /// How long `asked`, the request that just passed, is held.
    pub fn delay(&self, asked: Event) -> u128 {
        if asked.cost == 0 { 0 } else { self.model.delay(&self.past, asked.at) }
    }
}

fn model_of(spec: &LimitSpec) -> Rc<dyn Model> {
    let (limit, window) = (spec.limit, spec.per_ns);
    let burst = spec.burst.unwrap_or(limit);
    let count_denied = spec.count_denied.unwrap_or(false);
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

/// `past` with every instant replaced by `stamp` of it, but never before the one in front of it: a caller whose
/// time is older than the state's own is counted at the state's own.
fn stamped(past: &[Event], stamp: impl Fn(u128) -> u128) -> Vec<Event> {
    let mut own = 0;
    let mut moved = past.to_vec();
    for event in &mut moved {
        own = stamp(event.at).max(own);
        event.at = own;
    }
    moved
}

/// For signed arithmetic: every quantity here is far below 2^127.
fn signed(number: impl Into<u128>) -> i128 {
    i128::try_from(number.into()).expect("below 2^127")
}
