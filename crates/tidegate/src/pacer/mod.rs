//! Permits at a steady rate, in one process, like Guava's `RateLimiter`.
//!
//! ```text
//! Pacer::acquire(permits)
//!   Clock     -> now                                        clock/
//!   Schedule  -> how long this caller waits, and what it    schedule.rs: when each caller may proceed
//!                costs the next                             shape.rs: what stored permits cost
//!   Timer     -> the wait, of a task or of a thread         clock/, blocking.rs
//! ```

mod builder;
mod error;
mod into_rate;
mod permits;
mod ratio;
mod schedule;
mod shape;

use std::time::Duration;

use tidegate_core::Rate;

use crate::blocking::block_on;
use crate::sync::{Mutex, lock};
use crate::{Refused, SystemClock, Timer};
use permits::ReservationGuard;
use schedule::Schedule;

pub use builder::PacerBuilder;
pub use error::PacerError;
pub use into_rate::IntoRate;
pub use permits::Permits;
pub use shape::{COLD_FACTOR_TERM_MAX, ColdFactor};

/// Hands out permits at a steady rate, and callers wait for theirs.
///
/// A limiter admits or denies. A pacer says when. It is for programs that should not do their work too fast: send at
/// most 100 mails a minute, or read at most 50 MB a second (one permit per byte).
///
/// ```
/// use std::time::Duration;
/// use tidegate::Pacer;
///
/// let pacer = Pacer::new("1000/s")?;
/// assert_eq!(pacer.acquire_blocking(3)?.waited(), Duration::ZERO);
/// // Three permits at 1 ms each are paid for by the next caller.
/// assert!(pacer.acquire_blocking(1)?.waited() <= Duration::from_millis(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # The next caller pays
///
/// The number of permits of a call has no effect on its own wait, only on the wait of the *next* call. So a large
/// request proceeds immediately if the pacer is idle, and the next call waits for it. Calls are served in the order in
/// which they came.
///
/// # Unused permits
///
/// By default the unused permits of the last second are stored, and later come without a wait.
/// [`max_burst_seconds`](PacerBuilder::max_burst_seconds) sets how many seconds. For work that is *slower* after a
/// pause, because caches are cold and connections are closed, use [`warm_up`](PacerBuilder::warm_up): then an idle
/// pacer hands out its first permits more slowly, by the [`cold_factor`](PacerBuilder::cold_factor), and reaches its
/// rate within the warm-up period.
///
/// # Precision
///
/// Waits are those of Guava's `RateLimiter` for the same calls at the same times, computed in integers. Guava drops the
/// fraction of a microsecond of each cost, so 3 a second become a little more in the long run. Here they are exactly 3.
/// Every wait is rounded up to a whole nanosecond.
///
/// # Waiting
///
/// | | waits | may be refused |
/// |---|---|---|
/// | [`try_acquire`](Self::try_acquire) | never | yes |
/// | [`acquire`](Self::acquire) | as long as necessary | currently not |
/// | [`acquire_within`](Self::acquire_within) | for a maximum time | yes, immediately |
///
/// Methods that wait are for tasks of any runtime. [`acquire_blocking`](Self::acquire_blocking) and
/// [`acquire_within_blocking`](Self::acquire_within_blocking) are for threads. Tasks and threads can share a pacer.
/// Time comes from a [`Timer`]. With a [`ManualClock`](crate::ManualClock) a test controls it:
///
/// ```
/// use std::time::Duration;
/// use tidegate::{ManualClock, Nanos, Pacer, Refused};
///
/// let clock = ManualClock::default();
/// let pacer = Pacer::builder().rate("5/s").clock(clock.clone()).build()?;
///
/// assert_eq!(pacer.acquire_blocking(10)?.waited(), Duration::ZERO);
/// let refused = Refused::TooLong { wait: Some(Nanos::new(2_000_000_000)) };
/// assert_eq!(pacer.try_acquire(1), Err(refused.clone()));
/// assert_eq!(pacer.acquire_within_blocking(1, Duration::from_secs(1)), Err(refused));
/// clock.advance(Duration::from_secs(2));
/// assert!(pacer.try_acquire(1).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pacer<C = SystemClock> {
    schedule: Mutex<Schedule>,
    clock: C,
}

