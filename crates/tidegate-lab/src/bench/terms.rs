//! The limits under which contenders are compared, in words that each of them translates into its own.

/// A rate with a burst for those that have one, and a plain limit per window for those that do not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Units that come back per window.
    pub rate: u32,
    /// The window.
    pub per_s: u32,
    /// Units that may come at once.
    pub burst: u32,
    /// Units per window of a window counter.
    pub window_limit: u32,
}

impl Terms {
    /// Admits all that a run asks for, on one hot key too.
    ///
    /// By the burst and not by the rate, because a state that refills within nanoseconds is always as good as
    /// never seen, and Tidegate would keep none of a million keys: fast, and no comparison. The interval of 10/7
    /// seconds is no whole number of nanoseconds, as most are not. Burst times window is below 2^62 ns, as it is
    /// for limits that people set, so that nobody computes in wider numbers than they would.
    pub(super) const OPEN: Self = Self { rate: 7, per_s: 10, burst: 250_000_000, window_limit: 250_000_000 };

    /// Admits a few requests a day: after those, denials.
    pub(super) const EXHAUSTED: Self = Self { rate: 10, per_s: 86_400, burst: 10, window_limit: 10 };

    /// A key that was seen once stays live for longer than it takes to add ten million others.
    pub(super) const LASTING: Self = Self { rate: 1, per_s: 3_600, burst: 1_000, window_limit: 1_000 };
}
