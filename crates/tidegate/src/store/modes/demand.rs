//! How many units of a key are asked for, for the size of the next quota lease.

use tidegate_core::Timestamp;

/// Units that were asked for in this period and in the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    period_start: Timestamp,
    current: u64,
    previous: u64,
    /// Requests in this period.
    requests: u32,
}

/// With fewer requests in a period, a lease would save nothing.
const REQUESTS_MIN: u32 = 3;

impl Demand {
    /// Records units that were asked for.
    pub fn record(&mut self, units: u64, now: Timestamp, period_ns: u64) {
        let passed_ns = now.as_nanos().saturating_sub(self.period_start.as_nanos());
        if passed_ns >= period_ns {
            let is_next = passed_ns < 2 * period_ns;
            let previous = if is_next { self.current } else { 0 };
            *self = Self { period_start: now, current: 0, previous, requests: 0 };
        }
        self.current = self.current.saturating_add(units);
        self.requests = self.requests.saturating_add(1);
    }

    /// The units that the next period will probably need: as many as the last one, or as many as this one at its rate
    /// so far. Zero for a key with few requests.
    pub fn per_period(&self, now: Timestamp, period_ns: u64) -> u64 {
        let passed_ns = now.as_nanos().saturating_sub(self.period_start.as_nanos());
        let is_rare = self.requests < REQUESTS_MIN && self.previous < u64::from(REQUESTS_MIN);
        if is_rare || passed_ns >= 2 * period_ns {
            return 0;
        }
        // The rate of the first few requests says little. So the first lease is at most eight times what was asked for.
        let measured_ns = passed_ns.clamp(period_ns / 8, period_ns).max(1);
        let at_rate = u128::from(self.current) * u128::from(period_ns) / u128::from(measured_ns);
        self.previous.max(u64::try_from(at_rate).unwrap_or(u64::MAX))
    }
}
