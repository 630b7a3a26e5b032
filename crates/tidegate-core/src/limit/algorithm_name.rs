//! The names of the algorithms, as they are written in a limit.

use std::fmt;
use std::str::FromStr;

use super::LimitError;

/// The name of an algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AlgorithmName {
    /// `gcra`, the default.
    #[default]
    Gcra,
    /// `token_bucket`
    TokenBucket,
    /// `leaky_bucket`
    LeakyBucket,
    /// `fixed_window`
    FixedWindow,
    /// `sliding_log`
    SlidingLog,
    /// `sliding_window`
    SlidingWindow,
    /// `sub_windows`
    SubWindows,
    /// `concurrency`
    Concurrency,
}

impl AlgorithmName {
    /// Every algorithm.
    pub const ALL: [Self; 8] = [
        Self::Gcra,
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::FixedWindow,
        Self::SlidingLog,
        Self::SlidingWindow,
        Self::SubWindows,
        Self::Concurrency,
    ];

    /// As it is written in a limit.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gcra => "gcra",
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
            Self::FixedWindow => "fixed_window",
            Self::SlidingLog => "sliding_log",
            Self::SlidingWindow => "sliding_window",
            Self::SubWindows => "sub_windows",
            Self::Concurrency => "concurrency",
        }
    }

    /// The options that it takes besides `limit`, `per` and `name`.
    pub const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Gcra | Self::TokenBucket => &["burst"],
            Self::LeakyBucket => &["queue"],
            Self::FixedWindow => &["align", "count_denied"],
            Self::SlidingLog => &["count_denied", "min_interval"],
            Self::SlidingWindow => &[],
            Self::SubWindows => &["sub_windows", "strict"],
            Self::Concurrency => &["ttl"],
        }
    }
}

impl fmt::Display for AlgorithmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AlgorithmName {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        Self::ALL
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| LimitError::unknown("algorithm", text, &Self::ALL.map(Self::as_str)))
    }
}
