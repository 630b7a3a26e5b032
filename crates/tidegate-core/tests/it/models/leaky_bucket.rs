//! "Units leave in arrival order at least W/L apart; a unit that can leave at once does not wait; at most Q wait. A
//! request is admitted iff all its units fit; `delay` is the time until its last unit leaves."
//!
//! The model lists the departures, in 1/L ns, and counts those in the future. The units of one request leave W/L apart,
//! so they are stored as one run: a request may have 2^40 units.

use super::{Event, Model, signed};

#[derive(Debug)]
pub struct LeakyBucket {
    pub limit: u64,
    pub window: u64,
    pub queue: u64,
}

/// `units` departures at `first`, `first + W/L`, and so on.
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
            let arrival = self.ticks(event.at);
            let first = runs.last().map_or(arrival, |run| arrival.max(self.last_of(run) + self.interval()));
            runs.push(DepartureRun { first, units: event.cost });
        }
        runs
    }

    /// The number of units that leave after `t`.
    fn waiting(&self, runs: &[DepartureRun], t: i128) -> i128 {
        let remaining = |run: &DepartureRun| {
            let departed = if run.first > t { 0 } else { (t - run.first) / self.interval() + 1 };
            (signed(run.units) - departed).max(0)
        };
        runs.iter().map(remaining).sum()
    }
}

impl Model for LeakyBucket {
    fn admits(&self, past: &[Event], request: Event) -> bool {
        if self.limit == 0 {
            return request.cost == 0;
        }
        let runs = self.departures(past.iter().copied().chain([request]));
        let t = self.ticks(request.at);
        if past.iter().all(|event| event.at <= request.at) {
            return self.waiting(&runs, t) <= signed(self.queue);
        }
        // Time stepped back over gaps in which nothing had to leave. A unit cannot wait in these gaps: units leave W/L
        // apart and at most Q of them wait, so no unit waits longer than Q intervals.
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
