//! governor: its keyed limiter on a `DashMap`, with the default hasher and clock.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::{Contender, GOVERNOR, Lap};
use crate::bench::workload::BenchLimit;

pub(super) struct Governor(DefaultKeyedRateLimiter<String>);

impl Governor {
    pub(super) fn new(BenchLimit { rate, per_s, burst, .. }: BenchLimit) -> Self {
        let interval = Duration::from_secs(per_s.into()) / rate;
        let burst = NonZeroU32::new(burst).expect("a burst is not zero");
        let quota = Quota::with_period(interval).expect("an interval is not zero").allow_burst(burst);
        Self(RateLimiter::dashmap(quota))
    }
}

impl Contender for Governor {
    fn name(&self) -> &str {
        GOVERNOR
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "governor: stores the key string; drops keys only in a scan of all keys, which the caller starts.",
        )
    }

    fn lap_shared(&self, lap: Lap<'_>) -> u64 {
        lap.admitted(|key| black_box(self.0.check_key(key)).is_ok())
    }
}
