//! The limits with the action `delay` that a request falls under. It may have to wait for them.

use super::{Action, MatchedLimits, Ruleset};
use crate::migration::{SupersededCounter, next_expiry};
use crate::{Charge, Counter, CounterId, Nanos, Plan, ReleaseRate, Timestamp};

#[cfg(doc)]
use crate::Limit;

/// A limit that holds requests that are over it.
///
/// Requests that wait for the same counter and key wait for the same units.
#[derive(Clone, Copy, Debug)]
pub struct DelayLimit<'t> {
    /// Its index among the [matched limits](MatchedLimits::all), and among the limits of the answer.
    pub index: usize,
    /// The key.
    pub key: &'t [u8],
    /// The units that the request takes of that key.
    pub cost: u64,
    /// The longest time that a request is held.
    pub max_wait: Nanos,
    counter: &'t Counter,
    superseded: &'t [SupersededCounter],
}

impl MatchedLimits {
    /// The limits that may hold the request, each counter and key once. A request with cost zero is not held.
    pub fn delay_limits<'a>(&'a self, rules: &'a Ruleset) -> impl Iterator<Item = DelayLimit<'a>> {
        self.queue_limits(rules).filter(|delay| delay.cost > 0)
    }

    /// The limits that may hold requests for the same keys, whatever the cost of this request.
    pub fn queue_limits<'a>(&'a self, rules: &'a Ruleset) -> impl Iterator<Item = DelayLimit<'a>> {
        let delays = self.all().iter().enumerate().filter_map(|(index, matched)| {
            let limit = rules.resolve(&matched.limit).limit;
            let Action::Delay { max_wait } = limit.limit.action else { return None };
            let key = self.key(matched)?;
            Some(DelayLimit {
                index,
                key,
                cost: matched.cost,
                max_wait,
                counter: &limit.main.current,
                superseded: &limit.main.superseded,
            })
        });
        delays.filter_map(|delay| self.merge_duplicates(rules, delay))
    }

    /// For the first match of a counter and key, the limit with the sum of the costs of all its matches. `None` for the
    /// later matches.
    fn merge_duplicates<'a>(&'a self, rules: &Ruleset, delay: DelayLimit<'a>) -> Option<DelayLimit<'a>> {
        let is_same = |index: &usize| {
            let matched = &self.all()[*index];
            let counter = &rules.resolve(&matched.limit).limit.main.current;
            counter.id() == delay.counter() && self.key(matched) == Some(delay.key)
        };
        if (0..delay.index).any(|index| is_same(&index)) {
            return None;
        }
        let duplicates = (delay.index + 1..self.all().len()).filter(is_same);
        let cost = duplicates.fold(delay.cost, |cost, index| cost.saturating_add(self.all()[index].cost));
        Some(DelayLimit { cost, ..delay })
    }
}

impl DelayLimit<'_> {
    /// The counter.
    pub fn counter(&self) -> CounterId {
        self.counter.id()
    }

    /// The plan that charges only this limit.
    pub fn plan(&self, now: Timestamp) -> Plan<'_> {
        let superseded = self.superseded.iter().filter(|old| old.is_enforced(now)).map(|old| &old.counter);
        let mut plan = Plan::new();
        for counter in std::iter::once(self.counter).chain(superseded) {
            // A limit has fewer counters than a plan has room for.
            let _ = plan.add(Charge::new(self.key, counter, self.cost));
        }
        plan
    }

    /// The release rate of the requests behind this one at `now`, as in [`Limit::release_rate_after`]. Also `None`
    /// while the limit has superseded counters: when one of them ends, the current counter may still have units left.
    pub fn release_rate(&self, now: Timestamp) -> Option<ReleaseRate> {
        self.counter.limit().release_rate_after(self.cost).filter(|_| self.next_expiry(now).is_none())
    }

    /// Whether it can be computed when a waiting request fits. For a concurrency limit it cannot, because it is unknown
    /// when leases are released.
    pub fn has_forecast(&self) -> bool {
        self.counter.limit().release_rate_after(self.cost).is_some()
    }

    /// Whether the request can ever be admitted, however long it waits.
    pub fn is_admissible(&self) -> bool {
        self.cost <= self.counter.limit().capacity()
    }

    /// When its next superseded counter ends.
    pub fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        next_expiry(self.superseded, now)
    }
}
