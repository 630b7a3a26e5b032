//! Clocks: the current time, and sleeping until an instant.
//!
//! `system.rs` is the only file that reads the clocks of the machine. `anchor/` makes its clock follow wall time.
//! `manual.rs` is a clock for tests.

mod anchor;
mod manual;
mod system;

use std::time::Duration;

use tidegate_core::Timestamp;

pub use manual::{ManualClock, ManualSleep};
pub use system::{SystemClock, SystemSleep};

/// A clock.
pub trait Clock {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// A clock that can sleep, for tasks of any runtime or for threads.
///
/// [`SystemClock`] needs no runtime: one thread per process wakes the sleepers. A program that prefers the timers of
/// its runtime can implement this on its own clock.
pub trait Timer: Clock {
    /// A sleep until an instant. Dropping it earlier cancels it.
    type Sleep: Future<Output = ()> + Send + Unpin;

    /// Sleeps until this clock shows `at`. Ends immediately if it already does.
    fn sleep_until(&self, at: Timestamp) -> Self::Sleep;
}

/// How a [`SystemClock`] has followed wall time since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockStats {
    /// Steps forward of the wall clock that the clock has followed immediately.
    pub steps: u64,
    /// The sum of those steps: time that the clock has skipped.
    pub stepped: Duration,
    /// How far the clock is ahead of wall time now, because the wall clock was set back. The clock runs slow until this
    /// is zero. Less than a microsecond means nothing.
    pub ahead: Duration,
}
