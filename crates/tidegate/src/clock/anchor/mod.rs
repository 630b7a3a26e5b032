//! Wall time from a counter: how [`SystemClock`](super::SystemClock) follows the machine's wall clock.
//!
//! A reading is the sum of two terms:
//!
//! ```text
//! now = count * pace + offset
//! ```
//!
//! The count is the processor's counter. The pace is constant for the life of the process: the nanoseconds of one count
//! as measured at the start, less [`SLEW_PPM`]. The clock is slow on purpose, so that a correction always goes forward.
//! After [`ANCHOR_EVERY_NS`] the next reader adds an anchor: it reads the wall clock and adds to the offset what the
//! clock has lost, which is 1 us if nothing else happened. There is no background thread.
//!
//! | at an anchor, the wall clock is | the clock |
//! |---|---|
//! | ahead, by no more than the clock may gain | shows wall time |
//! | further ahead, by at most [`STEP_NS`] | runs [`SLEW_PPM`] fast until it has caught up |
//! | still further ahead: it was set, or the machine slept | follows at once, and counts a step |
//! | behind | gets no correction: it runs [`SLEW_PPM`] slow until the wall clock has caught up |
//!
//! # Why time never goes back
//!
//! Each term only grows, so their sum only grows, however threads interleave:
//!
//! - Cores share one count, or have synchronised ones (`quanta` uses no others), and the pace is constant.
//! - The offset is one atomic word, so it cannot be torn. It is written under a lock, and what is added is never
//!   negative. A thread that has read a value, or has synchronised with a thread that has, reads no older one.
//!
//! No two words have to belong together, so a reader needs neither a lock nor a second attempt: a count from before an
//! anchor is right with the offset from after it, and the other way round.
//!
//! The alternative, a line with a rate of its own from each anchor to the next, would be continuous. But a reader that is
//! held up while it goes by an old line can be ahead of one that goes by a new, slower line. The price of the sum is that
//! the clock jumps forward by 1 us every 2 ms.
//!
//! A reader that finds the lock taken goes on with the offset as it is, and is 65 us slow at most. Only if the anchor is
//! [`OVERDUE_ANCHORS`] intervals old, as after an idle time, does it wait for the thread that has the lock.
//!
//! # What else may happen
//!
//! - A thread is held up between its readings of the two clocks. It notices, and reads them again. Should that fail too:
//!   wall time is read first, so the clock seems to be ahead of it, and nothing is corrected. In the other order the delay
//!   would look like a step, and be followed.
//! - The machine sleeps. If the counter sleeps too, the next anchor finds a step.
//! - The counter is started again, as some are by hibernation. Its count is then far behind the last anchor, so every
//!   reader asks for an anchor and waits for it. Time goes on from wall time, or from where the clock was if that is later.
//!   Only a thread that was stopped between the two loads of one reading shows a wrong time, once.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::TryLockError;
use std::time::Duration;

use super::ClockStats;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// How much faster or slower than the counter the clock may run, in parts per million. That is how fast Linux slews its
/// wall clock for NTP at most, and more than the error of the measured pace, which is tens.
pub(super) const SLEW_PPM: u64 = 500;
/// The time between anchors. With [`SLEW_PPM`] it makes the jump at an anchor, 1 us. An anchor costs tens of nanoseconds.
pub(super) const ANCHOR_EVERY_NS: u64 = 2_000_000;
/// A larger difference is not slewed: that would take more than 1,000 s. NTP daemons slew what is less (128 ms for ntpd,
/// 400 ms for timesyncd), so a larger difference means that the clock was set, or that the machine slept.
pub(super) const STEP_NS: u64 = 500_000_000;
/// When the last anchor is this many intervals old, a reader waits for the thread that adds the next one.
const OVERDUE_ANCHORS: u64 = 64;
/// How often the wall clock is read for one anchor at most.
const READINGS_MAX: u32 = 3;
/// Later wall times, from the year 2262 on, are taken for this one, so that no sum overflows.
const WALL_NS_MAX: u64 = u64::MAX / 2;

