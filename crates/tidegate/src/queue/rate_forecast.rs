//! Forecasts for counters in a shared store, by the release rate of the limit.
//!
//! The store says when the head of a queue may be admitted. Requests behind it cannot be admitted faster than the
//! limit's [`ReleaseRate`], so a request with an earlier deadline is refused. The estimate ignores other nodes, so
//! requests may leave later.

use tidegate_core::{ReleaseRate, Timestamp};

use super::forecast::Precision;
use super::wait_queue::{Ticket, WaitQueue, Waiter, too_long};
use super::{LATE_NS_MAX, Refusal};

/// The earliest time at which all waiters have left.
#[derive(Clone, Copy)]
pub(crate) struct RateForecast {
    /// When the request that was the head at the time of the forecast may be admitted.
    due: Timestamp,
    /// How fast requests follow it.
    release_rate: ReleaseRate,
    /// How fast requests follow all waiters.
    tail_rate: ReleaseRate,
    precision: Precision,
}

impl RateForecast {
    /// Marks the forecast, after a request behind the head left.
    pub(crate) fn marked_late(self) -> Self {
        Self { precision: Precision::MaybeLate, ..self }
    }

    /// When a new waiter leaves at the earliest, behind all waiters of the queue.
    fn leaves_at(&self, waiter: &Waiter) -> Timestamp {
        let mut tail = self.tail_rate;
        self.due.saturating_add(tail.release_next(waiter.cost))
    }
}

impl WaitQueue {
    /// The refusal of a new waiter that cannot be admitted in time, if that is known.
    pub(crate) fn refusal_by_rate(&mut self, waiter: &mut Waiter) -> Option<Refusal> {
        let forecast = self.rate_forecast?;
        let mut leaves_at = forecast.leaves_at(waiter);
        if forecast.precision == Precision::MaybeLate && waiter.gives_up_before(leaves_at) {
            self.forecast_all_by_rate();
            leaves_at = self.rate_forecast?.leaves_at(waiter);
        }
        if waiter.gives_up_before(leaves_at) {
            return Some(too_long(waiter.arrived_at, leaves_at));
        }
        waiter.forecast_leaves_at = Some(leaves_at);
        if let Some(forecast) = &mut self.rate_forecast {
            forecast.tail_rate.release_next(waiter.cost);
        }
        None
    }

    /// The store replied that the head may be admitted at `due`.
    pub(crate) fn on_postponed_by_rate(
        &mut self,
        head: Ticket,
        due: Timestamp,
        release_rate: Option<ReleaseRate>,
    ) {
        // The head and the requests behind it were forecast when they arrived. Forecast again only if the head is later
        // than that, by more than `LATE_NS_MAX`: replies take time, and each may take a little longer.
        let forecast =
            self.rate_forecast.and(self.waiters.get(&head).and_then(|head| head.forecast_leaves_at));
        let is_as_forecast = |at: Timestamp| due.as_nanos() <= at.as_nanos().saturating_add(LATE_NS_MAX);
        if release_rate.is_none() || !forecast.is_some_and(is_as_forecast) {
            let precision = Precision::Exact;
            self.rate_forecast = release_rate.map(|release_rate| RateForecast {
                due,
                release_rate,
                tail_rate: release_rate,
                precision,
            });
            self.forecast_all_by_rate();
        }
    }

    /// Forecasts when each waiter leaves at the earliest, and refuses those that would leave too late.
    pub(crate) fn forecast_all_by_rate(&mut self) {
        let Some(mut forecast) = self.rate_forecast else { return };
        let mut tail = forecast.release_rate;
        let mut refused = Vec::new();
        let waiting = self.waiters.iter_mut().skip(1).filter(|(_, waiter)| waiter.leaves_at.is_none());
        for (ticket, waiter) in waiting {
            // A refused request leaves its units to those behind it.
            let mut after = tail;
            let leaves_at = forecast.due.saturating_add(after.release_next(waiter.cost));
            waiter.forecast_leaves_at = Some(leaves_at);
            match waiter.gives_up_before(leaves_at) {
                true => refused.push((*ticket, too_long(waiter.arrived_at, leaves_at))),
                false => tail = after,
            }
        }
        refused.into_iter().for_each(|(ticket, refusal)| self.refuse(ticket, refusal));
        (forecast.tail_rate, forecast.precision) = (tail, Precision::Exact);
        self.rate_forecast = Some(forecast);
    }
}
