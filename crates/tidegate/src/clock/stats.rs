//! What a system clock has done to follow wall time.

use std::time::Duration;

/// How a [`SystemClock`](crate::SystemClock) has followed wall time since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockStats {
    /// Steps forward of the wall clock that the clock has followed at once.
    pub steps: u64,
    /// The sum of those steps: time that the clock has skipped.
    pub stepped: Duration,
    /// How far the clock is ahead of wall time now, because the wall clock was set back: the clock runs slow until this
    /// is zero. Less than a microsecond means nothing.
    pub ahead: Duration,
}
