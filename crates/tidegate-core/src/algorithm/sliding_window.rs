//! Sliding window counter: two fixed windows, of which the older one fades out.
//!
//! Made popular by Cloudflare (2017). With e the time since the current window began, the previous window counts with a
//! weight of (W - e)/W. A request fits if and only if
//!
//! ```text
//! prev*(W - e) + (cur + c)*W <= L*W
//! ```
//!
//! in integers, so nothing is rounded.
//!
//! *Worst case:* just under 2L in W (a burst at the end of one window, then a steady trickle); L per W in the long run.
//! *State:* 16 bytes: the window and two 40-bit counts, which leaves 45 bits for time. That is enough. The last instant
//! that matters is the end of a window. Windows are at least a millisecond long, so the upper bits of that instant
//! identify the window even without the low 19 bits.

use super::fast_path::SlidingWindowPath;
use super::{LimitAlgorithm, WorstCase, WorstCaseDetail};
use crate::divisor::Divisor;
use crate::packed_state::{PackedView, SPARE_INSTANT_BITS};
use crate::rate::UNITS_MAX;
use crate::{Nanos, OutcomeKind, PackedState, Rate, TimedCost, Timestamp, Wait};

/// L per W.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    pub(crate) rate: Rate,
    /// L·W, if a decision fits 64 bits. That takes half the work.
    narrow_capacity: Option<u64>,
    window: Divisor,
}

/// A window, and the units used in it and in the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPair {
    /// The number of windows since the epoch before this one.
    pub number: u64,
    /// The units used in the previous window.
    pub prev: u64,
    /// The units used in this window.
    pub cur: u64,
}

/// The start of the current window, and the units used in it and in the one before.
#[derive(Clone, Copy)]
struct WindowCounts {
    start_ns: u64,
    prev: u64,
    cur: u64,
}

/// What is left of L·W, in the width in which it was computed.
enum FreeCapacity {
    Narrow(u64),
    Wide(u128),
}

const COUNT_BITS: u32 = 40;
/// `cur` takes the spare bits of the instant and the bits right after it.
const CUR_BITS_BESIDE_INSTANT: u32 = SPARE_INSTANT_BITS;
const CUR_BITS_BELOW: u32 = COUNT_BITS - CUR_BITS_BESIDE_INSTANT;
/// The spare bits must cover less than the shortest window, so that the instant identifies its window.
const _: () = assert!(1 << SPARE_INSTANT_BITS < crate::rate::WINDOW_NS_MIN);

/// Up to this capacity, 64 bits have room for the weight of two windows of the same size.
const NARROW_MAX: u64 = 1 << 62;

impl SlidingWindow {
    pub(crate) fn new(rate: Rate) -> Self {
        let capacity = rate.limit().checked_mul(rate.window_ns());
        Self {
            rate,
            narrow_capacity: capacity.filter(|capacity| *capacity <= NARROW_MAX),
            window: Divisor::new(rate.window_ns()),
        }
    }

    /// Units per window.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// L in the last nanosecond of a window. Their weight fades by L per W, and the rest of the span is W - 2 ns of the
    /// next window.
    pub fn worst_case(&self) -> WorstCase {
        let (limit, window_ns) = (self.rate.limit(), self.rate.window_ns());
        let faded = u128::from(limit) * u128::from(window_ns - 2) / u128::from(window_ns);
        let units = limit + u64::try_from(faded).unwrap_or(limit);
        WorstCase::in_any_window(window_ns, units).with_detail(WorstCaseDetail::LongRun(limit))
    }

    /// The state of a key with this usage. `None` if no key can have it.
    #[inline]
    pub fn state(&self, WindowPair { number, prev, cur }: WindowPair) -> Option<PackedState> {
        let start_ns = number.checked_mul(self.rate.window_ns())?;
        let is_possible = prev <= UNITS_MAX && cur <= UNITS_MAX;
        is_possible.then(|| match (prev, cur) {
            (0, 0) => PackedState::NEVER_SEEN,
            _ => self.pack(WindowCounts { start_ns, prev, cur }),
        })
    }

    /// The numbers for charges of one unit.
    pub(super) fn fast_path(&self) -> SlidingWindowPath {
        SlidingWindowPath::new(self.rate.limit(), self.window)
    }

    /// The units used in the previous and in the current window, from the words of a state that ends.
    #[inline(always)]
    pub(super) fn unpack_counts([instant, detail]: [u64; 2]) -> (u64, u64) {
        let cur_high = instant & ((1 << CUR_BITS_BESIDE_INSTANT) - 1);
        (detail & UNITS_MAX, cur_high << CUR_BITS_BELOW | detail >> COUNT_BITS)
    }

    /// The words with one unit more in the current window. `None` if that changes more than the second word, or if the
    /// state outlasts representable time.
    #[inline(always)]
    pub(super) fn add_unit([instant, detail]: [u64; 2]) -> Option<PackedState> {
        let new_detail = detail.wrapping_add(1 << COUNT_BITS);
        let is_in_range = (detail | new_detail) >> (COUNT_BITS + CUR_BITS_BELOW) == 0;
        is_in_range.then(|| PackedState::from_words([instant, new_detail]))
    }

