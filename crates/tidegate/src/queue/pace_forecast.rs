//! Forecasts for counters that are not in memory, by the limits' release rate.
//!
//! The store says when the head of a queue may fit. Requests behind it follow no sooner than the limit lets them ([`Pace`]), so a
//! request that gives up before that is refused. Other nodes may take units, so requests may leave later than this says.

use tidegate_core::{ReleaseRate, Timestamp};

use super::forecast::Precision;
use super::wait_queue::{WaitQueue, Ticket, Waiter, too_long};
use super::{LATE_NS_MAX, Refusal};

/// When all in a queue leave at the earliest.
#[derive(Clone, Copy)]
pub(super) struct RateForecast {
    /// When the request fits, or fitted, that was the head when the forecast was made.
    due: Timestamp,
    /// How fast requests follow it.
    release_rate: ReleaseRate,
    /// How fast requests follow all that are in the queue.
    tail_rate: ReleaseRate,
    precision: Precision,
}

impl RateForecast {
    /// The same, after a request behind the head left.
    pub(super) fn marked_late(self) -> Self {
        Self { precision: Precision::MaybeLate, ..self }
    }

    /// When a newcomer leaves at the earliest, behind all in the queue.
    fn leaves_at(&self, newcomer: &Waiter) -> Timestamp {
        let mut tail = self.tail_rate;
        self.due.saturating_add(tail.release_next(newcomer.cost))
    }
}

impl WaitQueue {
    /// Why a newcomer need not enter, if that is known.
    pub(super) fn refusal_by_rate(&mut self, newcomer: &mut Waiter) -> Option<Refusal> {
        let forecast = self.rate_forecast?;
        let mut leaves = forecast.leaves_at(newcomer);
        if forecast.precision == Precision::MaybeLate && newcomer.gives_up_before(leaves) {
            self.forecast_all_by_rate();
            leaves = self.rate_forecast?.leaves_at(newcomer);
        }
        if newcomer.gives_up_before(leaves) {
            return Some(too_long(newcomer.arrived_at, leaves));
        }
        newcomer.forecast_leaves_at = Some(leaves);
        if let Some(forecast) = &mut self.rate_forecast {
            forecast.tail_rate.release_next(newcomer.cost);
        }
        None
    }

    /// The store says that the head fits at `due`.
    pub(super) fn on_postponed_by_rate(&mut self, head: Ticket, due: Timestamp, pace: Option<ReleaseRate>) {
        // The head was forecast when it came, and so were those behind it, unless it is later than that. A reply takes a while, which
        // may be a little more each time.
        let forecast = self.rate_forecast.and(self.waiters.get(&head).and_then(|head| head.forecast_leaves_at));
        let is_as_forecast = |at: Timestamp| due.as_nanos() <= at.as_nanos().saturating_add(LATE_NS_MAX);
        if pace.is_none() || !forecast.is_some_and(is_as_forecast) {
            let precision = Precision::Exact;
            self.rate_forecast = pace.map(|pace| RateForecast { due, release_rate: pace, tail_rate: pace, precision });
            self.forecast_all_by_rate();
        }
    }

    /// Forecasts when all in the queue leave at the earliest, and refuses those for which that is too late.
    pub(super) fn forecast_all_by_rate(&mut self) {
        let Some(mut forecast) = self.rate_forecast else { return };
        let mut tail = forecast.release_rate;
        let mut refused = Vec::new();
        let waiting = self.waiters.iter_mut().skip(1).filter(|(_, waiter)| waiter.leaves_at.is_none());
        for (ticket, waiter) in waiting {
            // A request that is refused leaves its units to those behind it.
            let mut after = tail;
            let leaves = forecast.due.saturating_add(after.release_next(waiter.cost));
            waiter.forecast_leaves_at = Some(leaves);
            match waiter.gives_up_before(leaves) {
                true => refused.push((*ticket, too_long(waiter.arrived_at, leaves))),
                false => tail = after,
            }
        }
        refused.into_iter().for_each(|(ticket, refusal)| self.refuse(ticket, refusal));
        (forecast.tail_rate, forecast.precision) = (tail, Precision::Exact);
        self.rate_forecast = Some(forecast);
    }
}
