//! pingora-limits: its rate estimator, told of each request and asked whether there were too many.

use std::hint::black_box;
use std::time::Duration;

use pingora_limits::rate::Rate;

use super::{Contender, Lap};
use crate::bench::terms::Terms;

pub(super) struct Pingora {
    rate: Rate,
    limit: isize,
}

impl Pingora {
    pub(super) fn new(Terms { per_s, .. }: Terms) -> Self {
        // Keys share counters, so a limit for each of them would be exceeded by all of them together.
        Self { rate: Rate::new(Duration::from_secs(per_s.into())), limit: isize::MAX }
    }
}

impl Contender for Pingora {
    fn name(&self) -> &str {
        "pingora-limits"
    }

    fn note(&self) -> Option<&'static str> {
        Some("pingora-limits: counts only, in 4 x 1,024 counters that all keys share: approximate, too high.")
    }

    fn lap_shared(&self, lap: Lap<'_>) -> u64 {
        lap.admitted(|key| black_box(self.rate.observe(key, 1)) <= self.limit)
    }
}
