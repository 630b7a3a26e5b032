//! Signals: pushed levels from 0 to 1, such as spare capacity, that resize elastic limits.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A level from 0 to 1, in millionths, because decisions use no floating point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level {
    millionths: u32,
}

/// A level that can be pushed while requests read it. Clones share the level.
#[derive(Clone, Debug)]
pub struct Signal {
    millionths: Arc<AtomicU32>,
}

/// The text is not a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLevelError;

const ONE_IN_MILLIONTHS: u32 = 1_000_000;
const DECIMALS_MAX: usize = 6;
/// No level was pushed yet.
const UNSET: u32 = u32::MAX;

impl Level {
    /// A level in millionths. `None` if it is more than one.
    pub fn from_millionths(millionths: u32) -> Option<Self> {
        (millionths <= ONE_IN_MILLIONTHS).then_some(Self { millionths })
    }

    /// The number at this level between `min` and `max`, rounded down.
    pub(super) fn interpolate(self, min: u64, max: u64) -> u64 {
        let above_min =
            u128::from(max.saturating_sub(min)) * u128::from(self.millionths) / u128::from(ONE_IN_MILLIONTHS);
        min + u64::try_from(above_min).unwrap_or(u64::MAX)
    }
}

impl Signal {
    /// Sets the level.
    pub fn push(&self, level: Level) {
        self.millionths.store(level.millionths, Ordering::Relaxed);
    }

    /// The current level. `None` if no level was pushed yet.
    pub fn level(&self) -> Option<Level> {
        Level::from_millionths(self.millionths.load(Ordering::Relaxed))
    }
}

impl Default for Signal {
    fn default() -> Self {
        Self { millionths: Arc::new(AtomicU32::new(UNSET)) }
    }
}

/// Reads `0`, `1`, `0.75`. Digits after the sixth decimal are dropped.
impl FromStr for Level {
    type Err = ParseLevelError;

    fn from_str(text: &str) -> Result<Self, ParseLevelError> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(whole) || !is_digits(decimals) {
            return Err(ParseLevelError);
        }
        let decimals: String = decimals.chars().chain("000000".chars()).take(DECIMALS_MAX).collect();
        let whole: u32 = whole.parse().map_err(|_| ParseLevelError)?;
        let millionths: u32 = decimals.parse().map_err(|_| ParseLevelError)?;
        let total = whole.checked_mul(ONE_IN_MILLIONTHS).and_then(|whole| whole.checked_add(millionths));
        total.and_then(Self::from_millionths).ok_or(ParseLevelError)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.millionths % ONE_IN_MILLIONTHS);
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{}", self.millionths / ONE_IN_MILLIONTHS),
            decimals => write!(f, "{}.{decimals}", self.millionths / ONE_IN_MILLIONTHS),
        }
    }
}

impl fmt::Display for ParseLevelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is not a level (hint: a number from 0 to 1, as in 0.75)")
    }
}

impl std::error::Error for ParseLevelError {}
