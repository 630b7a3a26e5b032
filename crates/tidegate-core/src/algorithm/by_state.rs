//! The algorithms, grouped by the kind of their state.

use super::{
    Concurrency, CountDenied, FixedWindow, Gcra, LeakyBucket, LimitAlgorithm, SlidingLog, SlidingWindow,
    SubWindows, TokenBucket, WorstCase,
};
use crate::{Nanos, OutcomeKind, PackedState, TimedCost, Timestamp, UsageLog, Wait};

/// How a limit counts, by the kind of its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// 16 bytes per key.
    Packed(PackedAlgorithm),
    /// A usage log per key.
    UsageLog(UsageLogAlgorithm),
    /// Leases.
    Leases(Concurrency),
}

/// The algorithms whose state is one [`PackedState`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackedAlgorithm {
    /// Generic cell rate algorithm.
    Gcra(Gcra),
    /// Token bucket.
    TokenBucket(TokenBucket),
    /// Leaky bucket as a queue.
    LeakyBucket(LeakyBucket),
    /// Fixed window.
    FixedWindow(FixedWindow),
    /// Sliding window counter.
    SlidingWindow(SlidingWindow),
}

/// The algorithms whose state is a [`UsageLog`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageLogAlgorithm {
    /// Sliding log.
    SlidingLog(SlidingLog),
    /// Sub-window counters.
    SubWindows(SubWindows),
}

impl Algorithm {
    /// The most that it admits for one key, whatever requests come.
    pub fn worst_case(&self) -> WorstCase {
        match self {
            Self::Packed(PackedAlgorithm::Gcra(algorithm)) => algorithm.worst_case(),
            Self::Packed(PackedAlgorithm::TokenBucket(algorithm)) => algorithm.worst_case(),
            Self::Packed(PackedAlgorithm::LeakyBucket(algorithm)) => algorithm.worst_case(),
            Self::Packed(PackedAlgorithm::FixedWindow(algorithm)) => algorithm.worst_case(),
            Self::Packed(PackedAlgorithm::SlidingWindow(algorithm)) => algorithm.worst_case(),
            Self::UsageLog(UsageLogAlgorithm::SlidingLog(algorithm)) => algorithm.worst_case(),
            Self::UsageLog(UsageLogAlgorithm::SubWindows(algorithm)) => algorithm.worst_case(),
            Self::Leases(algorithm) => algorithm.worst_case(),
        }
    }

    /// Which denied attempts are charged too.
    #[inline]
    pub fn count_denied(&self) -> CountDenied {
        match self {
            Self::Packed(algorithm) => algorithm.count_denied(),
            Self::UsageLog(algorithm) => algorithm.count_denied(),
            Self::Leases(algorithm) => algorithm.count_denied(),
        }
    }

    /// Whether some denied attempts are charged too.
    #[inline]
    pub fn counts_denied(&self) -> bool {
        self.count_denied() != CountDenied::Never
    }
}

/// Implements [`LimitAlgorithm`] for an enum by delegating to the variant.
macro_rules! limit_algorithm_by_variant {
    ($family:ident, $state:ty, $($variant:ident),+) => {
        impl LimitAlgorithm for $family {
            type State = $state;
            #[inline]
            fn outcome_kind(&self, state: &$state, request: TimedCost) -> OutcomeKind {
                match self { $(Self::$variant(algorithm) => algorithm.outcome_kind(state, request)),+ }
            }
            #[inline]
            fn charge(&self, state: &mut $state, request: TimedCost) {
                match self { $(Self::$variant(algorithm) => algorithm.charge(state, request)),+ }
            }
            fn charge_over_limit(&self, state: &mut $state, request: TimedCost) {
                match self { $(Self::$variant(algorithm) => algorithm.charge_over_limit(state, request)),+ }
            }
            #[inline]
            fn refund(&self, state: &mut $state, request: TimedCost) {
                match self { $(Self::$variant(algorithm) => algorithm.refund(state, request)),+ }
            }
            fn window_began_after(&self, state: &$state, instant: Timestamp) -> bool {
                match self { $(Self::$variant(algorithm) => algorithm.window_began_after(state, instant)),+ }
            }
            fn counts_from(&self, state: &$state, now: Timestamp) -> Timestamp {
                match self { $(Self::$variant(algorithm) => algorithm.counts_from(state, now)),+ }
            }
            fn refund_charged(&self, state: &mut $state, request: TimedCost, from: Timestamp) {
                match self { $(Self::$variant(algorithm) => algorithm.refund_charged(state, request, from)),+ }
            }
            fn count_since(&self, state: &mut $state, request: TimedCost, from: Timestamp) {
                match self { $(Self::$variant(algorithm) => algorithm.count_since(state, request, from)),+ }
            }
            #[inline]
            fn remaining(&self, state: &$state, now: Timestamp) -> u64 {
                match self { $(Self::$variant(algorithm) => algorithm.remaining(state, now)),+ }
            }
            #[inline]
            fn wait(&self, state: &$state, request: TimedCost) -> Wait {
                match self { $(Self::$variant(algorithm) => algorithm.wait(state, request)),+ }
            }
            #[inline]
            fn reset_after(&self, state: &$state, now: Timestamp) -> Nanos {
                match self { $(Self::$variant(algorithm) => algorithm.reset_after(state, now)),+ }
            }
            #[inline]
            fn delay(&self, state: &$state, request: TimedCost) -> Nanos {
                match self { $(Self::$variant(algorithm) => algorithm.delay(state, request)),+ }
            }
            #[inline]
            fn over(&self, state: &$state, now: Timestamp) -> u64 {
                match self { $(Self::$variant(algorithm) => algorithm.over(state, now)),+ }
            }
            #[inline]
            fn count_denied(&self) -> CountDenied {
                match self { $(Self::$variant(algorithm) => algorithm.count_denied()),+ }
            }
            fn summary(&self, state: &$state, now: Timestamp) -> $state {
                match self { $(Self::$variant(algorithm) => algorithm.summary(state, now)),+ }
            }
        }
    };
}

limit_algorithm_by_variant!(
    PackedAlgorithm,
    PackedState,
    Gcra,
    TokenBucket,
    LeakyBucket,
    FixedWindow,
    SlidingWindow
);
limit_algorithm_by_variant!(UsageLogAlgorithm, UsageLog, SlidingLog, SubWindows);
