//! Exact forecasts, for counters in memory: when will each request in a queue leave, and which would leave too late?
//!
//! They are made on copies of the counters' states ([`StateForecast`]): the requests of the queue are decided on the copies, one after
//! the other, each at the earliest instant at which it is admitted.

use tidegate_core::{Algorithm, TimedCost, Plan, Timestamp, Wait};

use super::wait_queue::{WaitQueue, Ticket, Waiter, too_long};
use super::{LATE_NS_MAX, Refusal};
use crate::memory::{ForecastAdmission, StateForecast, MemoryStore, ForecastRequest};

/// When all superseded counters are gone.
const END_OF_TIME: Timestamp = Timestamp::from_nanos(u64::MAX);

/// Forecasts when requests in a queue will be admitted, for counters that are in memory.
pub(crate) trait Forecaster {
    /// Where the queue's counters are.
    fn store(&self) -> &MemoryStore;

    /// The charge on the queue's counters.
    fn plan(&self, now: Timestamp) -> Plan<'_>;

    /// When the next of the queue's superseded counters is not enforced any more.
    fn next_expiry(&self, now: Timestamp) -> Option<Timestamp>;

    /// The instant, `from` or later, from which on a wait is over before another counter goes out of force.
    fn skip_superseded(&self, from: Timestamp, wait_at: impl Fn(Timestamp) -> Wait) -> Timestamp {
        tidegate_core::migration::wait_past_superseded(from, |at| self.next_expiry(at), wait_at).0
    }

    /// Whether it can be forecast when a request is admitted. Leases are released at any time.
    fn is_forecastable(&self, now: Timestamp) -> bool {
        let plan = self.plan(now);
        !plan.charges().iter().any(|charge| matches!(charge.counter.algorithm(), Algorithm::Leases(_)))
    }

    /// The instant as of which a request may be decided: when it was due, if its timer is a little late. A request that waits for
    /// leases was not due before they were released.
    fn earliest(&self, now: Timestamp) -> Timestamp {
        let late_ns_max = if self.is_forecastable(now) { LATE_NS_MAX } else { 0 };
        Timestamp::from_nanos(now.as_nanos().saturating_sub(late_ns_max))
    }

    /// Whether a request can be admitted at all, however long it waits: when superseded counters are gone.
    fn is_possible(&self, now: Timestamp) -> bool {
        let outcomes = self.store().peek(&self.plan(END_OF_TIME), now);
        outcomes.iter().all(|outcome| outcome.retry_after < Wait::NEVER)
    }

    /// Copies of the states that it depends on.
    fn copy_states(&self, now: Timestamp) -> StateForecast {
        self.store().forecast(&self.plan(now))
    }

    /// Whether these are the states that it depends on.
    fn owns_states(&self, states: &StateForecast, now: Timestamp) -> bool {
        states.is_for(&self.plan(now))
    }

    /// Decides a request of the queue on the copies. Superseded counters delay it for no longer than they are enforced.
    fn forecast_admission(&self, states: &mut StateForecast, pending: ForecastRequest) -> ForecastAdmission {
        let wait_at = |now| states.wait(&self.plan(now), TimedCost { now, cost: pending.cost });
        let from = self.skip_superseded(pending.from, wait_at);
        self.admit(states, &self.plan(from), ForecastRequest { from, ..pending })
    }

    /// Decides a request on the copies that has to wait for nothing but the limits of this plan.
    fn admit(&self, states: &mut StateForecast, plan: &Plan<'_>, pending: ForecastRequest) -> ForecastAdmission {
        states.admit(plan, pending)
    }
}

/// Exact forecasts and the present instant.
pub(crate) struct Forecast<'a, F> {
    pub forecaster: &'a F,
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
    states: StateForecast,
    /// When the last request leaves.
    last_left_at: Timestamp,
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

impl WaitQueue {
    /// Why a newcomer need not enter, if that is known.
    pub(super) fn refusal_by_forecast(&mut self, forecaster: &impl Forecaster, newcomer: &mut Waiter) -> Option<Refusal> {
        let now = newcomer.arrived_at;
        let is_forecast = !self.has_unforecast_waiter
            && self.tail.as_ref().is_some_and(|tail| forecaster.owns_states(&tail.states, now));
        if !forecaster.is_forecastable(now) || !is_forecast && newcomer.deadline.is_none() {
            let refusal = (!forecaster.is_possible(now)).then_some(Refusal::Never);
            return refusal.or_else(|| self.refusal_by_deadline(newcomer));
        }
        if !is_forecast {
            self.forecast_all(forecaster, now);
        }
        let mut foreseen = self.forecast_newcomer(forecaster, newcomer)?;
        // A forecast of the whole queue takes a while, so it is made only where the answer depends on it.
        if let ForecastAdmission::TooLate(_) = foreseen
            && self.tail.as_ref().is_some_and(|tail| tail.precision == Precision::MaybeLate)
        {
            self.forecast_all(forecaster, now);
            foreseen = self.forecast_newcomer(forecaster, newcomer)?;
        }
        match foreseen {
            ForecastAdmission::At(leaves) => {
                newcomer.forecast_leaves_at = Some(leaves);
                None
            }
            ForecastAdmission::TooLate(leaves) => Some(too_long(now, leaves)),
            ForecastAdmission::Never => Some(Refusal::Never),
        }
    }

