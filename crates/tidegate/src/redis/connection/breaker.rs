//! The circuit breaker of one server: it stops calls to a server that keeps failing.
//!
//! It opens after three failed pipelines in a row. Then the connection is dropped and nothing is sent, until
//! a probe in the background succeeds and closes it. A store that connects lazily starts with open breakers.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use super::stats::BreakerState;

/// Failures in a row that open the breaker.
pub(crate) const FAILURES_MAX: u32 = 3;

/// The number of a server's connection, counted from the first. Results of an old connection say nothing
/// about the connection that replaced it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(u64);

impl Generation {
    /// The first connection.
    pub const FIRST: Self = Self(1);
}

/// Closed while the server is used, open while it is not. Only a new connection that passed the probe closes
/// it.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    is_open: AtomicBool,
    tally: Mutex<FailureTally>,
}

#[derive(Debug, Default)]
struct FailureTally {
    generation: Generation,
    failures_in_a_row: u32,
}

/// What a failure changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerChange {
    /// Nothing changed, except the number of failures.
    None,
    /// The breaker has just opened.
    Opened,
}

impl Breaker {
    pub fn state(&self) -> BreakerState {
        if self.is_open.load(Relaxed) { BreakerState::Open } else { BreakerState::Closed }
    }

    pub fn generation(&self) -> Generation {
        self.tally().generation
    }

    pub fn record_success(&self, generation: Generation) {
        let mut tally = self.tally();
        if tally.generation == generation {
            tally.failures_in_a_row = 0;
        }
    }

    pub fn record_failure(&self, generation: Generation) -> BreakerChange {
        let mut tally = self.tally();
        if tally.generation != generation || self.is_open.load(Relaxed) {
            return BreakerChange::None;
        }
        tally.failures_in_a_row += 1;
        if tally.failures_in_a_row < FAILURES_MAX {
            return BreakerChange::None;
        }
        self.is_open.store(true, Relaxed);
        BreakerChange::Opened
    }

    /// Opens the breaker, whatever was counted.
    pub fn force_open(&self) -> BreakerChange {
        let _tally = self.tally();
        if self.is_open.swap(true, Relaxed) { BreakerChange::None } else { BreakerChange::Opened }
    }

    /// A new connection passed the probe. While the breaker is closed, this does not clear the failures: a
    /// server that accepts connections but never replies must still open the breaker.
    pub fn next_generation(&self) -> Generation {
        let mut tally = self.tally();
        tally.generation.0 += 1;
        if self.is_open.swap(false, Relaxed) {
            tally.failures_in_a_row = 0;
        }
        tally.generation
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, FailureTally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Breaker, BreakerChange};
    use crate::redis::BreakerState;

    #[test]
    fn it_opens_once_after_three_failures_in_a_row() {
        let breaker = Breaker::default();
        let generation = breaker.generation();
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        breaker.record_success(generation);
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert_eq!(breaker.record_failure(generation), BreakerChange::Opened);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        // A late reply does not close it.
        breaker.record_success(generation);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(breaker.force_open(), BreakerChange::None);
    }

    #[test]
    fn only_a_new_connection_closes_it_and_failures_of_the_old_one_do_not_count() {
        let breaker = Breaker::default();
        let old = breaker.generation();
        assert_eq!(breaker.force_open(), BreakerChange::Opened);
        let renewed = breaker.next_generation();
        assert_eq!(breaker.state(), BreakerState::Closed);
        for _ in 0..5 {
            assert_eq!(breaker.record_failure(old), BreakerChange::None);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.next_generation();
        assert_eq!(breaker.record_failure(renewed), BreakerChange::None);
    }
    #[test]
    fn failures_in_a_row_count_across_connections() {
        let breaker = Breaker::default();
        for expected in [BreakerChange::None, BreakerChange::None, BreakerChange::Opened] {
            let generation = breaker.next_generation();
            assert_eq!(breaker.record_failure(generation), expected);
        }
        // After it was open, failures are counted from zero.
        let generation = breaker.next_generation();
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        let generation = breaker.next_generation();
        breaker.record_success(generation);
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
}
