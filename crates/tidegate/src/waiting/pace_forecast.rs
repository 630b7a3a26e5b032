//! Forecasts for counters that are not in memory, by the limits' release rate.
//!
//! The store says when the head of a queue may fit. Requests behind it follow no sooner than the limit lets them ([`Pace`]), so a
//! request that gives up before that is refused. Other nodes may take units, so requests may leave later than this says.

use tidegate_core::{Pace, Timestamp};

use super::forecast::Precision;
use super::queue::{Queue, Ticket, Waiter, too_long};
use super::{LATE_NS_MAX, Refusal};

/// When all in a queue leave at the earliest.
#[derive(Clone, Copy)]
pub(super) struct PaceForecast {
    /// When the request fits, or fitted, that was the head when the forecast was made.
    due: Timestamp,
    /// How fast requests follow it.
    pace: Pace,
    /// How fast requests follow all that are in the queue.
    tail: Pace,
    precision: Precision,
}

impl PaceForecast {
    /// The same, after a request behind the head left.
    pub(super) fn may_be_late(self) -> Self {
        Self { precision: Precision::MaybeLate, ..self }
    }

    /// When a newcomer leaves at the earliest, behind all in the queue.
    fn leaves(&self, newcomer: &Waiter) -> Timestamp {
        let mut tail = self.tail;
        self.due.saturating_add(tail.follow(newcomer.cost))
    }
}

impl Queue {
    /// Why a newcomer need not enter, if that is known.
    pub(super) fn refuses_by_pace(&mut self, newcomer: &mut Waiter) -> Option<Refusal> {
        let forecast = self.pace?;
        let mut leaves = forecast.leaves(newcomer);
        if forecast.precision == Precision::MaybeLate && newcomer.gives_up_before(leaves) {
            self.forecast_all_by_pace();
            leaves = self.pace?.leaves(newcomer);
        }
        if newcomer.gives_up_before(leaves) {
            return Some(too_long(newcomer.arrived, leaves));
        }
        newcomer.forecast = Some(leaves);
        if let Some(forecast) = &mut self.pace {
            forecast.tail.follow(newcomer.cost);
        }
        None
    }

    /// The store says that the head fits at `due`.
    pub(super) fn postponed_by_pace(&mut self, head: Ticket, due: Timestamp, pace: Option<Pace>) {
        // The head was forecast when it came, and so were those behind it, unless it is later than that. A reply takes a while, which
        // may be a little more each time.
        let forecast = self.pace.and(self.waiters.get(&head).and_then(|head| head.forecast));
        let is_as_forecast = |at: Timestamp| due.as_nanos() <= at.as_nanos().saturating_add(LATE_NS_MAX);
        if pace.is_none() || !forecast.is_some_and(is_as_forecast) {
            let precision = Precision::Exact;
            self.pace = pace.map(|pace| PaceForecast { due, pace, tail: pace, precision });
            self.forecast_all_by_pace();
        }
    }

    /// Forecasts when all in the queue leave at the earliest, and refuses those for which that is too late.
    pub(super) fn forecast_all_by_pace(&mut self) {
        let Some(mut forecast) = self.pace else { return };
        let mut tail = forecast.pace;
        let mut refused = Vec::new();
        let waiting = self.waiters.iter_mut().skip(1).filter(|(_, waiter)| waiter.leaves.is_none());
        for (ticket, waiter) in waiting {
            // A request that is refused leaves its units to those behind it.
            let mut after = tail;
            let leaves = forecast.due.saturating_add(after.follow(waiter.cost));
            waiter.forecast = Some(leaves);
            match waiter.gives_up_before(leaves) {
                true => refused.push((*ticket, too_long(waiter.arrived, leaves))),
                false => tail = after,
            }
        }
        refused.into_iter().for_each(|(ticket, refusal)| self.refuse(ticket, refusal));
        (forecast.tail, forecast.precision) = (tail, Precision::Exact);
        self.pace = Some(forecast);
    }
}
