//! The clocks of the machine. No other file reads them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_timer::Delay;
use tidegate_core::Timestamp;

use super::anchor::{Anchor, ClockSource, CounterRate, STEP_NS};
use super::{Clock, ClockStats, Timer};

/// One per process, so that all clocks show the same time.
#[cfg(not(loom))]
static ANCHOR: Anchor = Anchor::new();
#[cfg(loom)]
loom::lazy_static! {
    static ref ANCHOR: Anchor = Anchor::new();
}

/// Wall time that never steps back.
///
/// The clock counts with the processor's counter if that is steady (`quanta`), at a third of the cost of asking the
/// operating system (see BENCHMARKS.md), and follows the wall clock of the machine:
///
/// - A small difference is slewed: the clock runs up to 500 ppm (1.8 s an hour) faster or slower until the difference
///   is gone. Otherwise the clock is within 2 us of wall time.
/// - A step forward of more than [`SystemClock::STEP`] is followed immediately: the wall clock was set, or the machine
///   was suspended. Limits see that time as passed. [`SystemClock::stats`] counts it.
/// - A step back is never followed. The clock runs 500 ppm slow until wall time has caught up, which takes 33 minutes
///   for a second and twelve weeks for an hour. Meanwhile calendar windows begin early by the difference, which is in
///   [`ClockStats::ahead`]. Only a restart of the process ends it earlier.
///
/// All clocks of a process show the same time. There is no background thread: every 2 ms, the next reader compares the
/// clock with wall time.
#[derive(Clone, Debug)]
pub struct SystemClock {
    machine: MachineClock,
    rate: CounterRate,
}

#[derive(Clone, Debug)]
struct MachineClock {
    counter: quanta::Clock,
}

impl SystemClock {
    /// A larger difference from wall time is a step, and is not slewed.
    pub const STEP: Duration = Duration::from_nanos(STEP_NS);

    /// The clock of this process. The first one sets it to wall time.
    pub fn new() -> Self {
        let machine = MachineClock { counter: quanta::Clock::new() };
        let rate = CounterRate::new(machine.counter.delta_as_nanos(0, 1 << 32));
        ANCHOR.start(&machine, &rate);
        Self { machine, rate }
    }

    /// How the clock has followed wall time since the process started.
    pub fn stats(&self) -> ClockStats {
        ANCHOR.stats(&self.machine, &self.rate)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline(always)]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(ANCHOR.now(&self.machine, &self.rate))
    }
}

impl ClockSource for MachineClock {
    #[inline]
    fn count(&self) -> u64 {
        self.counter.raw()
    }

    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    fn wall_ns(&self) -> u64 {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Timer for SystemClock {
    type Sleep = SystemSleep;

    fn sleep_until(&self, at: Timestamp) -> SystemSleep {
        SystemSleep { clock: self.clone(), at, delay: None }
    }
}

/// A sleep on a [`SystemClock`].
#[derive(Debug)]
pub struct SystemSleep {
    clock: SystemClock,
    at: Timestamp,
    delay: Option<Delay>,
}

/// A longer sleep is split, and the clock is read in between. So a sleep is late by at most 5 ms if the clock is slewed
/// meanwhile, and by at most 10 s if the clock follows a step.
const SLEEP_NS_MAX: u64 = 10 * 1_000_000_000;

impl Future for SystemSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(sleep) = next_sleep(self.at, self.clock.now()) else { return Poll::Ready(()) };
            let delay = self.delay.get_or_insert_with(|| Delay::new(sleep));
            if Pin::new(delay).poll(context).is_pending() {
                return Poll::Pending;
            }
            self.delay = None;
        }
    }
}

/// How long to sleep before the clock is read again. None if it already shows `at`.
fn next_sleep(at: Timestamp, now: Timestamp) -> Option<Duration> {
    let left_ns = at.as_nanos().saturating_sub(now.as_nanos());
    (left_ns > 0).then(|| Duration::from_nanos(left_ns.min(SLEEP_NS_MAX)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn clocks_show_the_same_time() {
        let first = SystemClock::new();
        let clocks = [first.clone(), SystemClock::new(), first];
        let mut last = Timestamp::from_nanos(0);
        for clock in clocks.iter().cycle().take(100_000) {
            let now = clock.now();
            assert!(now >= last, "{now:?} after {last:?}");
            last = now;
        }
    }

    #[test]
    fn a_long_sleep_reads_the_clock_every_ten_seconds() {
        let sleep = |at_ns, now_ns| next_sleep(Timestamp::from_nanos(at_ns), Timestamp::from_nanos(now_ns));
        let day = 24 * 3_600 * 1_000_000_000;
        assert_eq!(sleep(day, 0), Some(Duration::from_secs(10)));
        // The clock was slow and then followed a step.
        assert_eq!(sleep(day, day - 3), Some(Duration::from_nanos(3)));
        assert_eq!(sleep(day, day), None);
        assert_eq!(sleep(day, 2 * day), None);
    }
}
