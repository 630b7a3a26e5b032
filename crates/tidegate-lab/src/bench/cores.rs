//! Whether two threads really run at the same time. Left alone, a scheduler may keep both on one core for
//! longer than a turn takes, and a busy machine gives them half of each: then they take turns, see nothing of
//! each other and look better than they are.

/// Puts this thread on a core of its own, the `nth` that this process may use; does nothing where that cannot be
/// done.
#[cfg(target_os = "linux")]
pub(super) fn pin_to(nth: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let Ok(allowed) = sched_getaffinity(None) else { return };
    if let Some(core) = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).nth(nth) {
        let mut alone = CpuSet::new();
        alone.set(core);
        // A failure shows in the time that was waited.
        let _ = sched_setaffinity(None, &alone);
    }
}

/// Puts this thread on a core of its own; not here.
#[cfg(not(target_os = "linux"))]
pub(super) fn pin_to(_nth: usize) {}

/// For how long this thread, though it had work to do, has waited for a core in all its life; zero where that
/// cannot be told.
pub(crate) fn waited_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    // Time on a core, time waiting for one, number of slices.
    stat.split_whitespace().nth(1).and_then(|waited| waited.parse().ok()).unwrap_or(0)
}
