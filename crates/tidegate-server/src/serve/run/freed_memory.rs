//! Gives memory back to the system after a flood of connections or waiting requests.
//!
//! glibc keeps freed memory for the process, because some small allocation is still alive in nearly every part of its heaps:
//! 256 MiB of 256 after 99,000 waiting requests. `malloc_trim` gives back the free pages in between and leaves 11 MiB.
//! Another allocator would do so on its own, but jemalloc takes a fifth of the time of a cold build, and mimalloc keeps the
//! memory too.
//!
//! A flood may come and go between two looks. So the server does not look for the flood but for what it leaves behind: more
//! resident memory than counters, connections and waiting requests explain, compared with the start of the server.
//!
//! Such an excess may also be in use: by rules that were reloaded, or by a flood that holds more than is counted for it.
//! Then a trim has no effect, and the next one waits twice as long, up to [`TRIM_POLLS_MAX`]. When connections have gone
//! since the last trim, the excess may be free now, so the wait is at most [`TRIM_POLLS_MAX_AFTER_FLOOD`]. What the
//! excess was during a flood does not matter afterwards, because it is always compared with the start.
//!
//! The one foreign function is the only `unsafe` item of the workspace.

use std::sync::Arc;
use std::time::Duration;

use crate::serve::App;
use crate::serve::connections_memory::WAITER_BYTES;
use crate::serve::metrics::resident_bytes;

/// How often resident memory is compared with what explains it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Less unexplained memory is kept, because the next requests need it again.
const FREED_BYTES_MIN: u64 = 16 << 20;
/// Connections have gone if they and waiting requests hold less than half of what they held since the last trim, and at
/// least this much less.
const GONE_BYTES_MIN: u64 = 1 << 20;
/// The most polls from a trim without effect to the next one: an hour.
const TRIM_POLLS_MAX: u32 = 3_600;
/// The same if connections have gone since.
const TRIM_POLLS_MAX_AFTER_FLOOD: u32 = 16;

/// Gives memory back until the server drains.
pub async fn watch(app: Arc<App>) {
    let mut schedule = TrimSchedule::new(MemoryUse::now(&app));
    let mut interval = tokio::time::interval(POLL_INTERVAL);
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            _ = interval.tick() => {}
        }
        if schedule.poll(MemoryUse::now(&app)) == Step::Trim {
            // Walks the whole heap, so not on a thread that serves connections. It fails only if the task panicked.
            let _ = tokio::task::spawn_blocking(trim).await;
            schedule.trimmed(MemoryUse::now(&app));
        }
    }
}

/// The memory of the process.
#[derive(Clone, Copy, Debug)]
struct MemoryUse {
    /// Counted for connections and waiting requests.
    held_bytes: u64,
    /// Resident memory that is not in use by counters, connections or waiting requests: the program itself, its rules, and
    /// what the C library keeps. 0 if the system does not tell.
    unexplained_bytes: u64,
}

impl MemoryUse {
    fn now(app: &App) -> Self {
        let waiting = app.engine.waiting_requests().saturating_mul(WAITER_BYTES);
        let held_bytes = app.connections_memory.used().saturating_add(waiting);
        let counters = app.engine.store().memory().stats().bytes_used;
        let explained = held_bytes.saturating_add(counters);
        Self { held_bytes, unexplained_bytes: resident_bytes().unwrap_or(0).saturating_sub(explained) }
    }
}

/// When memory is given back.
struct TrimSchedule {
    /// Unexplained when the server started.
    expected_bytes: u64,
    /// The most that connections and waiting requests held since the last trim.
    held_bytes_peak: u64,
    polls_since_trim: u32,
    /// Polls from the last trim to the next one. It doubles with each trim that has no effect.
    trim_polls: u32,
}

/// What to do after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Trim,
    Wait,
}

impl TrimSchedule {
    fn new(start: MemoryUse) -> Self {
        Self {
            expected_bytes: start.unexplained_bytes,
            held_bytes_peak: start.held_bytes,
            polls_since_trim: 0,
            trim_polls: 1,
        }
    }

