//! pingora-limits: its rate estimator counts each request and returns the count.

use std::hint::black_box;
use std::time::Duration;

use pingora_limits::rate::Rate;

use super::{Contender, Lap};
use crate::bench::workload::BenchLimit;

pub(super) struct Pingora {
    rate: Rate,
    limit: isize,
}

impl Pingora {
    pub(super) fn new(BenchLimit { per_s, .. }: BenchLimit) -> Self {
        // Keys share counters, so a limit per key would deny requests of other keys.
        Self { rate: Rate::new(Duration::from_secs(per_s.into())), limit: isize::MAX }
    }
}

impl Contender for Pingora {
    fn name(&self) -> &str {
        "pingora-limits"
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "pingora-limits: only counts, in 4 x 1,024 counters shared by all keys; its counts can be too high.",
        )
    }

    fn lap_shared(&self, lap: Lap<'_>) -> u64 {
        lap.admitted(|key| black_box(self.rate.observe(key, 1)) <= self.limit)
    }
}