impl Pacer {
    /// A pacer with this rate that stores the unused permits of the last second, like Guava's `RateLimiter.create`.
    pub fn new(rate: impl IntoRate) -> Result<Self, PacerError> {
        Self::builder().rate(rate).build()
    }

    /// Starts to build a pacer.
    pub fn builder() -> PacerBuilder {
        PacerBuilder::new()
    }
}

impl<C: Timer> Pacer<C> {
    /// Waits for its turn, and takes the permits. Currently it is never refused.
    ///
    /// The permits are taken, and the wait is determined, when the future is first polled. If the future is dropped
    /// while it waits and no later call took permits, its permits are returned, exactly as if it had never been made.
    /// Otherwise the permits are spent, because later callers already wait for the time after them.
    ///
    /// Zero permits wait for nothing and take nothing. The number of permits is not limited. Callers after more than
    /// two million years' worth of permits wait no longer than that.
    pub async fn acquire(&self, permits: u64) -> Result<Permits, Refused> {
        if permits == 0 {
            return Ok(Permits::IMMEDIATE);
        }
        Ok(self.reserve(permits).wait().await)
    }

    /// As [`acquire`](Self::acquire), if the wait is at most `max_wait`. Otherwise it is refused immediately, and takes
    /// nothing.
    pub async fn acquire_within(&self, permits: u64, max_wait: Duration) -> Result<Permits, Refused> {
        if permits == 0 {
            return Ok(Permits::IMMEDIATE);
        }
        Ok(self.reserve_within(permits, max_wait)?.wait().await)
    }

    /// As [`acquire`](Self::acquire), blocking the current thread.
    pub fn acquire_blocking(&self, permits: u64) -> Result<Permits, Refused> {
        block_on(self.acquire(permits))
    }

    /// As [`acquire_within`](Self::acquire_within), blocking the current thread.
    pub fn acquire_within_blocking(&self, permits: u64, max_wait: Duration) -> Result<Permits, Refused> {
        block_on(self.acquire_within(permits, max_wait))
    }

    /// Takes the permits if they are available now. Otherwise it is refused, and takes nothing. Never waits.
    pub fn try_acquire(&self, permits: u64) -> Result<Permits, Refused> {
        if permits == 0 {
            return Ok(Permits::IMMEDIATE);
        }
        self.reserve_within(permits, Duration::ZERO)?.use_now();
        Ok(Permits::IMMEDIATE)
    }

    /// Changes the rate from now on.
    ///
    /// Callers that already wait are not affected, nor is the next caller: it waits for permits that were handed out at
    /// the old rate. The stored permits keep their share of the maximum: if the pacer stores up to 10 seconds, then 4
    /// seconds' worth stay 4 seconds' worth.
    pub fn set_rate(&self, rate: impl IntoRate) -> Result<(), PacerError> {
        let rate = rate.into_rate()?;
        lock(&self.schedule).set_rate(rate);
        Ok(())
    }

    /// The current rate.
    pub fn rate(&self) -> Rate {
        lock(&self.schedule).rate()
    }

    // The clock is read under the lock, so that callers are served in order.

    fn reserve(&self, permits: u64) -> ReservationGuard<'_, C> {
        let mut schedule = lock(&self.schedule);
        let now = self.clock.now();
        ReservationGuard::new(self, schedule.reserve(permits, now), now)
    }

    fn reserve_within(&self, permits: u64, max_wait: Duration) -> Result<ReservationGuard<'_, C>, Refused> {
        let mut schedule = lock(&self.schedule);
        let now = self.clock.now();
        let would_wait = schedule.wait(now);
        if would_wait.get() > max_wait.as_nanos() {
            return Err(Refused::TooLong { wait: Some(would_wait) });
        }
        Ok(ReservationGuard::new(self, schedule.reserve(permits, now), now))
    }
}
