//! What the most used key of each limit has used, in the present window and in the one before.
//!
//! Nodes learn what is used from replies of the store. A scrape comes less often than many windows end, so the most of a
//! window is kept until the next window is over. Windows are by this node's clock: for a metric that is near enough.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use tidegate_core::{Counter, CounterId, Timestamp};

/// Limits at most. Rules have fewer; requests that bring their own limits may have more.
const LIMITS_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct UsagePeaks {
    peaks: Mutex<HashMap<CounterId, Peak, RandomState>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Peak {
    window_ns: u64,
    /// The number of the present window.
    window: u64,
    /// The most that was used in it, divided by the limit.
    most: f64,
    most_before: f64,
}

impl UsagePeaks {
    /// Notes what a key of this limit has used, divided by the limit.
    pub fn note(&self, counter: &Counter, ratio: f64, now: Timestamp) {
        let mut peaks = self.peaks.lock().unwrap_or_else(PoisonError::into_inner);
        if peaks.len() >= LIMITS_MAX && !peaks.contains_key(&counter.id()) {
            peaks.clear();
        }
        let peak = peaks.entry(counter.id()).or_default();
        peak.window_ns = counter.limit().rate().window_ns();
        peak.go_to(now);
        peak.most = peak.most.max(ratio);
    }

    /// The most of the present window and the one before, for each limit that was used in them.
    pub fn ratios(&self, now: Timestamp) -> Vec<(CounterId, f64)> {
        let mut peaks = self.peaks.lock().unwrap_or_else(PoisonError::into_inner);
        peaks.retain(|_, peak| {
            peak.go_to(now);
            peak.most.max(peak.most_before) > 0.0
        });
        peaks.iter().map(|(counter, peak)| (*counter, peak.most.max(peak.most_before))).collect()
    }
}

impl Peak {
    fn go_to(&mut self, now: Timestamp) {
        let window = now.as_nanos() / self.window_ns.max(1);
        if window > self.window {
            self.most_before = if window == self.window + 1 { self.most } else { 0.0 };
            (self.window, self.most) = (window, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Limit;

    use super::*;

    #[test]
    fn the_most_of_a_window_is_kept_until_the_next_one_is_over() {
        let limit: Limit = "{algorithm: fixed_window, limit: 10, per: 1s}".parse().unwrap();
        let counter = Counter::new("rule", 0, limit);
        let peaks = UsagePeaks::default();
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        peaks.note(&counter, 0.5, at(100));
        peaks.note(&counter, 1.2, at(900));
        peaks.note(&counter, 0.1, at(1_100));
        assert_eq!(peaks.ratios(at(1_900)), [(counter.id(), 1.2)]);
        assert_eq!(peaks.ratios(at(2_100)), [(counter.id(), 0.1)]);
        assert_eq!(peaks.ratios(at(3_100)), []);
    }
}