    /// When a newcomer leaves behind all in the queue, if the queue's end was forecast.
    fn forecast_newcomer(&mut self, forecaster: &impl Forecaster, newcomer: &Waiter) -> Option<ForecastAdmission> {
        let tail = self.tail.as_mut()?;
        let from = tail.last_left_at.max(newcomer.arrived_at);
        let pending = ForecastRequest { cost: newcomer.cost, from, deadline: newcomer.deadline };
        let foreseen = forecaster.forecast_admission(&mut tail.states, pending);
        if let ForecastAdmission::At(leaves) = foreseen {
            tail.last_left_at = leaves;
        }
        Some(foreseen)
    }

    /// What is known of a newcomer though it is not known when requests before it leave: not at once, and not before a request
    /// whose delay keeps it.
    pub(super) fn refusal_by_deadline(&self, newcomer: &Waiter) -> Option<Refusal> {
        let expects_none = !self.waiters.is_empty() && newcomer.deadline == Some(newcomer.arrived_at);
        let is_held_up = self.head_is_admitted() && newcomer.gives_up_before(self.last_left_at);
        (expects_none || is_held_up).then_some(Refusal::TooLong { wait: None })
    }

    /// Forecasts when each request will leave, and refuses those for which that is too late.
    pub(super) fn forecast_all(&mut self, forecaster: &impl Forecaster, now: Timestamp) {
        let mut states = forecaster.copy_states(now);
        // Units may have been given back by a clock that is ahead of this one.
        let left = if self.head_is_admitted() { self.last_left_at } else { self.last_left_at.min(now) };
        let mut left = left.max(forecaster.earliest(now));
        let mut refused = Vec::new();
        for (ticket, waiter) in self.waiters.iter_mut().filter(|(_, waiter)| waiter.leaves_at.is_none()) {
            let from = left.max(waiter.arrived_at);
            let pending = ForecastRequest { cost: waiter.cost, from, deadline: waiter.deadline };
            match forecaster.forecast_admission(&mut states, pending) {
                ForecastAdmission::At(leaves) => {
                    left = leaves;
                    waiter.forecast_leaves_at = Some(leaves);
                }
                ForecastAdmission::TooLate(leaves) => refused.push((*ticket, too_long(waiter.arrived_at, leaves))),
                ForecastAdmission::Never => refused.push((*ticket, Refusal::Never)),
            }
        }
        refused.into_iter().for_each(|(ticket, refusal)| self.refuse(ticket, refusal));
        self.has_unforecast_waiter = false;
        self.tail = Some(Tail { states, last_left_at: left, precision: Precision::Exact });
    }

    /// A request that came earlier entered before others, so they are later than was forecast.
    pub(super) fn on_entered_before_others(
        &mut self,
        forecaster: &impl Forecaster,
        ticket: Ticket,
        now: Timestamp,
    ) {
        if forecaster.is_forecastable(now) {
            self.forecast_all(forecaster, now);
        } else {
            self.wake_head_for_deadline(ticket);
        }
    }

    /// A request was admitted and leaves then, which may be later than its forecast.
    pub(super) fn on_admitted<F: Forecaster>(
        &mut self,
        forecast: Option<Timestamp>,
        leaves: Timestamp,
        by: Forecast<'_, F>,
    ) {
        let is_later = self.has_unforecast_waiter || forecast.is_some_and(|forecast| forecast < leaves);
        match by.forecaster.is_forecastable(by.now) {
            true if is_later => self.forecast_all(by.forecaster, by.now),
            true => {}
            // Leases are released at any time, so no request is refused by a forecast.
            false => self.has_unforecast_waiter = false,
        }
        // No request behind it leaves sooner.
        self.refuse_if(|deadline| deadline < leaves);
    }

    /// The head cannot be admitted before `due`, as far as is known.
    pub(super) fn on_postponed<F: Forecaster>(&mut self, head: Ticket, due: Timestamp, by: Forecast<'_, F>) {
        let Forecast { forecaster: by, now } = by;
        if !by.is_forecastable(now) {
            return self.refuse_if(|deadline| deadline <= now);
        }
        // Requests that do not wait took units, so all in the queue are later than was forecast; or no forecast could be made when
        // they came, and one of them has a deadline.
        let forecast = self.waiters.get(&head).and_then(|head| head.forecast_leaves_at);
        let is_later = forecast.map_or(!self.deadlines.is_empty(), |forecast| forecast < due);
        if self.has_unforecast_waiter || is_later {
            self.forecast_all(by, now);
        }
    }

    /// The forecast of the queue's end is at worst too late from now on.
    pub(super) fn mark_tail_late(&mut self) {
        if let Some(tail) = &mut self.tail {
            tail.precision = Precision::MaybeLate;
        }
    }
}
