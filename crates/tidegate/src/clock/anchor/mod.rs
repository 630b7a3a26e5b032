//! Wall time from a counter: how [`SystemClock`](super::SystemClock) follows the machine's wall clock.
//!
//! A reading is the sum of two terms:
//!
//! ```text
//! now = count * rate + offset
//! ```
//!
//! The count is the processor's counter. The rate is constant for the life of the process: the nanoseconds per count as
//! measured at the start, minus [`SLEW_PPM`]. The clock is slow on purpose, so that a correction always goes forward.
//! After [`ANCHOR_EVERY_NS`] the next reader adds an anchor: it reads the wall clock and adds what the clock has lost
//! to the offset, which is 1 us if nothing else happened. All clocks of a process share one offset. There is no
//! background thread.
//!
//! | at an anchor, the wall clock is | the clock |
//! |---|---|
//! | ahead, by no more than the clock may gain | shows wall time |
//! | further ahead, by at most [`STEP_NS`] | runs [`SLEW_PPM`] fast until it has caught up |
//! | still further ahead: it was set, or the machine was suspended | follows immediately, and counts a step |
//! | behind | gets no correction: it runs [`SLEW_PPM`] slow until the wall clock has caught up |
//!
//! # Why time never goes back
//!
//! Both terms only grow, so their sum only grows, however threads interleave:
//!
//! - Cores share one counter or have synchronised ones (`quanta` uses no others), and the rate is constant.
//! - The offset is one atomic word, so it cannot be torn. It is written under a lock, and what is added is never
//!   negative. A thread that has read a value, or has synchronised with a thread that has, cannot read an older one.
//!
//! No two words have to be consistent, so a reader needs neither a lock nor a retry: a count from before an anchor is
//! valid with the offset from after it, and the reverse.
//!
//! The alternative, a separate rate from each anchor to the next, would be continuous. But a delayed reader that uses
//! an old rate could be ahead of a reader that uses a new, slower one. The price of the sum is that the clock jumps
//! forward by 1 us every 2 ms.
//!
//! A reader that finds the lock taken continues with the current offset, and is at most 65 us slow. Only if the anchor
//! is [`OVERDUE_ANCHORS`] intervals old, as after an idle time, does it wait for the thread that has the lock.
//!
//! # What else may happen
//!
//! - A thread is delayed between its readings of the two clocks. It notices, and reads them again. If that fails too,
//!   nothing is corrected: wall time is read first, so the clock seems to be ahead of it. In the other order the delay
//!   would look like a step, and would be followed.
//! - The machine is suspended. If the counter stops too, the next anchor finds a step.
//! - The counter restarts, as some do in hibernation. Its count is then far behind the last anchor, so every reader
//!   asks for an anchor and waits for it. Time continues from wall time, or from where the clock was if that is later.
//!   Only a thread that was stopped between the two loads of one reading shows a wrong time, once.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::TryLockError;
use std::time::Duration;

use super::ClockStats;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// How much faster or slower than the counter the clock may run, in parts per million. Linux slews its wall clock for
/// NTP at most this fast, and it is more than the error of the measured rate, which is tens.
pub(super) const SLEW_PPM: u64 = 500;
/// The time between anchors. Together with [`SLEW_PPM`] it gives the jump at an anchor, 1 us. An anchor costs tens of
/// nanoseconds.
pub(super) const ANCHOR_EVERY_NS: u64 = 2_000_000;
/// A larger difference is not slewed: that would take more than 1,000 s. NTP daemons slew smaller differences (128 ms
/// for ntpd, 400 ms for timesyncd), so a larger one means that the clock was set or the machine was suspended.
pub(super) const STEP_NS: u64 = 500_000_000;
/// If the last anchor is this many intervals old, a reader waits for the thread that adds the next one.
const OVERDUE_ANCHORS: u64 = 64;
/// How often the wall clock is read for one anchor at most.
const READINGS_MAX: u32 = 3;
/// Later wall times, from the year 2262 on, count as this one, so that no sum overflows.
const WALL_NS_MAX: u64 = u64::MAX / 2;

const PPM: u64 = 1_000_000;

/// The counter and the wall clock of a machine.
pub(super) trait ClockSource {
    /// The current count.
    fn count(&self) -> u64;

    /// Wall time, in nanoseconds since the Unix epoch.
    fn wall_ns(&self) -> u64;
}

