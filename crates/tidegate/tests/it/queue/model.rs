//! The simplest queue, and the limits that it is tested with.

use std::time::Duration;

use tidegate::{Limiter, ManualClock, Timestamp, Wait};

pub const KEY: &str = "key";

/// One of each algorithm and option that does not count denied requests.
pub const LIMITS: [&str; 11] = [
    "{algorithm: gcra, limit: 7, per: 1s, burst: 4}",
    "{algorithm: gcra, limit: 3, per: 1s, burst: 5}",
    "{algorithm: token_bucket, limit: 6, per: 1s, burst: 4}",
    "{algorithm: leaky_bucket, limit: 7, per: 1s, queue: 3}",
    "{algorithm: fixed_window, limit: 5, per: 1s}",
    "{algorithm: fixed_window, limit: 4, per: 1s, align: first_hit}",
    "{algorithm: sliding_window, limit: 6, per: 1s}",
    "{algorithm: sliding_log, limit: 5, per: 1s}",
    "{algorithm: sliding_log, limit: 5, per: 1s, min_interval: 150ms}",
    "{algorithm: sub_windows, limit: 5, per: 1s, sub_windows: 7}",
    "{algorithm: sub_windows, limit: 5, per: 1s, sub_windows: 7, strict: false}",
];

/// The start of all tests, in the middle of every window.
pub const START_NS: u64 = 1_700_000_000_123_456_789;

pub fn start() -> Timestamp {
    Timestamp::from_nanos(START_NS)
}

/// This long after the start.
pub fn after_ms(ms: u64) -> Timestamp {
    Timestamp::from_nanos(START_NS + ms * 1_000_000)
}

pub fn later(instant: Timestamp, by_ns: u128) -> Timestamp {
    Timestamp::from_nanos(instant.as_nanos() + u64::try_from(by_ns).unwrap())
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn limiter(limits: &[&str], clock: &ManualClock) -> Limiter<ManualClock> {
    let builder = Limiter::builder().clock(clock.clone());
    limits.iter().fold(builder, |builder, limit| builder.limit(*limit)).build().unwrap()
}

/// One request after the other on its own limiter: no request is decided before the head has left.
pub struct Model {
    limiter: Limiter<ManualClock>,
    /// When the last request left.
    pub left: Timestamp,
}

impl Model {
    pub fn new(limits: &[&str]) -> Self {
        Self { limiter: limiter(limits, &ManualClock::default()), left: Timestamp::default() }
    }

    /// When a request that cannot be decided before `from` would leave. None if it never would. Changes nothing.
    pub fn leaves_at(&self, from: Timestamp, cost: u64) -> Option<Timestamp> {
        let at = self.decided_at(from, cost)?;
        Some(later(at, self.limiter.peek_at(KEY, cost, at).delay.get()))
    }

    /// When it would be admitted. From then on it is delayed until it leaves.
    pub fn decided_at(&self, from: Timestamp, cost: u64) -> Option<Timestamp> {
        let from = from.max(self.left);
        let mut at = from;
        loop {
            let decision = self.limiter.peek_at(KEY, cost, at);
            if decision.is_allowed() {
                // Not a nanosecond earlier.
                let before = Timestamp::from_nanos(at.as_nanos() - 1);
                assert!(at == from || !self.limiter.peek_at(KEY, cost, before).is_allowed());
                return Some(at);
            }
            at = later(at, decision.retry_after.span()?.get());
        }
    }

    /// Lets a request leave.
    pub fn admit(&mut self, from: Timestamp, cost: u64) -> Option<Timestamp> {
        let (at, leaves) = (self.decided_at(from, cost)?, self.leaves_at(from, cost)?);
        assert!(self.limiter.check_at(KEY, cost, at).is_allowed());
        self.left = leaves;
        Some(leaves)
    }

    pub fn remaining(&self, now: Timestamp) -> (u64, Wait) {
        let peek = self.limiter.peek_at(KEY, 1, now);
        (peek.remaining, peek.retry_after)
    }
}

/// What the key has left.
pub fn remaining(limiter: &Limiter<ManualClock>, now: Timestamp) -> (u64, Wait) {
    let peek = limiter.peek_at(KEY, 1, now);
    (peek.remaining, peek.retry_after)
}
