//! How long the stages of a decision took. Timing is off unless the caller asks for it.

use tidegate_core::Timestamp;

use crate::Clock;

/// How long the stages of a decision took, in nanoseconds. For a request that waited, the sum over all its attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageTimes {
    /// Finding the rules that apply, and building the keys.
    pub matching_ns: u64,
    /// Asking the store.
    pub store_ns: u64,
}

/// Reads the clock around each stage, if timing is on.
#[derive(Clone, Copy)]
pub(super) struct StageTimer(Option<StageTimes>);

impl StageTimer {
    pub const OFF: Self = Self(None);

    pub fn on() -> Self {
        Self(Some(StageTimes::default()))
    }

    #[inline]
    pub fn times(&self) -> Option<StageTimes> {
        self.0
    }

    #[inline]
    pub fn time_matching<C: Clock, R>(&mut self, clock: &C, stage: impl FnOnce() -> R) -> R {
        let Some(times) = &mut self.0 else { return stage() };
        let (ns, result) = time_stage(clock, stage);
        times.matching_ns = times.matching_ns.saturating_add(ns);
        result
    }

    #[inline]
    pub fn time_store<C: Clock, R>(&mut self, clock: &C, stage: impl FnOnce() -> R) -> R {
        let Some(times) = &mut self.0 else { return stage() };
        let (ns, result) = time_stage(clock, stage);
        times.store_ns = times.store_ns.saturating_add(ns);
        result
    }

    /// Adds the time since the store was asked.
    pub fn add_store_since<C: Clock>(&mut self, asked_at: Timestamp, clock: &C) {
        if let Some(times) = &mut self.0 {
            let ns = clock.now().as_nanos().saturating_sub(asked_at.as_nanos());
            times.store_ns = times.store_ns.saturating_add(ns);
        }
    }
}

#[inline(never)]
fn time_stage<C: Clock, R>(clock: &C, stage: impl FnOnce() -> R) -> (u64, R) {
    let from = clock.now();
    let result = stage();
    (clock.now().as_nanos().saturating_sub(from.as_nanos()), result)
}
