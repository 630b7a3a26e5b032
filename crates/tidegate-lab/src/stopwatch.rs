//! Stopwatches. What is reported is processor time: on a machine that others use too, wall time is mostly the
//! others.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Processor time of this thread since the start.
pub(crate) struct ThreadTime(u64);

/// Wall time since the start.
pub(crate) struct WallTime(u64);

impl ThreadTime {
    pub(crate) fn start() -> Self {
        Self(nanos(clock_gettime(ClockId::ThreadCPUTime)))
    }

    pub(crate) fn elapsed_ns(&self) -> u64 {
        nanos(clock_gettime(ClockId::ThreadCPUTime)).saturating_sub(self.0)
    }
}

impl WallTime {
    pub(crate) fn start() -> Self {
        Self(nanos(clock_gettime(ClockId::Monotonic)))
    }

    pub(crate) fn elapsed_ns(&self) -> u64 {
        nanos(clock_gettime(ClockId::Monotonic)).saturating_sub(self.0)
    }
}

fn nanos(time: Timespec) -> u64 {
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    unsigned(time.tv_sec) * 1_000_000_000 + unsigned(time.tv_nsec)
}