    fn poll(&mut self, now: MemoryUse) -> Step {
        self.polls_since_trim = self.polls_since_trim.saturating_add(1);
        self.held_bytes_peak = self.held_bytes_peak.max(now.held_bytes);
        let gone_bytes = self.held_bytes_peak - now.held_bytes;
        let have_gone = gone_bytes >= GONE_BYTES_MIN && gone_bytes > self.held_bytes_peak / 2;
        let polls_max = if have_gone { TRIM_POLLS_MAX_AFTER_FLOOD } else { TRIM_POLLS_MAX };
        let is_due = self.polls_since_trim >= self.trim_polls.min(polls_max);
        if is_due && self.has_excess(now) { Step::Trim } else { Step::Wait }
    }

    fn trimmed(&mut self, now: MemoryUse) {
        self.trim_polls = if self.has_excess(now) { (2 * self.trim_polls).min(TRIM_POLLS_MAX) } else { 1 };
        self.held_bytes_peak = now.held_bytes;
        self.polls_since_trim = 0;
    }

    fn has_excess(&self, now: MemoryUse) -> bool {
        now.unexplained_bytes >= self.expected_bytes.saturating_add(FREED_BYTES_MIN)
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "glibc offers it only as a C function")]
fn trim() {
    // SAFETY: the declaration is that of glibc's malloc.h. Any thread may call the function at any time, with any padding.
    unsafe extern "C" {
        safe fn malloc_trim(padding_bytes: usize) -> std::ffi::c_int;
    }
    // Whether anything was given back does not matter.
    malloc_trim(0);
}

/// Other C libraries give memory back by themselves, or have no such function.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory(held_mib: u64, unexplained_mib: u64) -> MemoryUse {
        MemoryUse { held_bytes: held_mib * MIB, unexplained_bytes: unexplained_mib * MIB }
    }

    /// Trims in this many polls, none of which has an effect.
    fn trims_without_effect(schedule: &mut TrimSchedule, polls: u32, now: MemoryUse) -> u32 {
        let mut trims = 0;
        for _ in 0..polls {
            if schedule.poll(now) == Step::Trim {
                schedule.trimmed(now);
                trims += 1;
            }
        }
        trims
    }

    #[test]
    fn an_excess_is_given_back_at_once() {
        let mut schedule = TrimSchedule::new(memory(0, 10));
        assert_eq!(schedule.poll(memory(0, 25)), Step::Wait);
        assert_eq!(schedule.poll(memory(0, 26)), Step::Trim);
        schedule.trimmed(memory(0, 11));
        assert_eq!(schedule.poll(memory(0, 40)), Step::Trim);
    }

    /// Trims while the flood lasts must not make its memory the expected one.
    #[test]
    fn a_flood_that_held_uncounted_memory_is_given_back() {
        for flood_polls in [1, 5, 60, 10_000] {
            let mut schedule = TrimSchedule::new(memory(0, 10));
            trims_without_effect(&mut schedule, flood_polls, memory(2, 110));
            let waited = (1..).find(|_| schedule.poll(memory(0, 110)) == Step::Trim);
            assert!(waited <= Some(TRIM_POLLS_MAX_AFTER_FLOOD), "{flood_polls}: {waited:?}");
            schedule.trimmed(memory(0, 11));
            assert_eq!(schedule.trim_polls, 1);
        }
    }

    #[test]
    fn trims_without_effect_become_rare() {
        let mut schedule = TrimSchedule::new(memory(0, 10));
        let steady = trims_without_effect(&mut schedule, 24 * 3_600, memory(50, 110));
        assert!((24..=40).contains(&steady), "{steady} a day");
        let coming_and_going: u32 = (0..3_600)
            .map(|second| trims_without_effect(&mut schedule, 1, memory(50 * (second % 2), 110)))
            .sum();
        assert!(coming_and_going <= 3_600 / TRIM_POLLS_MAX_AFTER_FLOOD, "{coming_and_going} an hour");
    }
}