    /// The state of a key whose usage matters until `last_ns`.
    #[inline(always)]
    fn pack_counts(last_ns: u64, prev: u64, cur: u64) -> PackedState {
        let instant_high = last_ns >> SPARE_INSTANT_BITS << SPARE_INSTANT_BITS;
        let cur_low = cur & ((1 << CUR_BITS_BELOW) - 1);
        PackedState::until(instant_high | cur >> CUR_BITS_BELOW, cur_low << COUNT_BITS | prev)
    }

    /// The start of the window that contains `now_ns`.
    #[inline(always)]
    fn start_of_now(&self, now_ns: u64) -> u64 {
        let window_ns = self.rate.window_ns();
        let number = if now_ns >> 63 == 0 { self.window.divide(now_ns) } else { now_ns / window_ns };
        number * window_ns
    }

    /// The windows from the view of a request at `now`.
    #[inline(always)]
    fn windows(&self, state: PackedState, now: Timestamp) -> WindowCounts {
        let window_ns = self.rate.window_ns();
        let start_ns = self.start_of_now(now.as_nanos());
        if state == PackedState::NEVER_SEEN {
            return WindowCounts { start_ns, prev: 0, cur: 0 };
        }
        let (instant, detail) = match state.view() {
            PackedView::Until(instant, detail) => (instant, detail),
            PackedView::Outlasting(detail) => {
                return carried_to(start_ns, unpack_late(detail, window_ns), window_ns);
            }
        };
        let instant_high = instant >> SPARE_INSTANT_BITS;
        let (prev, cur) = Self::unpack_counts([instant, detail]);
        // Most states belong to the current window or to the one before. Trying those needs no division.
        let is_last_of =
            |last_ns: Option<u64>| last_ns.is_some_and(|last| last >> SPARE_INSTANT_BITS == instant_high);
        if is_last_of(start_ns.checked_add(2 * window_ns - 1)) {
            WindowCounts { start_ns, prev, cur }
        } else if is_last_of(start_ns.checked_add(window_ns - 1)) {
            WindowCounts { start_ns, prev: cur, cur: 0 }
        } else {
            carried_to(
                start_ns,
                WindowCounts { start_ns: start_of(instant_high, window_ns), prev, cur },
                window_ns,
            )
        }
    }

    #[inline(always)]
    fn pack(&self, WindowCounts { start_ns, prev, cur }: WindowCounts) -> PackedState {
        match u64::try_from(last_instant(start_ns, self.rate.window_ns())) {
            Ok(last_ns) => Self::pack_counts(last_ns, prev, cur),
            Err(_) => pack_late(start_ns / self.rate.window_ns(), prev, cur),
        }
    }

    /// L·W minus the weight of the windows at `now`. `None` if they weigh more.
    #[inline(always)]
    fn free(
        &self,
        WindowCounts { start_ns, prev, cur }: WindowCounts,
        now: Timestamp,
    ) -> Option<FreeCapacity> {
        let (limit, window_ns) = (self.rate.limit(), self.rate.window_ns());
        let left_ns = window_ns - now.as_nanos().saturating_sub(start_ns);
        match self.narrow_capacity {
            Some(capacity) if prev <= limit && cur <= limit => {
                capacity.checked_sub(prev * left_ns + cur * window_ns).map(FreeCapacity::Narrow)
            }
            _ => {
                let weight = u128::from(prev) * u128::from(left_ns) + u128::from(cur) * u128::from(window_ns);
                (u128::from(limit) * u128::from(window_ns)).checked_sub(weight).map(FreeCapacity::Wide)
            }
        }
    }

    /// How long after the start of a window `fading` units of the previous window leave room for `room`.
    #[inline]
    fn fades_after(&self, fading: u64, room: u64) -> u128 {
        let window_ns = self.rate.window_ns();
        match (fading, room.checked_mul(window_ns)) {
            (0, _) => 0,
            (_, Some(weight)) => u128::from(window_ns.saturating_sub(weight / fading)),
            (_, None) => {
                let weight = u128::from(room) * u128::from(window_ns);
                u128::from(window_ns).saturating_sub(weight / u128::from(fading))
            }
        }
    }
}

// Always inlined, so that the calls of one decision decode the windows only once.
impl LimitAlgorithm for SlidingWindow {
    type State = PackedState;

    #[inline(always)]
    fn outcome_kind(&self, state: &PackedState, request: TimedCost) -> OutcomeKind {
        let (cost, window_ns) = (request.cost, self.rate.window_ns());
        OutcomeKind::from_fits(match self.free(self.windows(*state, request.now), request.now) {
            Some(FreeCapacity::Narrow(free)) => cost <= self.rate.limit() && cost * window_ns <= free,
            Some(FreeCapacity::Wide(free)) => u128::from(cost) * u128::from(window_ns) <= free,
            None => false,
        })
    }

    #[inline(always)]
    fn charge(&self, state: &mut PackedState, request: TimedCost) {
        let windows = self.windows(*state, request.now);
        let cur = windows.cur.saturating_add(request.cost).min(UNITS_MAX);
        *state = self.pack(WindowCounts { cur, ..windows });
    }

