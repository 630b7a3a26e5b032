//! throttlecrab: its synchronous limiter over its periodic store.
//!
//! The periodic store is the fastest of its three here: it looks for expired keys once a minute, where the
//! adaptive one walks over all keys every 100,000 decisions, and at every decision while its map is more than three
//! quarters full.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Contender, Lap};
use crate::bench::terms::Terms;

pub(super) const NAME: &str = "throttlecrab";

pub(super) struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    terms: Terms,
}

impl Throttlecrab {
    pub(super) fn new(terms: Terms) -> Self {
        Self { limiter: Mutex::new(RateLimiter::new(PeriodicStore::new())), terms }
    }
}

#[inline]
fn is_admitted(limiter: &mut RateLimiter<PeriodicStore>, terms: Terms, key: &str) -> bool {
    #[allow(clippy::disallowed_methods, reason = "it has no clock of its own and takes this type")]
    let now = SystemTime::now();
    let Terms { rate, per_s, burst, .. } = terms;
    let answer = limiter.rate_limit(key, burst.into(), rate.into(), per_s.into(), 1, now);
    black_box(answer).is_ok_and(|(allowed, _)| allowed)
}

impl Contender for Throttlecrab {
    fn name(&self) -> &str {
        NAME
    }

    fn note(&self) -> Option<&'static str> {
        Some("throttlecrab: needs `&mut`, so two threads share it behind a Mutex; one thread does not lock.")
    }

    fn lap_alone(&mut self, lap: Lap<'_>) -> u64 {
        let terms = self.terms;
        let limiter = self.limiter.get_mut().unwrap_or_else(PoisonError::into_inner);
        lap.admitted(|key| is_admitted(limiter, terms, key))
    }

    fn lap_shared(&self, lap: Lap<'_>) -> u64 {
        let lock = || self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        lap.admitted(|key| is_admitted(&mut lock(), self.terms, key))
    }
}
