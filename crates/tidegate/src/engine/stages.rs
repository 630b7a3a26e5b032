//! How long the stages of a decision took, for those who want to know: of most decisions nobody does.

use std::cell::Cell;

use crate::Clock;

/// How long the stages of a decision took, in nanoseconds. Of one that was held, all the times it was asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageTimes {
    /// Finding the rules that apply and the keys.
    pub matching_ns: u64,
    /// Asking the store.
    pub store_ns: u64,
}

/// Looks at the clock around each stage; or does not, and then costs nothing.
#[derive(Clone, Copy)]
pub(super) struct Watch<'w>(pub Option<&'w Cell<StageTimes>>);

impl Watch<'_> {
    pub const OFF: Self = Self(None);

    pub fn matching<C: Clock, R>(self, clock: &C, stage: impl FnOnce() -> R) -> R {
        self.timed(clock, stage, |times, ns| times.matching_ns = times.matching_ns.saturating_add(ns))
    }

    pub fn store<C: Clock, R>(self, clock: &C, stage: impl FnOnce() -> R) -> R {
        self.timed(clock, stage, |times, ns| times.store_ns = times.store_ns.saturating_add(ns))
    }

    #[inline(always)]
    fn timed<C: Clock, R>(
        self,
        clock: &C,
        stage: impl FnOnce() -> R,
        add: impl FnOnce(&mut StageTimes, u64),
    ) -> R {
        let Some(times) = self.0 else { return stage() };
        let from = clock.now();
        let result = stage();
        let mut now = times.get();
        add(&mut now, clock.now().as_nanos().saturating_sub(from.as_nanos()));
        times.set(now);
        result
    }
}