/// Converts counts to nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct CounterRate {
    /// The nanoseconds of 2^32 counts, minus [`SLEW_PPM`].
    slow_ns_per_2_32: u64,
    /// The same for 2^64 counts. Zero if that does not fit: the counter runs at less than 1 GHz.
    slow_ns_per_2_64: u64,
    /// [`ANCHOR_EVERY_NS`] in counts.
    anchor_every_counts: u64,
}

/// The offset, and the count at which it was last corrected. Shared by all readers.
// On its own cache lines: every decision reads it, and its neighbours may be written often.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Anchor {
    /// Wraps around if the counter represents more nanoseconds than wall time.
    offset_ns: AtomicU64,
    count: AtomicU64,
    state: Mutex<AnchorState>,
}

/// The part that readers do not need.
#[derive(Debug)]
struct AnchorState {
    is_started: bool,
    steps: u64,
    stepped_ns: u64,
    ahead_ns: u64,
}

/// Wall time, and the count right after it.
#[derive(Clone, Copy)]
struct ClockReading {
    wall_ns: u64,
    count: u64,
}

/// How old the last anchor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnchorAge {
    /// No anchor is due. The count may be from just before the last one.
    Current,
    Due,
    Overdue,
    /// The counter was restarted.
    Restarted,
}

impl Anchor {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self { offset_ns: AtomicU64::new(0), count: AtomicU64::new(0), state: Mutex::new(AnchorState::NEW) }
    }

    /// Loom's atomics cannot be created in a constant.
    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self { offset_ns: AtomicU64::new(0), count: AtomicU64::new(0), state: Mutex::new(AnchorState::NEW) }
    }

    /// Sets the clock to wall time, unless it was already started.
    pub(super) fn start(&self, source: &impl ClockSource, rate: &CounterRate) {
        let mut state = lock(&self.state);
        if !state.is_started {
            state.is_started = true;
            let reading = ClockReading::take(source, rate);
            self.advance(reading.wall_ns.wrapping_sub(self.shown_ns(rate, reading.count)), reading);
        }
    }

    /// The current time in nanoseconds since the Unix epoch. The clock must be started.
    #[inline(always)]
    pub(super) fn now(&self, source: &impl ClockSource, rate: &CounterRate) -> u64 {
        let count = source.count();
        // A reader that sees the count of an anchor also sees its offset.
        let since = count.wrapping_sub(self.count.load(Ordering::Acquire));
        if since >= rate.anchor_every_counts {
            return self.now_with_anchor(source, rate, count);
        }
        self.shown_ns(rate, count)
    }

    /// How the clock has followed wall time up to now.
    pub(super) fn stats(&self, source: &impl ClockSource, rate: &CounterRate) -> ClockStats {
        self.now(source, rate);
        let state = lock(&self.state);
        ClockStats {
            steps: state.steps,
            stepped: Duration::from_nanos(state.stepped_ns),
            ahead: Duration::from_nanos(state.ahead_ns),
        }
    }

    #[inline(always)]
    fn shown_ns(&self, rate: &CounterRate, count: u64) -> u64 {
        rate.ns(count).wrapping_add(self.offset_ns.load(Ordering::Relaxed))
    }

    /// The current time, after adding an anchor if one is due.
    #[cold]
    #[inline(never)]
    fn now_with_anchor(&self, source: &impl ClockSource, rate: &CounterRate, count: u64) -> u64 {
        let age = |count: u64| rate.age(count.wrapping_sub(self.count.load(Ordering::Acquire)));
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) if matches!(age(count), AnchorAge::Current | AnchorAge::Due) => {
                return self.shown_ns(rate, count);
            }
            Err(_) => lock(&self.state),
        };
        let reading = ClockReading::take(source, rate);
        match age(reading.count) {
            AnchorAge::Current => {}
            AnchorAge::Due | AnchorAge::Overdue => self.slew_or_step(&mut state, rate, reading),
            AnchorAge::Restarted => self.resume_after_restart(&mut state, rate, reading),
        }
        self.shown_ns(rate, reading.count)
    }

    fn slew_or_step(&self, state: &mut AnchorState, rate: &CounterRate, reading: ClockReading) {
        let shown_ns = self.shown_ns(rate, reading.count);
        let since_ns = rate.ns(reading.count.wrapping_sub(self.count.load(Ordering::Relaxed)));
        // One half compensates the slow rate, the other half is the slew.
        let gain_ns_max = since_ns / (PPM / (2 * SLEW_PPM));
        let behind_ns = reading.wall_ns.saturating_sub(shown_ns);
        let rest_ns = behind_ns.saturating_sub(gain_ns_max);
        state.ahead_ns = shown_ns.saturating_sub(reading.wall_ns);
        if rest_ns > STEP_NS {
            state.add_step(behind_ns - gain_ns_max / 2);
            self.advance(behind_ns, reading);
        } else {
            self.advance(behind_ns - rest_ns, reading);
        }
    }

    /// Continues after the counter was restarted.
    fn resume_after_restart(&self, state: &mut AnchorState, rate: &CounterRate, reading: ClockReading) {
        // No reader uses an anchor for longer than this.
        let last_count = self.count.load(Ordering::Relaxed).saturating_add(rate.overdue_counts());
        let last_ns = self.shown_ns(rate, last_count);
        let next_ns = reading.wall_ns.max(last_ns);
        state.ahead_ns = next_ns - reading.wall_ns;
        state.add_step(next_ns - last_ns);
        self.advance(next_ns.wrapping_sub(self.shown_ns(rate, reading.count)), reading);
    }

    /// Corrects the offset. The caller must hold the lock.
    fn advance(&self, by_ns: u64, reading: ClockReading) {
        let offset_ns = self.offset_ns.load(Ordering::Relaxed).wrapping_add(by_ns);
        self.offset_ns.store(offset_ns, Ordering::Relaxed);
        self.count.store(reading.count, Ordering::Release);
    }
}

