//! Limits the lines of a log that clients can cause.
//!
//! The first events of every window get a line. The next line after that says how many had none,
//! or [`LineLimiter::take_suppressed`] does. An event without a
//! line costs one addition.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::Timestamp;

/// The low bits count events within a window. The high bits are the number of the window.
const COUNT_BITS: u32 = 26;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// A maximum of lines in each window of time.
#[derive(Debug)]
pub struct LineLimiter {
    lines_max: u64,
    window_ns: u64,
    /// The current window and its number of events.
    window_and_count: AtomicU64,
}

/// Whether an event gets a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineBudget {
    /// It does. `suppressed` events before it did not.
    Write {
        /// The number of events without a line.
        suppressed: u64,
    },
    /// The maximum of this window is reached.
    Suppress,
}

impl LineLimiter {
    /// At most this many lines in a window of this length.
    pub fn new(lines_max: u32, window_ns: u64) -> Self {
        Self {
            lines_max: u64::from(lines_max).min(COUNT_MAX),
            window_ns,
            window_and_count: AtomicU64::new(0),
        }
    }

    /// Whether there are never any lines.
    pub fn is_off(&self) -> bool {
        self.lines_max == 0
    }

    /// Counts an event.
    pub fn take_line(&self, now: Timestamp) -> LineBudget {
        let window = now.as_nanos() / self.window_ns;
        loop {
            let state = self.window_and_count.load(Ordering::Relaxed);
            let count = state & COUNT_MAX;
            // A thread whose clock reading is a little older counts in the newer window.
            if state >> COUNT_BITS >= window {
                if count >= self.lines_max {
                    if count < COUNT_MAX {
                        self.window_and_count.fetch_add(1, Ordering::Relaxed);
                    }
                    return LineBudget::Suppress;
                }
                if self.swap(state, state + 1) {
                    return LineBudget::Write { suppressed: 0 };
                }
            } else if self.swap(state, (window << COUNT_BITS) | 1) {
                return LineBudget::Write { suppressed: count.saturating_sub(self.lines_max) };
            }
        }
    }

    /// The number of events without a line in an earlier window. They are not reported again.
    pub fn take_suppressed(&self, now: Timestamp) -> u64 {
        let window = now.as_nanos() / self.window_ns;
        loop {
            let state = self.window_and_count.load(Ordering::Relaxed);
            let suppressed = (state & COUNT_MAX).saturating_sub(self.lines_max);
            if state >> COUNT_BITS >= window || suppressed == 0 {
                return 0;
            }
            if self.swap(state, window << COUNT_BITS) {
                return suppressed;
            }
        }
    }

    fn swap(&self, old: u64, new: u64) -> bool {
        self.window_and_count.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::rounding::SECOND_NS;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(1_700_000_000 * SECOND_NS + seconds * SECOND_NS)
    }

    #[test]
    fn lines_are_limited_per_window_and_report_the_suppressed() {
        let limiter = LineLimiter::new(2, SECOND_NS);
        let budget = |seconds| limiter.take_line(at(seconds));
        let line = |suppressed| LineBudget::Write { suppressed };
        assert_eq!(
            [budget(0), budget(0), budget(0), budget(0)],
            [line(0), line(0), LineBudget::Suppress, LineBudget::Suppress]
        );
        assert_eq!([budget(5), budget(5), budget(5)], [line(2), line(0), LineBudget::Suppress]);
        assert_eq!(budget(4), LineBudget::Suppress, "an older clock reading gets no extra lines");
        assert_eq!(budget(6), line(2));
    }

    #[test]
    fn suppressed_events_can_be_reported_without_another_event() {
        let limiter = LineLimiter::new(1, SECOND_NS);
        (0..5).for_each(|_| _ = limiter.take_line(at(0)));
        assert_eq!(limiter.take_suppressed(at(0)), 0, "the window is not over");
        assert_eq!([limiter.take_suppressed(at(1)), limiter.take_suppressed(at(2))], [4, 0]);
        assert_eq!(limiter.take_line(at(3)), LineBudget::Write { suppressed: 0 });
        assert_eq!(limiter.take_suppressed(at(9)), 0, "all of them had a line");
    }

    #[test]
    fn threads_share_the_line_limit_and_lose_no_count() {
        let limiter = LineLimiter::new(10, SECOND_NS);
        let lines = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if limiter.take_line(at(0)) != LineBudget::Suppress {
                            lines.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(lines.into_inner(), 10);
        assert_eq!(limiter.take_line(at(1)), LineBudget::Write { suppressed: 4 * 10_000 - 10 });
    }
}