const PPM: u64 = 1_000_000;

/// The counter and the wall clock of a machine.
pub(super) trait ClockSource {
    /// The counter now.
    fn count(&self) -> u64;

    /// Wall time now, in nanoseconds since the Unix epoch.
    fn wall_ns(&self) -> u64;
}

/// How counts become nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterRate {
    /// The nanoseconds of 2^32 counts, less [`SLEW_PPM`].
    slow_ns_per_2_32: u64,
    /// [`ANCHOR_EVERY_NS`] in counts.
    anchor_every_counts: u64,
}

/// The offset, and the count at which it was last corrected. Shared by all readers.
// On cache lines of its own: every decision reads it, and what lies beside it may be written often.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Anchor {
    /// Wraps around if the counter stands for more nanoseconds than wall time.
    offset_ns: AtomicU64,
    count: AtomicU64,
    state: Mutex<AnchorState>,
}

/// What readers do not need.
#[derive(Debug)]
struct AnchorState {
    is_started: bool,
    steps: u64,
    stepped_ns: u64,
    ahead_ns: u64,
}

/// Wall time, and the count just after it.
#[derive(Clone, Copy)]
struct ClockReading {
    wall_ns: u64,
    count: u64,
}

/// How a count stands to the last anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnchorAge {
    /// No other anchor is due. The count may be from just before the last one.
    Current,
    Due,
    Overdue,
    /// The counter was started again.
    Restarted,
}

