//! A bucket that a limit which looks on is charged to: "emptied and no further".
//!
//! Tokens are a multiple of 1/W, and unlike in the other models they are kept: what does not fit takes only what is
//! there, which no list of requests says.

use tidegate_core::{Nanos, Outcome, OutcomeKind, Wait};

use super::{Event, signed};

/// A token bucket, under which `gcra` and `leaky_bucket` are the same.
#[derive(Clone, Debug)]
pub struct ObservedBucket {
    pub limit: u64,
    pub window: u64,
    pub burst: u64,
    /// The level, in 1/W tokens, and when it was written; none if it never was.
    written: Option<(i128, u128)>,
}

impl ObservedBucket {
    pub fn new(limit: u64, window: u64, burst: u64) -> Self {
        Self { limit, window, burst, written: None }
    }

    pub fn fits(&self, asked: Event) -> bool {
        asked.cost == 0 && self.limit == 0 || self.level(asked.at) >= self.tokens(asked.cost)
    }

    /// What passes and fits is taken; of what passes and does not, what is there.
    pub fn charge(&mut self, asked: Event) {
        let level = self.level(asked.at);
        let left = (level - self.tokens(asked.cost)).max(level.min(0));
        self.written = Some((left, asked.at));
    }

    /// What is said of a request from the bucket after it, if it is to be told when to come again.
    pub fn outcome(&self, asked: Event, verdict: OutcomeKind, retries: bool) -> Outcome {
        let level = self.level(asked.at);
        let never = asked.cost > if self.limit == 0 { 0 } else { self.burst };
        let retry_after = match (retries, never) {
            (false, _) => Wait::NONE,
            (true, true) => Wait::NEVER,
            (true, false) => Wait::of(self.until(asked.at, self.tokens(asked.cost))),
        };
        Outcome {
            kind: verdict,
            remaining: u64::try_from(level.max(0) / signed(self.window)).expect("no more than the burst"),
            retry_after,
            reset_after: self.until(asked.at, self.full()),
            delay: Nanos::ZERO,
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

    fn until(&self, at: u128, wanted: i128) -> Nanos {
        let missing = u128::try_from(wanted - self.level(at)).unwrap_or(0);
        Nanos::new(missing.div_ceil(u128::from(self.limit.max(1))))
    }
}
