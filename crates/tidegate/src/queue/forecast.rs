//! Exact forecasts for counters in memory: when each waiter will leave, and which of them would be too late.
//!
//! The waiters of a queue are decided on copies of the counters' states ([`StateForecast`]), one after the other, each
//! at the earliest instant at which it is admitted.

use tidegate_core::{Algorithm, Plan, TimedCost, Timestamp, Wait};

use super::wait_queue::{Ticket, WaitQueue, Waiter, too_long};
use super::{LATE_NS_MAX, Refusal};
use crate::memory::{ForecastAdmission, ForecastRequest, MemoryStore, StateForecast};

/// All superseded counters have expired by then.
const END_OF_TIME: Timestamp = Timestamp::from_nanos(u64::MAX);

/// Forecasts when requests in a queue will be admitted, for counters that are in memory.
pub(crate) trait Forecaster {
    /// The store that has the queue's counters.
    fn store(&self) -> &MemoryStore;

    /// The charges on the queue's counters.
    fn plan(&self, now: Timestamp) -> Plan<'_>;

    /// When the next superseded counter of the queue expires.
    fn next_expiry(&self, now: Timestamp) -> Option<Timestamp>;

    /// The instant, `from` or later, from which a wait ends before another superseded counter expires.
    fn skip_superseded(&self, from: Timestamp, wait_at: impl Fn(Timestamp) -> Wait) -> Timestamp {
        tidegate_core::migration::wait_past_superseded(from, |at| self.next_expiry(at), wait_at).0
    }

    /// Whether admission can be forecast. Not with leases, which can be released at any time.
    fn is_forecastable(&self, now: Timestamp) -> bool {
        let plan = self.plan(now);
        !plan.charges().iter().any(|charge| matches!(charge.counter.algorithm(), Algorithm::Leases(_)))
    }

    /// The earliest instant as of which a request may be decided, to allow for timers that fire a little late. With
    /// leases that is now: the request was not due before they were released.
    fn earliest(&self, now: Timestamp) -> Timestamp {
        let late_ns_max = if self.is_forecastable(now) { LATE_NS_MAX } else { 0 };
        Timestamp::from_nanos(now.as_nanos().saturating_sub(late_ns_max))
    }

    /// Whether the request can ever be admitted, once all superseded counters have expired.
    fn is_possible(&self, now: Timestamp) -> bool {
        let outcomes = self.store().peek(&self.plan(END_OF_TIME), now);
        outcomes.iter().all(|outcome| outcome.retry_after < Wait::NEVER)
    }

    /// Copies the states of the plan's counters.
    fn copy_states(&self, now: Timestamp) -> StateForecast {
        self.store().forecast(&self.plan(now))
    }

    /// Whether `states` are copies of the states of the plan's counters.
    fn owns_states(&self, states: &StateForecast, now: Timestamp) -> bool {
        states.is_for(&self.plan(now))
    }

    /// Decides a waiter on the copies. A superseded counter delays it only until the counter expires.
    fn forecast_admission(&self, states: &mut StateForecast, request: ForecastRequest) -> ForecastAdmission {
        let wait_at = |now| states.wait(&self.plan(now), TimedCost { now, cost: request.cost });
        let from = self.skip_superseded(request.from, wait_at);
        self.admit(states, &self.plan(from), ForecastRequest { from, ..request })
    }

    /// Decides a waiter on the copies, by the limits of this plan only.
    fn admit(
        &self,
        states: &mut StateForecast,
        plan: &Plan<'_>,
        request: ForecastRequest,
    ) -> ForecastAdmission {
        states.admit(plan, request)
    }
}

/// A forecaster and the current time.
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

/// The end of a queue: the states after all waiters have left.
pub(super) struct Tail {
    states: StateForecast,
    /// When the last waiter leaves.
    last_left_at: Timestamp,
    precision: Precision,
}

/// How precise a forecast still is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// Exact, unless requests that do not wait take units.
    Exact,
    /// A request left the queue or units came back since. Precise enough to accept a new waiter, but not to refuse one.
    MaybeLate,
}

impl WaitQueue {
    /// The refusal of a new waiter that cannot be admitted in time, if that is known.
    pub(super) fn refusal_by_forecast(
        &mut self,
        forecaster: &impl Forecaster,
        waiter: &mut Waiter,
    ) -> Option<Refusal> {
        let now = waiter.arrived_at;
        let is_forecast = !self.has_unforecast_waiter
            && self.tail.as_ref().is_some_and(|tail| forecaster.owns_states(&tail.states, now));
        if !forecaster.is_forecastable(now) || !is_forecast && waiter.deadline.is_none() {
            let refusal = (!forecaster.is_possible(now)).then_some(Refusal::Never);
            return refusal.or_else(|| self.refusal_by_deadline(waiter));
        }
        if !is_forecast {
            self.forecast_all(forecaster, now);
        }
        let mut admission = self.forecast_new_waiter(forecaster, waiter)?;
        // Forecasting the whole queue is expensive, so do it only if the answer depends on it.
        if let ForecastAdmission::TooLate(_) = admission
            && self.tail.as_ref().is_some_and(|tail| tail.precision == Precision::MaybeLate)
        {
            self.forecast_all(forecaster, now);
            admission = self.forecast_new_waiter(forecaster, waiter)?;
        }
        match admission {
            ForecastAdmission::At(leaves_at) => {
                waiter.forecast_leaves_at = Some(leaves_at);
                None
            }
            ForecastAdmission::TooLate(leaves_at) => Some(too_long(now, leaves_at)),
            ForecastAdmission::Never => Some(Refusal::Never),
        }
    }

