//! "Tokens refill continuously at L per W up to B, start full; admitted iff tokens >= c; exact rational level."
//!
//! The level is a multiple of 1/W token. A caller whose time is older than the bucket's sees the level minus what flows
//! in between the two times. This makes it decide as `gcra` does.

use super::{Event, Model, signed};

#[derive(Debug)]
pub struct TokenBucket {
    pub limit: u64,
    pub window: u64,
    pub burst: u64,
}

impl TokenBucket {
    /// Tokens in 1/W.
    fn tokens(&self, units: u64) -> i128 {
        signed(units) * signed(self.window)
    }

    fn level_at(&self, past: &[Event], at: u128) -> i128 {
        let full = self.tokens(self.burst);
        let (mut level, mut last) = (full, None);
        let refilled = |level: i128, last: Option<u128>, at: u128| {
            let since = last.map_or(0, |last| signed(at) - signed(last));
            (level + since * signed(self.limit)).min(full)
        };
        for event in past {
            level = refilled(level, last, event.at) - self.tokens(event.cost);
            last = Some(event.at);
        }
        refilled(level, last, at)
    }
}

impl Model for TokenBucket {
    fn admits(&self, past: &[Event], request: Event) -> bool {
        if self.limit == 0 {
            return request.cost == 0;
        }
        self.level_at(past, request.at) >= self.tokens(request.cost)
    }

    fn capacity(&self) -> u64 {
        if self.limit == 0 { 0 } else { self.burst }
    }
}
