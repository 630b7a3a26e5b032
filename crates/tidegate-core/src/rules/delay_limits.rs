//! Limits with the action `delay` that a request falls under: what it may have to wait for.

use super::{Action, MatchedLimits, Ruleset};
#[cfg(doc)]
use crate::Limit;
use crate::migration::{SupersededCounter, next_expiry};
use crate::{Charge, Counter, CounterId, Nanos, ReleaseRate, Plan, Timestamp};

/// A limit that holds requests which are over it.
///
/// Requests that wait for the same counter and key wait for the same units.
#[derive(Clone, Copy, Debug)]
pub struct DelayLimit<'t> {
    /// Its position among the [matched limits](MatchedLimits::all), and among the limits of the answer.
    pub index: usize,
    /// Which of the counter's keys.
    pub key: &'t [u8],
    /// The units that the request takes of that key.
    pub cost: u64,
    /// The longest that a request is held.
    pub max_wait: Nanos,
    counter: &'t Counter,
    superseded: &'t [SupersededCounter],
}

impl MatchedLimits {
    /// The limits that may hold the request, each counter and key once. A request of cost zero is not held.
    pub fn delay_limits<'a>(&'a self, rules: &'a Ruleset) -> impl Iterator<Item = DelayLimit<'a>> {
        self.queue_limits(rules).filter(|delay| delay.cost > 0)
    }

    /// The limits that requests for the same keys may be held by, whatever this one costs.
    pub fn queue_limits<'a>(&'a self, rules: &'a Ruleset) -> impl Iterator<Item = DelayLimit<'a>> {
        let delays = self.all().iter().enumerate().filter_map(|(position, matched)| {
            let limit = rules.resolve(&matched.limit).limit;
            let Action::Delay { max_wait } = limit.limit.action else { return None };
            let (counter, retiring) = (&limit.main.current, limit.main.superseded.as_slice());
            let key = self.key(matched)?;
            Some(DelayLimit { index: position, key, cost: matched.cost, max_wait, counter, superseded: retiring })
        });
        delays.filter_map(|delay| self.merge_duplicates(rules, delay))
    }

    /// The first of several matches of one counter and key, with the cost of all of them; none for the others.
    fn merge_duplicates<'a>(&'a self, rules: &Ruleset, delay: DelayLimit<'a>) -> Option<DelayLimit<'a>> {
        let is_same = |position: &usize| {
            let matched = &self.all()[*position];
            let counter = &rules.resolve(&matched.limit).limit.main.current;
            counter.id() == delay.counter() && self.key(matched) == Some(delay.key)
        };
        if (0..delay.index).any(|position| is_same(&position)) {
            return None;
        }
        let others = (delay.index + 1..self.all().len()).filter(is_same);
        let cost = others.fold(delay.cost, |cost, position| cost.saturating_add(self.all()[position].cost));
        Some(DelayLimit { cost, ..delay })
    }
}

impl DelayLimit<'_> {
    /// The counter.
    pub fn counter(&self) -> CounterId {
        self.counter.id()
    }

    /// What the request takes of this limit alone.
    pub fn plan(&self, now: Timestamp) -> Plan<'_> {
        let retiring = self.superseded.iter().filter(|old| old.is_enforced(now)).map(|old| &old.counter);
        let mut plan = Plan::new();
        for counter in std::iter::once(self.counter).chain(retiring) {
            // A limit has fewer counters than a plan has room for.
            let _ = plan.add(Charge::new(self.key, counter, self.cost));
        }
        plan
    }

    /// Who follows this request at `now`, if it has to wait, as by [`Limit::pace_after`]. None too while it may wait for a
    /// counter that was changed: when that goes, there may be something left of the other.
    pub fn release_rate(&self, now: Timestamp) -> Option<ReleaseRate> {
        self.counter.limit().release_rate_after(self.cost).filter(|_| self.next_expiry(now).is_none())
    }

    /// Whether it is known when somebody who waits for it fits: leases are given back whenever their holders like.
    pub fn has_forecast(&self) -> bool {
        self.counter.limit().release_rate_after(self.cost).is_some()
    }

    /// Whether the request can ever be admitted, however long it waits.
    pub fn is_admissible(&self) -> bool {
        self.cost <= self.counter.limit().capacity()
    }

    /// When the next of its counters that were changed goes out of force.
    pub fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        next_expiry(self.superseded, now)
    }
}