    /// When a new waiter leaves, behind all waiters of the queue. None if the end of the queue is not forecast.
    fn forecast_new_waiter(
        &mut self,
        forecaster: &impl Forecaster,
        waiter: &Waiter,
    ) -> Option<ForecastAdmission> {
        let tail = self.tail.as_mut()?;
        let from = tail.last_left_at.max(waiter.arrived_at);
        let request = ForecastRequest { cost: waiter.cost, from, deadline: waiter.deadline };
        let admission = forecaster.forecast_admission(&mut tail.states, request);
        if let ForecastAdmission::At(leaves_at) = admission {
            tail.last_left_at = leaves_at;
        }
        Some(admission)
    }

    /// The refusal of a new waiter that does not need a forecast: it has no time to wait and the queue is not empty, or
    /// its deadline is before the head's delay ends.
    pub(super) fn refusal_by_deadline(&self, waiter: &Waiter) -> Option<Refusal> {
        let expects_none = !self.waiters.is_empty() && waiter.deadline == Some(waiter.arrived_at);
        let is_held_up = self.head_is_admitted() && waiter.gives_up_before(self.last_left_at);
        (expects_none || is_held_up).then_some(Refusal::TooLong { wait: None })
    }

    /// Forecasts when each waiter will leave, and refuses those that would leave too late.
    pub(super) fn forecast_all(&mut self, forecaster: &impl Forecaster, now: Timestamp) {
        let mut states = forecaster.copy_states(now);
        // Units may have been given back by a clock that is ahead of this one.
        let last_left_at =
            if self.head_is_admitted() { self.last_left_at } else { self.last_left_at.min(now) };
        let mut last_left_at = last_left_at.max(forecaster.earliest(now));
        let mut refused = Vec::new();
        for (ticket, waiter) in self.waiters.iter_mut().filter(|(_, waiter)| waiter.leaves_at.is_none()) {
            let from = last_left_at.max(waiter.arrived_at);
            let request = ForecastRequest { cost: waiter.cost, from, deadline: waiter.deadline };
            match forecaster.forecast_admission(&mut states, request) {
                ForecastAdmission::At(leaves_at) => {
                    last_left_at = leaves_at;
                    waiter.forecast_leaves_at = Some(leaves_at);
                }
                ForecastAdmission::TooLate(leaves_at) => {
                    refused.push((*ticket, too_long(waiter.arrived_at, leaves_at)));
                }
                ForecastAdmission::Never => refused.push((*ticket, Refusal::Never)),
            }
        }
        refused.into_iter().for_each(|(ticket, refusal)| self.refuse(ticket, refusal));
        self.has_unforecast_waiter = false;
        self.tail = Some(Tail { states, last_left_at, precision: Precision::Exact });
    }

    /// A request entered before waiters with later tickets, so those leave later than forecast.
    pub(super) fn on_entered_before_waiters(
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

    /// A request was admitted and leaves at `leaves_at`, which may be later than its forecast.
    pub(super) fn on_admitted<F: Forecaster>(
        &mut self,
        forecast: Option<Timestamp>,
        leaves_at: Timestamp,
        by: Forecast<'_, F>,
    ) {
        let is_later = self.has_unforecast_waiter || forecast.is_some_and(|forecast| forecast < leaves_at);
        match by.forecaster.is_forecastable(by.now) {
            true if is_later => self.forecast_all(by.forecaster, by.now),
            true => {}
            // Leases can be released at any time, so a forecast refuses no request.
            false => self.has_unforecast_waiter = false,
        }
        // No request behind it leaves earlier.
        self.refuse_if(|deadline| deadline < leaves_at);
    }

    /// The head cannot be admitted before `due`, as far as is known.
    pub(super) fn on_postponed<F: Forecaster>(&mut self, head: Ticket, due: Timestamp, by: Forecast<'_, F>) {
        let Forecast { forecaster: by, now } = by;
        if !by.is_forecastable(now) {
            return self.refuse_if(|deadline| deadline <= now);
        }
        // Either requests that do not wait took units, so all waiters leave later than forecast, or there was no
        // forecast when the head arrived and a waiter has a deadline.
        let forecast = self.waiters.get(&head).and_then(|head| head.forecast_leaves_at);
        let is_later = forecast.map_or(!self.deadlines.is_empty(), |forecast| forecast < due);
        if self.has_unforecast_waiter || is_later {
            self.forecast_all(by, now);
        }
    }

    /// From now on the forecast of the queue's end may be too late, but never too early.
    pub(super) fn mark_tail_late(&mut self) {
        if let Some(tail) = &mut self.tail {
            tail.precision = Precision::MaybeLate;
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A forecaster that cannot exist.
    pub(crate) enum NoForecaster {}

    pub(crate) fn no_forecast<'a>() -> Option<Forecast<'a, NoForecaster>> {
        None
    }

    impl Forecaster for NoForecaster {
        fn store(&self) -> &MemoryStore {
            match *self {}
        }

        fn plan(&self, _: Timestamp) -> Plan<'_> {
            match *self {}
        }

        fn next_expiry(&self, _: Timestamp) -> Option<Timestamp> {
            match *self {}
        }
    }
}