impl AnchorState {
    const NEW: Self = Self { is_started: false, steps: 0, stepped_ns: 0, ahead_ns: 0 };

    fn add_step(&mut self, by_ns: u64) {
        self.steps += 1;
        self.stepped_ns = self.stepped_ns.saturating_add(by_ns);
    }
}

impl ClockReading {
    /// Reads again if the thread was delayed in between, but only a few times: some machines are slow.
    fn take(source: &impl ClockSource, rate: &CounterRate) -> Self {
        let mut readings = 1;
        let mut before = source.count();
        loop {
            let wall_ns = source.wall_ns().min(WALL_NS_MAX);
            let count = source.count();
            if count.wrapping_sub(before) < rate.anchor_every_counts || readings == READINGS_MAX {
                return Self { wall_ns, count };
            }
            before = count;
            readings += 1;
        }
    }
}

impl CounterRate {
    /// The rate of a counter whose 2^32 counts take this long.
    pub(super) fn new(ns_per_2_32: u64) -> Self {
        let ns_per_2_32 = u128::from(ns_per_2_32.max(1));
        let slow = |ns: u128| ns * u128::from(PPM - SLEW_PPM) / u128::from(PPM);
        let anchor_every = (u128::from(ANCHOR_EVERY_NS) << 32) / ns_per_2_32;
        Self {
            slow_ns_per_2_32: u64::try_from(slow(ns_per_2_32)).unwrap_or(u64::MAX),
            slow_ns_per_2_64: u64::try_from(slow(ns_per_2_32 << 32)).unwrap_or(0),
            anchor_every_counts: u64::try_from(anchor_every).unwrap_or(u64::MAX).max(1),
        }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
    fn ns(&self, counts: u64) -> u64 {
        if self.slow_ns_per_2_64 == 0 {
            return self.ns_of_slow_counter(counts);
        }
        // Only the upper half of the product is needed, so nothing is shifted.
        ((u128::from(counts) * u128::from(self.slow_ns_per_2_64)) >> 64) as u64
    }

    #[cold]
    #[inline(never)]
    #[allow(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
    fn ns_of_slow_counter(&self, counts: u64) -> u64 {
        ((u128::from(counts) * u128::from(self.slow_ns_per_2_32)) >> 32) as u64
    }

    fn overdue_counts(&self) -> u64 {
        self.anchor_every_counts.saturating_mul(OVERDUE_ANCHORS)
    }

    /// The age of the last anchor, if the counter has moved by `since` (modulo 2^64) since then.
    fn age(&self, since: u64) -> AnchorAge {
        if since < self.anchor_every_counts || since.wrapping_neg() <= self.anchor_every_counts {
            AnchorAge::Current
        } else if since < self.overdue_counts() {
            AnchorAge::Due
        } else if since < 1 << 63 {
            AnchorAge::Overdue
        } else {
            AnchorAge::Restarted
        }
    }
}
