//! The machine's clocks. No other file looks at them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_timer::Delay;
use tidegate_core::Timestamp;

use super::{Clock, Timer};

/// Wall time at the start plus monotonic time since: it never steps back, whatever happens to the wall clock.
///
/// Monotonic time is the processor's own counter where that is steady (`quanta`), a third of the cost of
/// asking the operating system; see BENCHMARKS.md.
#[derive(Clone, Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    counter_at_start: u64,
    wall_ns_at_start: u64,
}

impl SystemClock {
    /// A clock that starts now.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let wall_ns_at_start = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        let counter_at_start = counter.raw();
        Self { counter, counter_at_start, wall_ns_at_start }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let since_ns = self.counter.delta_as_nanos(self.counter_at_start, self.counter.raw());
        Timestamp::from_nanos(self.wall_ns_at_start.saturating_add(since_ns))
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

/// Longer sleeps are several: no instant is too far away for the timer's arithmetic, and two clocks that run a
/// little apart meet again.
const NAP_NS_MAX: u64 = 3_600 * 1_000_000_000;

impl Future for SystemSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let left_ns = self.at.as_nanos().saturating_sub(self.clock.now().as_nanos());
            if left_ns == 0 {
                return Poll::Ready(());
            }
            let nap = Duration::from_nanos(left_ns.min(NAP_NS_MAX));
            let delay = self.delay.get_or_insert_with(|| Delay::new(nap));
            if Pin::new(delay).poll(context).is_pending() {
                return Poll::Pending;
            }
            self.delay = None;
        }
    }
}
