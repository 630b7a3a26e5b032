//! Exact forecasts, for counters in memory: when will each request in a queue leave, and which would leave too late?
//!
//! They are made on copies of the counters' states ([`Foresight`]): the requests of the queue are decided on the copies, one after
//! the other, each at the earliest instant at which it is admitted.

use tidegate_core::{Algorithm, Ask, Plan, Timestamp, Wait};

use super::queue::{Queue, Ticket, Waiter, too_long};
use super::{LATE_NS_MAX, Refusal};
use crate::memory::{Foreseen, Foresight, MemoryStore, Pending};

/// When all superseded counters are gone.
const END_OF_TIME: Timestamp = Timestamp::from_nanos(u64::MAX);

/// Forecasts when requests in a queue will be admitted, for counters that are in memory.
pub(crate) trait Forecaster {
    /// Where the queue's counters are.
    fn store(&self) -> &MemoryStore;

    /// The charge on the queue's counters.
    fn plan(&self, now: Timestamp) -> Plan<'_>;

    /// When the next of the queue's superseded counters is not enforced any more.
    fn retires(&self, now: Timestamp) -> Option<Timestamp>;

    /// The instant, `from` or later, from which on a wait is over before another counter goes out of force.
    fn past_retirements(&self, from: Timestamp, wait_at: impl Fn(Timestamp) -> Wait) -> Timestamp {
        tidegate_core::succession::past_ends(from, |at| self.retires(at), wait_at).0
    }

    /// Whether it can be forecast when a request is admitted. Leases are released at any time.
    fn is_foreseeable(&self, now: Timestamp) -> bool {
        let plan = self.plan(now);
        !plan.charges().iter().any(|charge| matches!(charge.counter.algorithm(), Algorithm::Leases(_)))
    }

    /// The instant as of which a request may be decided: when it was due, if its timer is a little late. A request that waits for
    /// leases was not due before they were released.
    fn earliest(&self, now: Timestamp) -> Timestamp {
        let late_ns_max = if self.is_foreseeable(now) { LATE_NS_MAX } else { 0 };
        Timestamp::from_nanos(now.as_nanos().saturating_sub(late_ns_max))
    }

    /// Whether a request can be admitted at all, however long it waits: when superseded counters are gone.
    fn is_possible(&self, now: Timestamp) -> bool {
        let outcomes = self.store().peek(&self.plan(END_OF_TIME), now);
        outcomes.iter().all(|outcome| outcome.retry_after < Wait::NEVER)
    }

    /// Copies of the states that it depends on.
    fn copy_states(&self, now: Timestamp) -> Foresight {
        self.store().foresee(&self.plan(now))
    }

    /// Whether these are the states that it depends on.
    fn are_its_states(&self, states: &Foresight, now: Timestamp) -> bool {
        states.is_of(&self.plan(now))
    }

    /// Decides a request of the queue on the copies. Superseded counters delay it for no longer than they are enforced.
    fn decide_on(&self, states: &mut Foresight, pending: Pending) -> Foreseen {
        let wait_at = |now| states.wait(&self.plan(now), Ask { now, cost: pending.cost });
        let from = self.past_retirements(pending.from, wait_at);
        self.admit(states, &self.plan(from), Pending { from, ..pending })
    }

    /// Decides a request on the copies that has to wait for nothing but the limits of this plan.
    fn admit(&self, states: &mut Foresight, plan: &Plan<'_>, pending: Pending) -> Foreseen {
        states.admit(plan, pending)
    }
}

/// Exact forecasts and the present instant.
pub(crate) struct Forecast<'a, F> {
    pub by: &'a F,
    pub now: Timestamp,
}

impl<F> Clone for Forecast<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Forecast<'_, F> {}

/// The end of a queue: the states when all requests in it have left.
pub(super) struct Tail {
    states: Foresight,
    /// When the last request leaves.
    left: Timestamp,
    precision: Precision,
}

/// How good a forecast still is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// Exact, unless requests that do not wait take units.
    Exact,
    /// A request left the queue or units came back since. Good enough to let a newcomer in, not to refuse one.
    MaybeLate,
}

impl Queue {
    /// Why a newcomer need not enter, if that is known.
    pub(super) fn refuses(&mut self, forecaster: &impl Forecaster, newcomer: &mut Waiter) -> Option<Refusal> {
        let now = newcomer.arrived;
        let is_forecast = !self.is_unforecast
            && self.tail.as_ref().is_some_and(|tail| forecaster.are_its_states(&tail.states, now));
        if !forecaster.is_foreseeable(now) || !is_forecast && newcomer.deadline.is_none() {
            let refusal = (!forecaster.is_possible(now)).then_some(Refusal::Never);
            return refusal.or_else(|| self.comes_too_late(newcomer));
        }
        if !is_forecast {
            self.forecast_all(forecaster, now);
        }
        let mut foreseen = self.forecast_newcomer(forecaster, newcomer)?;
        // A forecast of the whole queue takes a while, so it is made only where the answer depends on it.
        if let Foreseen::TooLate(_) = foreseen
            && self.tail.as_ref().is_some_and(|tail| tail.precision == Precision::MaybeLate)
        {
            self.forecast_all(forecaster, now);
            foreseen = self.forecast_newcomer(forecaster, newcomer)?;
        }
        match foreseen {
            Foreseen::Leaves(leaves) => {
                newcomer.forecast = Some(leaves);
                None
            }
            Foreseen::TooLate(leaves) => Some(too_long(now, leaves)),
            Foreseen::Never => Some(Refusal::Never),
        }
    }

