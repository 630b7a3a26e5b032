//! The algorithms, one per file. Each is a handful of pure functions from a state and an [`Ask`] to numbers;
//! none knows about keys, stores or clocks.
//!
//! | algorithm | state | at most, in any window W |
//! |---|---|---|
//! | [`Gcra`], [`TokenBucket`] | 16 bytes | B + L |
//! | [`LeakyBucket`] | 16 bytes | L leave, evenly spaced |
//! | [`FixedWindow`] | 16 bytes | 2L (in a calendar, around a window shorter than W, 3L) |
//! | [`SlidingWindow`] | 16 bytes | just under 2L; L per W in the long run |
//! | [`SubWindows`] | up to n + 1 entries | L (strict), 2L (not strict) |
//! | [`SlidingLog`] | up to L + 1 entries | L |
//! | [`Concurrency`] | a lease each | L in flight |

mod align;
#[cfg(feature = "calendar")]
mod calendar;
mod concurrency;
mod fixed_window;
mod gcra;
mod leaky_bucket;
#[cfg(not(feature = "calendar"))]
mod no_calendar;
mod sliding_log;
mod sliding_window;
mod sub_windows;
mod token_bucket;

pub use align::{Align, CalendarSpec, Weekday};
#[cfg(feature = "calendar")]
pub use calendar::Calendar;
#[cfg(feature = "calendar")]
pub(crate) use calendar::CalendarUnit;
pub use concurrency::Concurrency;
pub use fixed_window::{CalendarWindow, Edges, FixedWindow, Window};
pub use gcra::{Arrival, Gcra};
pub use leaky_bucket::LeakyBucket;
#[cfg(not(feature = "calendar"))]
pub use no_calendar::Calendar;
pub use sliding_log::SlidingLog;
pub use sliding_window::{SlidingWindow, WindowPair};
pub use sub_windows::{SUB_WINDOWS_DEFAULT, SUB_WINDOWS_MAX, SubWindows};
pub use token_bucket::TokenBucket;

use crate::{TimedCost, UsageLog, Nanos, Outcome, PackedState, Role, ChargeDecision, Timestamp, OutcomeKind, Wait};

/// What every algorithm can say about a state.
///
/// A store weighs all limits of a plan first, then charges all or none, then reports each.
pub trait LimitAlgorithm {
    /// What is kept for a key; the default is a key never seen.
    type State: Default + Clone;

    /// Whether the cost fits now. Changes nothing.
    fn outcome_kind(&self, state: &Self::State, ask: TimedCost) -> OutcomeKind;

    /// Uses the cost, whether it fits or not. Called with a cost of at least one.
    fn charge(&self, state: &mut Self::State, ask: TimedCost);

    /// Uses the cost of a request that passes although it does not fit, because this limit only
    /// [looks on](Role::Observed). Called with a cost of at least one that does not fit.
    ///
    /// The limit is over after it, and not for longer than its own past can account for. Windows and logs count what
    /// came and forget it with time, so that is a charge as any other. A bucket would run into a debt that grows with
    /// every such request and never be of use again, so it is emptied and no further. A refund does not know of that and
    /// gives back all of the cost.
    #[inline]
    fn charge_over_limit(&self, state: &mut Self::State, ask: TimedCost) {
        self.charge(state, ask);
    }

    /// Gives back a cost that was charged and not used, as if the newest units had not been taken. Units that were
    /// forgotten because a limit was over without them do not come back.
    fn refund(&self, state: &mut Self::State, ask: TimedCost);

    /// Whether the state is of a window that began after an instant, so that what was charged then is not in it, or
    /// only as what is left of the window before.
    #[inline]
    fn window_began_after(&self, _state: &Self::State, _instant: Timestamp) -> bool {
        false
    }

    /// From when on a cost counts that is charged at an instant, by the state before it: what
    /// [`refund_charged`](Self::refund_charged) has to know of it.
    #[inline]
    fn counts_from(&self, _state: &Self::State, now: Timestamp) -> Timestamp {
        now
    }

    /// Gives back a cost that [counts from](Self::counts_from) an instant on, however much others have used since. What
    /// is left admits nothing that would be denied if the cost had never been charged; so what cannot be told from what
    /// others used is not given back.
    fn refund_charged(&self, state: &mut Self::State, ask: TimedCost, from: Timestamp) {
        if !self.window_began_after(state, from) {
            self.refund(state, ask);
        }
    }

    /// The largest cost that would fit now.
    fn remaining(&self, state: &Self::State, now: Timestamp) -> u64;

    /// The least wait, possibly none, after which the cost would fit if nothing else came.
    fn wait(&self, state: &Self::State, ask: TimedCost) -> Wait;

    /// The least wait after which the state equals a key never seen.
    fn reset_after(&self, state: &Self::State, now: Timestamp) -> Nanos;

    /// How long a request that was just charged is to be held.
    #[inline]
    fn delay(&self, _state: &Self::State, _ask: TimedCost) -> Nanos {
        Nanos::ZERO
    }

    /// Whether a denied attempt is charged too.
    #[inline]
    fn counts_denied(&self) -> bool {
        false
    }

    /// Whether a request with this fate is charged: everything if it passes, only limits that count denied
    /// attempts if not, and nothing for nothing.
    #[inline]
    fn is_charged(&self, ask: TimedCost, fate: OutcomeKind) -> bool {
        ask.cost > 0 && (fate == OutcomeKind::Allowed || self.counts_denied())
    }

