//! A server that fails again and again is left alone for a while.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::stats::BreakerState;

/// So many failures in a row, and a server is left alone.
pub(super) const FAILURES_MAX: u32 = 3;

/// Which connection of a server it is, counted from the first. What becomes of the rounds of an old one says nothing about
/// the one that took its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Generation(u64);

impl Generation {
    /// That of the first connection.
    pub const FIRST: Self = Self(1);
}

/// Closed while the server is asked, open while it is not. Only a new connection that was found to work closes it.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    is_open: AtomicBool,
    tally: Mutex<FailureTally>,
}

#[derive(Debug, Default)]
struct FailureTally {
    generation: Generation,
    failures_in_a_row: u32,
}

/// What a failure did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerChange {
    /// It was counted, or it is of no interest.
    None,
    /// It was the last one: the breaker is open now, and was not before.
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

    /// Opens it whatever was counted.
    pub fn force_open(&self) -> BreakerChange {
        let _tally = self.tally();
        if self.is_open.swap(true, Relaxed) { BreakerChange::None } else { BreakerChange::Opened }
    }

    /// Another connection was made, and works as far as was tried. That alone makes up for nothing while the breaker is
    /// closed: a server that lets everybody in and then answers nobody is to be left alone as well.
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
        // An answer that was long under way does not close it.
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
        // It starts anew when it was open.
        let generation = breaker.next_generation();
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        let generation = breaker.next_generation();
        breaker.record_success(generation);
        assert_eq!(breaker.record_failure(generation), BreakerChange::None);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
}
