//! Stopwatches, and the median and minimum of what they show.
//!
//! Benchmarks report CPU time: on a shared machine, wall time mostly shows what else runs.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// CPU time of this thread since the start.
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

/// How long this thread has waited for a core since it started; zero where the system does not say.
pub(crate) fn waited_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    // Time on a core, time waiting for one, number of slices.
    stat.split_whitespace().nth(1).and_then(|waited| waited.parse().ok()).unwrap_or(0)
}

/// The median; not a number if there are no figures.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The minimum; infinite if there are no figures.
pub(crate) fn least(figures: impl IntoIterator<Item = f64>) -> f64 {
    figures.into_iter().fold(f64::INFINITY, f64::min)
}

fn nanos(time: Timespec) -> u64 {
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    unsigned(time.tv_sec) * 1_000_000_000 + unsigned(time.tv_nsec)
}
