//! Permits handed out smoothly, in one process: Guava's `RateLimiter`.
//!
//! ```text
//! Pacer::acquire(permits)
//!   Clock     -> now                                        clock/
//!   Schedule  -> how long this caller waits, and what it    schedule.rs: who goes when
//!                costs the next                             shape.rs: what unused permits are worth
//!   Timer     -> the wait, of a task or of a thread         clock/, blocking.rs
//! ```

mod builder;
mod error;
mod held;
mod into_rate;
mod paced;
mod ratio;
mod schedule;
mod shape;

pub use builder::PacerBuilder;
pub use error::PacerError;
pub use into_rate::IntoRate;
pub use paced::Permits;
pub use shape::{COLD_FACTOR_TERM_MAX, ColdFactor};

use std::time::Duration;

use tidegate_core::Rate;

use crate::blocking::block_on;
use crate::sync::{Mutex, lock};
use crate::{Refused, SystemClock, Timer};
use held::ReservationGuard;
use schedule::Schedule;

/// Hands out permits at a steady rate; callers wait for theirs.
///
/// A limiter says yes or no; a pacer says when. It is for whoever has work to do and should not do it too fast: send
/// at most 100 mails a minute, read at most 50 MB a second (a byte is a permit).
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
/// # Who pays
///
/// How many permits a call asks for has no effect on how long it waits, only on how long the *next* one does. So a
/// large request goes at once if the pacer is idle, and what it took is waited for afterwards. Calls are served in
/// the order in which they came.
///
/// # What becomes of unused permits
///
/// By default the permits of the last second are kept and then come without a wait;
/// [`max_burst_seconds`](PacerBuilder::max_burst_seconds) says of how many. For what is *slower* after a pause,
/// because caches are cold and connections closed, there is [`warm_up`](PacerBuilder::warm_up): then an idle pacer
/// hands out its first permits a [`cold_factor`](PacerBuilder::cold_factor) more slowly and gets to its rate within
/// the warm-up period.
///
/// # Exactly
///
/// Waits are those of Guava's `RateLimiter` for the same calls at the same times, computed in integers: Guava drops
/// the fraction of a microsecond of each cost, so that 3 a second are a little more in the long run; here they are
/// 3. Every wait is rounded up to a whole nanosecond.
///
/// # Waiting
///
/// | | waits | may be refused |
/// |---|---|---|
/// | [`try_acquire`](Self::try_acquire) | never | yes |
/// | [`acquire`](Self::acquire) | as long as it takes | not today |
/// | [`acquire_within`](Self::acquire_within) | for a maximum time | yes, at once |
///
/// Those that wait are for tasks of any runtime; [`acquire_blocking`](Self::acquire_blocking) and
/// [`acquire_within_blocking`](Self::acquire_within_blocking) are for threads. Tasks and threads can share a pacer. Time is
/// a [`Timer`]'s; on a [`ManualClock`](crate::ManualClock) a test moves it:
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
    /// A pacer at this rate that keeps the permits of the last second, as Guava's `RateLimiter.create` makes.
    pub fn new(rate: impl IntoRate) -> Result<Self, PacerError> {
        Self::builder().rate(rate).build()
    }

    /// Starts to put a pacer together.
    pub fn builder() -> PacerBuilder {
        PacerBuilder::new()
    }
}

impl<C: Timer> Pacer<C> {
    /// Waits for its turn, takes the permits and says how long it waited. No permits are refused.
    ///
    /// The permits are taken when the future is first polled; that is also when the wait is decided. A future that
    /// is dropped while it waits gives its permits back if nobody took any after it, exactly as if it had never
    /// been; else others wait for what came after it already, and they are spent.
    ///
    /// Zero permits wait for nothing and take nothing. There is no limit to how many can be asked for; those who
    /// come after more than two million years' worth wait no longer than that.
    pub async fn acquire(&self, permits: u64) -> Result<Permits, Refused> {
        if permits == 0 {
            return Ok(Permits::IMMEDIATE);
        }
        Ok(self.reserve(permits).wait().await)
    }

    /// As [`acquire`](Self::acquire), if that waits no longer than `max_wait`. Otherwise it is refused at once, and takes
    /// nothing.
    pub async fn acquire_within(&self, permits: u64, max_wait: Duration) -> Result<Permits, Refused> {
        if permits == 0 {
            return Ok(Permits::IMMEDIATE);
        }
        Ok(self.reserve_within(permits, max_wait)?.wait().await)
    }

    /// As [`acquire`](Self::acquire), with the thread at hand.
    pub fn acquire_blocking(&self, permits: u64) -> Result<Permits, Refused> {
        block_on(self.acquire(permits))
    }

    /// As [`acquire_within`](Self::acquire_within), with the thread at hand.
    pub fn acquire_within_blocking(&self, permits: u64, max_wait: Duration) -> Result<Permits, Refused> {
        block_on(self.acquire_within(permits, max_wait))
    }

    /// Takes the permits if they are there. Otherwise it is refused, and takes nothing. Never waits.
    pub fn try_acquire(&self, permits: u64) -> Result<Permits, Refused> {
        if permits == 0 {
            return Ok(Permits::IMMEDIATE);
        }
        self.reserve_within(permits, Duration::ZERO)?.use_now();
        Ok(Permits::IMMEDIATE)
    }

    /// Changes the rate from now on.
    ///
    /// Nobody who waits already waits longer or shorter for it, nor does the next caller: what it waits for was
    /// handed out at the old rate. What was kept stays the same share of the most that can be: with a pacer that
    /// keeps 10 seconds, 4 seconds' worth stay 4 seconds' worth.
    pub fn set_rate(&self, rate: impl IntoRate) -> Result<(), PacerError> {
        let rate = rate.into_rate()?;
        lock(&self.schedule).set_rate(rate);
        Ok(())
    }

    /// The rate in force.
    pub fn rate(&self) -> Rate {
        lock(&self.schedule).rate()
    }

    // The clock is read under the lock, so that who comes first is served first.

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
