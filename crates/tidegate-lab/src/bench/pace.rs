//! How long to measure.

/// How long and how often.
pub(super) struct Pace {
    /// Turns that each contender gets.
    pub rounds: usize,
    /// What a turn is to take of a thread's time.
    pub turn_ns: u64,
    /// Keys at the end of the memory table.
    pub rss_keys: u64,
}

impl Pace {
    pub(super) const FULL: Self = Self { rounds: 11, turn_ns: 40_000_000, rss_keys: super::RSS_KEYS };
    pub(super) const QUICK: Self = Self { rounds: 5, turn_ns: 10_000_000, rss_keys: 1_000_000 };
}