    /// When a newcomer leaves behind all in the queue, if the queue's end was forecast.
    fn forecast_newcomer(&mut self, forecaster: &impl Forecaster, newcomer: &Waiter) -> Option<Foreseen> {
        let tail = self.tail.as_mut()?;
        let from = tail.left.max(newcomer.arrived);
        let pending = Pending { cost: newcomer.cost, from, deadline: newcomer.deadline };
        let foreseen = forecaster.decide_on(&mut tail.states, pending);
        if let Foreseen::Leaves(leaves) = foreseen {
            tail.left = leaves;
        }
        Some(foreseen)
    }

    /// What is known of a newcomer though it is not known when requests before it leave: not at once, and not before a request
    /// whose delay keeps it.
    pub(super) fn comes_too_late(&self, newcomer: &Waiter) -> Option<Refusal> {
        let expects_none = !self.waiters.is_empty() && newcomer.deadline == Some(newcomer.arrived);
        let is_held_up = self.head_is_admitted() && newcomer.gives_up_before(self.left);
        (expects_none || is_held_up).then_some(Refusal::TooLong { wait: None })
    }

    /// Forecasts when each request will leave, and refuses those for which that is too late.
    pub(super) fn forecast_all(&mut self, forecaster: &impl Forecaster, now: Timestamp) {
        let mut states = forecaster.copy_states(now);
        // Units may have been given back by a clock that is ahead of this one.
        let left = if self.head_is_admitted() { self.left } else { self.left.min(now) };
        let mut left = left.max(forecaster.earliest(now));
        let mut refused = Vec::new();
        for (ticket, waiter) in self.waiters.iter_mut().filter(|(_, waiter)| waiter.leaves.is_none()) {
            let from = left.max(waiter.arrived);
            let pending = Pending { cost: waiter.cost, from, deadline: waiter.deadline };
            match forecaster.decide_on(&mut states, pending) {
                Foreseen::Leaves(leaves) => {
                    left = leaves;
                    waiter.forecast = Some(leaves);
                }
                Foreseen::TooLate(leaves) => refused.push((*ticket, too_long(waiter.arrived, leaves))),
                Foreseen::Never => refused.push((*ticket, Refusal::Never)),
            }
        }
        refused.into_iter().for_each(|(ticket, refusal)| self.refuse(ticket, refusal));
        self.is_unforecast = false;
        self.tail = Some(Tail { states, left, precision: Precision::Exact });
    }

    /// A request that came earlier entered before others, so they are later than was forecast.
    pub(super) fn entered_before_others(
        &mut self,
        forecaster: &impl Forecaster,
        ticket: Ticket,
        now: Timestamp,
    ) {
        if forecaster.is_foreseeable(now) {
            self.forecast_all(forecaster, now);
        } else {
            self.watch_deadline(ticket);
        }
    }

    /// A request was admitted and leaves then, which may be later than its forecast.
    pub(super) fn admitted<F: Forecaster>(
        &mut self,
        forecast: Option<Timestamp>,
        leaves: Timestamp,
        by: Forecast<'_, F>,
    ) {
        let is_later = self.is_unforecast || forecast.is_some_and(|forecast| forecast < leaves);
        match by.by.is_foreseeable(by.now) {
            true if is_later => self.forecast_all(by.by, by.now),
            true => {}
            // Leases are released at any time, so no request is refused by a forecast.
            false => self.is_unforecast = false,
        }
        // No request behind it leaves sooner.
        self.refuse_if(|deadline| deadline < leaves);
    }

    /// The head cannot be admitted before `due`, as far as is known.
    pub(super) fn postponed<F: Forecaster>(&mut self, head: Ticket, due: Timestamp, by: Forecast<'_, F>) {
        let Forecast { by, now } = by;
        if !by.is_foreseeable(now) {
            return self.refuse_if(|deadline| deadline <= now);
        }
        // Requests that do not wait took units, so all in the queue are later than was forecast; or no forecast could be made when
        // they came, and one of them has a deadline.
        let forecast = self.waiters.get(&head).and_then(|head| head.forecast);
        let is_later = forecast.map_or(!self.deadlines.is_empty(), |forecast| forecast < due);
        if self.is_unforecast || is_later {
            self.forecast_all(by, now);
        }
    }

    /// The forecast of the queue's end is at worst too late from now on.
    pub(super) fn tail_may_be_late(&mut self) {
        if let Some(tail) = &mut self.tail {
            tail.precision = Precision::MaybeLate;
        }
    }
}
