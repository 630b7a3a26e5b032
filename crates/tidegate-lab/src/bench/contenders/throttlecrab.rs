//! throttlecrab: its synchronous limiter with its periodic store.
//!
//! The periodic store is the fastest of its three stores here: it looks for expired keys once a minute. The adaptive
//! store scans all keys every 100,000 decisions, and at every decision while its map is more than three quarters full.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Contender, Lap};
use crate::bench::workload::BenchLimit;

pub(super) const NAME: &str = "throttlecrab";

pub(super) struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    limit: BenchLimit,
}

impl Throttlecrab {
    pub(super) fn new(limit: BenchLimit) -> Self {
        Self { limiter: Mutex::new(RateLimiter::new(PeriodicStore::new())), limit }
    }
}

#[inline]
fn is_admitted(limiter: &mut RateLimiter<PeriodicStore>, limit: BenchLimit, key: &str) -> bool {
    #[allow(clippy::disallowed_methods, reason = "throttlecrab has no clock and takes this type")]
    let now = SystemTime::now();
    let BenchLimit { rate, per_s, burst, .. } = limit;
    let answer = limiter.rate_limit(key, burst.into(), rate.into(), per_s.into(), 1, now);
    black_box(answer).is_ok_and(|(allowed, _)| allowed)
}

impl Contender for Throttlecrab {
    fn name(&self) -> &str {
        NAME
    }

    fn note(&self) -> Option<&'static str> {
        Some("throttlecrab: needs `&mut`, so two threads share it in a Mutex; one thread does not lock.")
    }

    fn lap_alone(&mut self, lap: Lap<'_>) -> u64 {
        let limit = self.limit;
        let limiter = self.limiter.get_mut().unwrap_or_else(PoisonError::into_inner);
        lap.admitted(|key| is_admitted(limiter, limit, key))
    }

    fn lap_shared(&self, lap: Lap<'_>) -> u64 {
        let lock = || self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        lap.admitted(|key| is_admitted(&mut lock(), self.limit, key))
    }
}
