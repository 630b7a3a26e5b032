//! Limits with the action `delay` that a request falls under: what it may have to wait for.

use super::{Action, MatchedLimits, Ruleset};
#[cfg(doc)]
use crate::Limit;
use crate::succession::{Retiring, next_end};
use crate::{Charge, Counter, CounterId, Nanos, Pace, Plan, Timestamp};

/// A limit that holds requests which are over it.
///
/// Requests that wait for the same counter and key wait for the same units.
#[derive(Clone, Copy, Debug)]
pub struct Delay<'t> {
    /// Its position among the [matched limits](MatchedLimits::all), and among the limits of the answer.
    pub place: usize,
    /// Which of the counter's keys.
    pub key: &'t [u8],
    /// The units that the request takes of that key.
    pub cost: u64,
    /// The longest that a request is held.
    pub max_wait: Nanos,
    counter: &'t Counter,
    retiring: &'t [Retiring],
}

impl MatchedLimits {
    /// The limits that may hold the request, each counter and key once. A request of cost zero is not held.
    pub fn delays<'a>(&'a self, rules: &'a Ruleset) -> impl Iterator<Item = Delay<'a>> {
        self.queues(rules).filter(|delay| delay.cost > 0)
    }

    /// The limits that requests for the same keys may be held by, whatever this one costs.
    pub fn queues<'a>(&'a self, rules: &'a Ruleset) -> impl Iterator<Item = Delay<'a>> {
        let delays = self.all().iter().enumerate().filter_map(|(position, matched)| {
            let limit = rules.resolve(&matched.limit).limit;
            let Action::Delay { max_wait } = limit.limit.action else { return None };
            let (counter, retiring) = (&limit.main.current, limit.main.superseded.as_slice());
            let key = self.key(matched)?;
            Some(Delay { place: position, key, cost: matched.cost, max_wait, counter, retiring })
        });
        delays.filter_map(|delay| self.whole(rules, delay))
    }

    /// The first of several matches of one counter and key, with the cost of all of them; none for the others.
    fn whole<'a>(&'a self, rules: &Ruleset, delay: Delay<'a>) -> Option<Delay<'a>> {
        let is_same = |position: &usize| {
            let matched = &self.all()[*position];
            let counter = &rules.resolve(&matched.limit).limit.main.current;
            counter.id() == delay.counter() && self.key(matched) == Some(delay.key)
        };
        if (0..delay.place).any(|position| is_same(&position)) {
            return None;
        }
        let others = (delay.place + 1..self.all().len()).filter(is_same);
        let cost = others.fold(delay.cost, |cost, position| cost.saturating_add(self.all()[position].cost));
        Some(Delay { cost, ..delay })
    }
}

impl Delay<'_> {
    /// The counter.
    pub fn counter(&self) -> CounterId {
        self.counter.id()
    }

    /// What the request takes of this limit alone.
    pub fn plan(&self, now: Timestamp) -> Plan<'_> {
        let retiring = self.retiring.iter().filter(|old| old.is_in_force(now)).map(|old| &old.counter);
        let mut plan = Plan::new();
        for counter in std::iter::once(self.counter).chain(retiring) {
            // A limit has fewer counters than a plan has room for.
            let _ = plan.add(Charge::new(self.key, counter, self.cost));
        }
        plan
    }

    /// Who follows this request at `now`, if it has to wait, as by [`Limit::pace_after`]. None too while it may wait for a
    /// counter that was changed: when that goes, there may be something left of the other.
    pub fn pace(&self, now: Timestamp) -> Option<Pace> {
        self.counter.limit().pace_after(self.cost).filter(|_| self.retires(now).is_none())
    }

    /// Whether it is known when somebody who waits for it fits: leases are given back whenever their holders like.
    pub fn is_foreseeable(&self) -> bool {
        self.counter.limit().pace_after(self.cost).is_some()
    }

    /// Whether the request can ever be admitted, however long it waits.
    pub fn is_possible(&self) -> bool {
        self.cost <= self.counter.limit().capacity()
    }

    /// When the next of its counters that were changed goes out of force.
    pub fn retires(&self, now: Timestamp) -> Option<Timestamp> {
        next_end(self.retiring, now)
    }
}