    fn refund(&self, state: &mut PackedState, request: TimedCost) {
        let WindowCounts { start_ns, prev, cur } = self.windows(*state, request.now);
        let from_prev = request.cost.saturating_sub(cur);
        let windows = WindowCounts {
            start_ns,
            prev: prev.saturating_sub(from_prev),
            cur: cur.saturating_sub(request.cost),
        };
        *state = if windows.prev + windows.cur == 0 { PackedState::NEVER_SEEN } else { self.pack(windows) };
    }

    fn window_began_after(&self, state: &PackedState, instant: Timestamp) -> bool {
        self.windows(*state, instant).start_ns > instant.as_nanos()
    }

    /// Units of the previous window count there.
    fn count_since(&self, state: &mut PackedState, request: TimedCost, from: Timestamp) {
        let windows = self.windows(*state, request.now);
        let add = |units: u64| units.saturating_add(request.cost).min(UNITS_MAX);
        *state = match windows.start_ns.saturating_sub(from.as_nanos()) {
            0 => self.pack(WindowCounts { cur: add(windows.cur), ..windows }),
            ahead_ns if ahead_ns <= self.rate.window_ns() => {
                self.pack(WindowCounts { prev: add(windows.prev), ..windows })
            }
            _ => return,
        };
    }

    #[inline(always)]
    fn remaining(&self, state: &PackedState, now: Timestamp) -> u64 {
        #[allow(clippy::cast_possible_truncation, reason = "at most the limit")]
        match self.free(self.windows(*state, now), now) {
            Some(FreeCapacity::Narrow(free)) => self.window.divide(free),
            Some(FreeCapacity::Wide(free)) => (free / u128::from(self.rate.window_ns())) as u64,
            None => 0,
        }
    }

    #[inline(always)]
    fn wait(&self, state: &PackedState, request: TimedCost) -> Wait {
        let limit = self.rate.limit();
        if self.outcome_kind(state, request) == OutcomeKind::Allowed {
            return Wait::NONE;
        }
        if request.cost > limit {
            return Wait::NEVER;
        }
        let WindowCounts { start_ns, prev, cur } = self.windows(*state, request.now);
        let start = u128::from(start_ns);
        let at_ns = match limit.checked_sub(cur.saturating_add(request.cost)) {
            Some(room) => start + self.fades_after(prev, room),
            None => start + u128::from(self.rate.window_ns()) + self.fades_after(cur, limit - request.cost),
        };
        Wait::of(Nanos::between(request.now, at_ns))
    }

    #[inline(always)]
    fn reset_after(&self, state: &PackedState, now: Timestamp) -> Nanos {
        let WindowCounts { start_ns, prev, cur } = self.windows(*state, now);
        let windows_left = match (prev, cur) {
            (0, 0) => return Nanos::ZERO,
            (_, 0) => 1,
            _ => 2,
        };
        Nanos::between(now, u128::from(start_ns) + windows_left * u128::from(self.rate.window_ns()))
    }
}

/// The last instant at which the counts of the window from `start_ns` matter: the end of the next window.
#[inline]
fn last_instant(start_ns: u64, window_ns: u64) -> u128 {
    u128::from(start_ns) + 2 * u128::from(window_ns) - 1
}

/// The start of the window that has `instant_high` as the upper bits of its [`last_instant`].
#[cold]
#[allow(clippy::cast_possible_truncation, reason = "before an instant that fits")]
fn start_of(instant_high: u64, window_ns: u64) -> u64 {
    let latest_end = u128::from(instant_high + 1) << SPARE_INSTANT_BITS;
    let windows = (latest_end / u128::from(window_ns)) as u64;
    windows.saturating_sub(2) * window_ns
}

/// What remains of `counts` in the window from `start_ns`. Counts of a later window (time stepped back) are returned
/// unchanged.
#[cold]
fn carried_to(start_ns: u64, counts: WindowCounts, window_ns: u64) -> WindowCounts {
    if counts.start_ns >= start_ns {
        counts
    } else if start_ns - counts.start_ns == window_ns {
        WindowCounts { start_ns, prev: counts.cur, cur: 0 }
    } else {
        WindowCounts { start_ns, prev: 0, cur: 0 }
    }
}

/// Packs the last windows before the end of representable time, by number.
#[cold]
fn pack_late(number: u64, prev: u64, cur: u64) -> PackedState {
    PackedState::outlasting(
        u128::from(number) << (2 * COUNT_BITS) | u128::from(cur) << COUNT_BITS | u128::from(prev),
    )
}

#[cold]
#[allow(clippy::cast_possible_truncation, reason = "truncation picks the bits of the layout")]
fn unpack_late(detail: u128, window_ns: u64) -> WindowCounts {
    let number = (detail >> (2 * COUNT_BITS)) as u64;
    let cur = (detail >> COUNT_BITS) as u64 & UNITS_MAX;
    WindowCounts { start_ns: number.saturating_mul(window_ns), prev: detail as u64 & UNITS_MAX, cur }
}