impl Anchor {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self { offset_ns: AtomicU64::new(0), count: AtomicU64::new(0), state: Mutex::new(AnchorState::NEW) }
    }

    /// The model checker's atomics cannot be made in a constant.
    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self { offset_ns: AtomicU64::new(0), count: AtomicU64::new(0), state: Mutex::new(AnchorState::NEW) }
    }

    /// Sets the clock to wall time, unless it was started before.
    pub(super) fn start(&self, source: &impl ClockSource, pace: CounterRate) {
        let mut state = lock(&self.state);
        if !state.is_started {
            state.is_started = true;
            let look = ClockReading::take(source, pace);
            self.advance(look.wall_ns.wrapping_sub(self.shown_ns(pace, look.count)), look);
        }
    }

    /// The time now, in nanoseconds since the Unix epoch, by a clock that was started.
    #[inline]
    pub(super) fn now(&self, source: &impl ClockSource, pace: CounterRate) -> u64 {
        let count = source.count();
        // A reader that sees the count of an anchor sees its offset too.
        let since = count.wrapping_sub(self.count.load(Ordering::Acquire));
        if since >= pace.anchor_every_counts {
            return self.now_with_anchor(source, pace, count);
        }
        self.shown_ns(pace, count)
    }

    /// What was done up to now to follow wall time.
    pub(super) fn stats(&self, source: &impl ClockSource, pace: CounterRate) -> ClockStats {
        self.now(source, pace);
        let state = lock(&self.state);
        ClockStats {
            steps: state.steps,
            stepped: Duration::from_nanos(state.stepped_ns),
            ahead: Duration::from_nanos(state.ahead_ns),
        }
    }

    #[inline]
    fn shown_ns(&self, pace: CounterRate, count: u64) -> u64 {
        pace.ns(count).wrapping_add(self.offset_ns.load(Ordering::Relaxed))
    }

    /// The time now, after an anchor if one is due.
    #[cold]
    #[inline(never)]
    fn now_with_anchor(&self, source: &impl ClockSource, pace: CounterRate, count: u64) -> u64 {
        let age = |count: u64| pace.age(count.wrapping_sub(self.count.load(Ordering::Acquire)));
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) if matches!(age(count), AnchorAge::Current | AnchorAge::Due) => {
                return self.shown_ns(pace, count);
            }
            Err(_) => lock(&self.state),
        };
        let look = ClockReading::take(source, pace);
        match age(look.count) {
            AnchorAge::Current => {}
            AnchorAge::Due | AnchorAge::Overdue => self.slew_or_step(&mut state, pace, look),
            AnchorAge::Restarted => self.resume_after_restart(&mut state, pace, look),
        }
        self.shown_ns(pace, look.count)
    }

    fn slew_or_step(&self, state: &mut AnchorState, pace: CounterRate, look: ClockReading) {
        let shown_ns = self.shown_ns(pace, look.count);
        let since_ns = pace.ns(look.count.wrapping_sub(self.count.load(Ordering::Relaxed)));
        // Half of it makes up for the slow pace, the other half is the slew.
        let gain_ns_max = since_ns / (PPM / (2 * SLEW_PPM));
        let behind_ns = look.wall_ns.saturating_sub(shown_ns);
        let rest_ns = behind_ns.saturating_sub(gain_ns_max);
        state.ahead_ns = shown_ns.saturating_sub(look.wall_ns);
        if rest_ns > STEP_NS {
            state.add_step(behind_ns - gain_ns_max / 2);
            self.advance(behind_ns, look);
        } else {
            self.advance(behind_ns - rest_ns, look);
        }
    }

    /// Goes on with a counter that was started again.
    fn resume_after_restart(&self, state: &mut AnchorState, pace: CounterRate, look: ClockReading) {
        // No reader goes by an anchor for longer than that.
        let last_count = self.count.load(Ordering::Relaxed).saturating_add(pace.overdue_counts());
        let last_ns = self.shown_ns(pace, last_count);
        let next_ns = look.wall_ns.max(last_ns);
        state.ahead_ns = next_ns - look.wall_ns;
        state.add_step(next_ns - last_ns);
        self.advance(next_ns.wrapping_sub(self.shown_ns(pace, look.count)), look);
    }

    /// Corrects the offset. Only a thread that has the lock may do so.
    fn advance(&self, by_ns: u64, look: ClockReading) {
        let offset_ns = self.offset_ns.load(Ordering::Relaxed).wrapping_add(by_ns);
        self.offset_ns.store(offset_ns, Ordering::Relaxed);
        self.count.store(look.count, Ordering::Release);
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
    /// Looks again if the thread was held up in between, but not for ever: some machines are slow.
    fn take(source: &impl ClockSource, pace: CounterRate) -> Self {
        let mut looks = 1;
        let mut before = source.count();
        loop {
            let wall_ns = source.wall_ns().min(WALL_NS_MAX);
            let count = source.count();
            if count.wrapping_sub(before) < pace.anchor_every_counts || looks == READINGS_MAX {
                return Self { wall_ns, count };
            }
            before = count;
            looks += 1;
        }
    }
}

impl CounterRate {
    /// The pace of a counter whose 2^32 counts take this long.
    pub(super) fn new(ns_per_2_32: u64) -> Self {
        let ns_per_2_32 = u128::from(ns_per_2_32.max(1));
        let slow = ns_per_2_32 * u128::from(PPM - SLEW_PPM) / u128::from(PPM);
        let anchor_every = (u128::from(ANCHOR_EVERY_NS) << 32) / ns_per_2_32;
        Self {
            slow_ns_per_2_32: u64::try_from(slow).unwrap_or(u64::MAX),
            anchor_every_counts: u64::try_from(anchor_every).unwrap_or(u64::MAX).max(1),
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
    fn ns(self, counts: u64) -> u64 {
        ((u128::from(counts) * u128::from(self.slow_ns_per_2_32)) >> 32) as u64
    }

    fn overdue_counts(self) -> u64 {
        self.anchor_every_counts.saturating_mul(OVERDUE_ANCHORS)
    }

    /// What it means that the counter has moved by this much since the last anchor, modulo 2^64.
    fn age(self, since: u64) -> AnchorAge {
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