    /// Charges a request that [is to be charged](Self::is_charged).
    #[inline]
    fn charge_decided(&self, state: &mut Self::State, ask: TimedCost, ruling: ChargeDecision) {
        match (ruling.outcome, ruling.decision) {
            (OutcomeKind::Denied, OutcomeKind::Allowed) => self.charge_over_limit(state, ask),
            _ => self.charge(state, ask),
        }
    }

    /// Charges the request if [it is to be](Self::is_charged).
    #[inline]
    fn charge_if_due(&self, state: &mut Self::State, ask: TimedCost, ruling: ChargeDecision) {
        if self.is_charged(ask, ruling.decision) {
            self.charge_decided(state, ask, ruling);
        }
    }

    /// The outcome of this limit, from the state after the request.
    #[inline]
    fn outcome(&self, state: &Self::State, ask: TimedCost, ruling: ChargeDecision) -> Outcome {
        let is_held = ruling.role == Role::Enforced && ruling.decision == OutcomeKind::Allowed && ask.cost > 0;
        Outcome {
            kind: ruling.outcome,
            remaining: self.remaining(state, ask.now),
            retry_after: if ruling.has_retry_after() { self.wait(state, ask) } else { Wait::NONE },
            reset_after: self.reset_after(state, ask.now),
            delay: if is_held { self.delay(state, ask) } else { Nanos::ZERO },
        }
    }

    /// A state that answers [`remaining`](Self::remaining) and [`reset_after`](Self::reset_after) as this one does
    /// now, and is small.
    #[inline]
    fn summary(&self, state: &Self::State, _now: Timestamp) -> Self::State {
        state.clone()
    }

    /// What [`report`](Self::report) would say after [`settle`](Self::settle), changing nothing.
    fn preview(&self, state: &Self::State, ask: TimedCost, ruling: ChargeDecision) -> Outcome {
        if !self.is_charged(ask, ruling.decision) {
            return self.outcome(state, ask, ruling);
        }
        // Only when to retry depends on more than the sketch shows.
        let mut after = if ruling.has_retry_after() { state.clone() } else { self.summary(state, ask.now) };
        self.charge_decided(&mut after, ask, ruling);
        self.outcome(&after, ask, ruling)
    }

    /// A request that touches this limit alone: weigh, settle, report.
    #[inline]
    fn decide(&self, state: &mut Self::State, ask: TimedCost) -> Outcome {
        let ruling = ChargeDecision::of_one(self.outcome_kind(state, ask));
        self.charge_if_due(state, ask, ruling);
        self.outcome(state, ask, ruling)
    }
}

/// The algorithms whose state is one [`Packed`].
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

/// The algorithms whose state is a [`Ledger`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageLogAlgorithm {
    /// Sliding log.
    SlidingLog(SlidingLog),
    /// Sub-window counters.
    SubWindows(SubWindows),
}

/// Implements [`Counting`] for an enum by asking whichever algorithm it holds.
macro_rules! limit_algorithm_by_variant {
    ($family:ident, $state:ty, $($variant:ident),+) => {
        impl LimitAlgorithm for $family {
            type State = $state;
            #[inline]
            fn outcome_kind(&self, state: &$state, ask: TimedCost) -> OutcomeKind {
                match self { $(Self::$variant(one) => one.outcome_kind(state, ask)),+ }
            }
            #[inline]
            fn charge(&self, state: &mut $state, ask: TimedCost) {
                match self { $(Self::$variant(one) => one.charge(state, ask)),+ }
            }
            fn charge_over_limit(&self, state: &mut $state, ask: TimedCost) {
                match self { $(Self::$variant(one) => one.charge_over_limit(state, ask)),+ }
            }
            #[inline]
            fn refund(&self, state: &mut $state, ask: TimedCost) {
                match self { $(Self::$variant(one) => one.refund(state, ask)),+ }
            }
            fn window_began_after(&self, state: &$state, instant: Timestamp) -> bool {
                match self { $(Self::$variant(one) => one.window_began_after(state, instant)),+ }
            }
            fn counts_from(&self, state: &$state, now: Timestamp) -> Timestamp {
                match self { $(Self::$variant(one) => one.counts_from(state, now)),+ }
            }
            fn refund_charged(&self, state: &mut $state, ask: TimedCost, from: Timestamp) {
                match self { $(Self::$variant(one) => one.refund_charged(state, ask, from)),+ }
            }
            #[inline]
            fn remaining(&self, state: &$state, now: Timestamp) -> u64 {
                match self { $(Self::$variant(one) => one.remaining(state, now)),+ }
            }
            #[inline]
            fn wait(&self, state: &$state, ask: TimedCost) -> Wait {
                match self { $(Self::$variant(one) => one.wait(state, ask)),+ }
            }
            #[inline]
            fn reset_after(&self, state: &$state, now: Timestamp) -> Nanos {
                match self { $(Self::$variant(one) => one.reset_after(state, now)),+ }
            }
            #[inline]
            fn delay(&self, state: &$state, ask: TimedCost) -> Nanos {
                match self { $(Self::$variant(one) => one.delay(state, ask)),+ }
            }
            #[inline]
            fn counts_denied(&self) -> bool {
                match self { $(Self::$variant(one) => one.counts_denied()),+ }
            }
            fn summary(&self, state: &$state, now: Timestamp) -> $state {
                match self { $(Self::$variant(one) => one.summary(state, now)),+ }
            }
        }
    };
}

limit_algorithm_by_variant!(PackedAlgorithm, PackedState, Gcra, TokenBucket, LeakyBucket, FixedWindow, SlidingWindow);
limit_algorithm_by_variant!(UsageLogAlgorithm, UsageLog, SlidingLog, SubWindows);
