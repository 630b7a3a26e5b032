//! Limits with the action `delay` that a request touches: what it may have to stand in line for.

use super::{Action, Touches};
#[cfg(doc)]
use crate::Limit;
use crate::succession::{Retiring, next_end};
use crate::{Charge, Counter, CounterId, Nanos, Pace, Plan, Role, Timestamp};

/// A limit that holds requests which are over it, as a request touches it.
///
/// Requests that wait for the same counter and key wait for the same units.
#[derive(Clone, Copy, Debug)]
pub struct Delay<'t> {
    /// Its place among the [touches](Touches::all), and among the limits of the answer.
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

impl Touches<'_> {
    /// The limits that may hold the request, each counter and key once. Who asks for nothing is not held.
    pub fn delays(&self) -> impl Iterator<Item = Delay<'_>> {
        self.lines().filter(|delay| delay.cost > 0)
    }

    /// The limits that requests for the same keys may be held by, whatever this one asks for.
    pub fn lines(&self) -> impl Iterator<Item = Delay<'_>> {
        let delays = self.all().iter().enumerate().filter_map(|(place, touch)| {
            let Action::Delay { max_wait } = touch.gate.limit.action else { return None };
            let (counter, retiring) = (&touch.gate.main.current, touch.gate.main.retiring.as_slice());
            let key = self.key(touch)?;
            Some(Delay { place, key, cost: touch.cost, max_wait, counter, retiring })
        });
        delays.filter_map(|delay| self.whole(delay))
    }

    /// The first of several touches of one counter and key, with what all of them take; none of the others.
    fn whole<'t>(&'t self, delay: Delay<'t>) -> Option<Delay<'t>> {
        let is_same = |place: &usize| {
            let touch = &self.all()[*place];
            touch.gate.main.current.id() == delay.counter() && self.key(touch) == Some(delay.key)
        };
        if (0..delay.place).any(|place| is_same(&place)) {
            return None;
        }
        let others = (delay.place + 1..self.all().len()).filter(is_same);
        let cost = others.fold(delay.cost, |cost, place| cost.saturating_add(self.all()[place].cost));
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
            let _ = plan.add(Charge { key: self.key, counter, cost: self.cost, role: Role::Enforced });
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
