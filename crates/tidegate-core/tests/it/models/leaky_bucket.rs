//! "Units leave in arrival order at least W/L apart; a unit that can leave at once does not wait; at most Q
//! wait. A request is admitted iff all its units fit; `delay` is the time until its last unit leaves."
//!
//! The model lists the departures, in 1/L ns, and counts those that are still to come. The units of one request
//! leave W/L apart, so they are listed as one run: a request may have 2^40 of them.

use super::{Event, Model, signed};

#[derive(Debug)]
pub struct LeakyBucket {
    pub limit: u64,
    pub window: u64,
    pub queue: u64,
}

/// Departures at `first`, `first + W/L`, and so on, `units` of them.
struct DepartureRun {
    first: i128,
    units: u64,
}

impl LeakyBucket {
    /// W/L in 1/L ns.
    fn interval(&self) -> i128 {
        signed(self.window)
    }

    fn ticks(&self, at: u128) -> i128 {
        signed(at) * signed(self.limit)
    }

    fn last_of(&self, run: &DepartureRun) -> i128 {
        run.first + (signed(run.units) - 1) * self.interval()
    }

    fn departures(&self, events: impl Iterator<Item = Event>) -> Vec<DepartureRun> {
        let mut runs: Vec<DepartureRun> = Vec::new();
        for event in events.filter(|event| event.cost > 0) {
            let at_once = self.ticks(event.at);
            let first = runs.last().map_or(at_once, |run| at_once.max(self.last_of(run) + self.interval()));
            runs.push(DepartureRun { first, units: event.cost });
        }
        runs
    }

    /// How many leave after `t`.
    fn waiting(&self, runs: &[DepartureRun], t: i128) -> i128 {
        let still = |run: &DepartureRun| {
            let gone = if run.first > t { 0 } else { (t - run.first) / self.interval() + 1 };
            (signed(run.units) - gone).max(0)
        };
        runs.iter().map(still).sum()
    }
}

impl Model for LeakyBucket {
    fn admits(&self, past: &[Event], asked: Event) -> bool {
        if self.limit == 0 {
            return asked.cost == 0;
        }
        let runs = self.departures(past.iter().copied().chain([asked]));
        let t = self.ticks(asked.at);
        if past.iter().all(|event| event.at <= asked.at) {
            return self.waiting(&runs, t) <= signed(self.queue);
        }
        // Time stepped back, over gaps in which nothing had to leave. They are no places to wait in: with units
        // W/L apart, at most Q of them waiting means that nobody waits longer than Q intervals.
        runs.last().is_none_or(|run| self.last_of(run) - t <= signed(self.queue) * self.interval())
    }

    fn capacity(&self) -> u64 {
        if self.limit == 0 { 0 } else { self.queue + 1 }
    }

    fn delay(&self, past: &[Event], at: u128) -> u128 {
        let runs = self.departures(past.iter().copied());
        let last = self.last_of(runs.last().expect("a request that passed is in the past"));
        let leaves_at = u128::try_from(last).expect("after the epoch").div_ceil(u128::from(self.limit));
        leaves_at - at
    }
}
