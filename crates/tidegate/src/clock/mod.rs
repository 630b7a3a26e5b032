//! What time it is, and waiting for it.

mod anchor;
mod manual;
mod stats;
mod system;

pub use manual::{ManualClock, ManualSleep};
pub use stats::ClockStats;
pub use system::{SystemClock, SystemSleep};

use tidegate_core::Timestamp;

/// What time it is.
pub trait Clock {
    /// The instant now.
    fn now(&self) -> Timestamp;
}

/// A clock that can be waited for, by a task of any runtime or by a thread.
///
/// [`SystemClock`] needs no runtime: one thread for the whole process wakes whoever is due. A program that would
/// rather use its runtime's own timers implements this on a clock of its own.
pub trait Timer: Clock {
    /// A wait for an instant. Dropped before it is over, it leaves nothing behind.
    type Sleep: Future<Output = ()> + Send + Unpin;

    /// Waits until this clock shows `at`. Is over at once if it does already.
    fn sleep_until(&self, at: Timestamp) -> Self::Sleep;
}
