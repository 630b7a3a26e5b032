//! A bucket that an observed limit charges: "emptied and no further".
//!
//! The level is a multiple of 1/W token. Unlike the other models this one keeps the level: a cost that does not fit
//! takes only what is there, which a list of requests does not say.

use tidegate_core::{Nanos, Outcome, OutcomeKind, Wait};

use super::{Event, signed};

/// A token bucket. For this purpose `gcra` and `leaky_bucket` are the same.
#[derive(Clone, Debug)]
pub struct ObservedBucket {
    pub limit: u64,
    pub window: u64,
    pub burst: u64,
    /// The level, in 1/W tokens, and when it was written. `None` if it never was.
    written: Option<(i128, u128)>,
}

impl ObservedBucket {
    pub fn new(limit: u64, window: u64, burst: u64) -> Self {
        Self { limit, window, burst, written: None }
    }

    pub fn fits(&self, request: Event) -> bool {
        request.cost == 0 && self.limit == 0 || self.level(request.at) >= self.tokens(request.cost)
    }

    /// Takes the cost if it fits, and otherwise the whole level.
    pub fn charge(&mut self, request: Event) {
        let level = self.level(request.at);
        let left = (level - self.tokens(request.cost)).max(level.min(0));
        self.written = Some((left, request.at));
    }

    /// The outcome from the bucket after the request. `has_retry_after` says whether it includes a retry time.
    pub fn outcome(&self, request: Event, kind: OutcomeKind, has_retry_after: bool) -> Outcome {
        let level = self.level(request.at);
        let never = request.cost > if self.limit == 0 { 0 } else { self.burst };
        let retry_after = match (has_retry_after, never) {
            (false, _) => Wait::NONE,
            (true, true) => Wait::NEVER,
            (true, false) => Wait::of(self.until(request.at, self.tokens(request.cost))),
        };
        Outcome {
            kind,
            remaining: u64::try_from(level.max(0) / signed(self.window)).expect("no more than the burst"),
            retry_after,
            reset_after: self.until(request.at, self.full()),
            delay: Nanos::ZERO,
            over: 0,
        }
    }

    fn tokens(&self, units: u64) -> i128 {
        signed(units) * signed(self.window)
    }

    fn full(&self) -> i128 {
        if self.limit == 0 { 0 } else { self.tokens(self.burst) }
    }

    fn level(&self, at: u128) -> i128 {
        let Some((level, then)) = self.written else { return self.full() };
        (level + (signed(at) - signed(then)) * signed(self.limit)).min(self.full())
    }

    fn until(&self, at: u128, level: i128) -> Nanos {
        let missing = u128::try_from(level - self.level(at)).unwrap_or(0);
        Nanos::new(missing.div_ceil(u128::from(self.limit.max(1))))
    }
}
