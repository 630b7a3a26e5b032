//! The only place that looks at the machine's clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tidegate_core::Timestamp;

/// What time it is.
pub trait Clock {
    /// The instant now.
    fn now(&self) -> Timestamp;
}

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

/// A clock that moves when it is told to. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now_ns: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { now_ns: Arc::new(AtomicU64::new(now.as_nanos())) }
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        let by_ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let add = |now: u64| Some(now.saturating_add(by_ns));
        let _ = self.now_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Moves it anywhere, back too.
    pub fn set(&self, now: Timestamp) {
        self.now_ns.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }
}
