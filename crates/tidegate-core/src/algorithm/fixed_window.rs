//! Fixed window: a counter that restarts at the start of every window.
//!
//! The oldest and simplest algorithm (`INCR` and `EXPIRE`). Windows are aligned to the epoch, begin with the key's
//! first request, or are the days, weeks or months of a time zone.
//!
//! *Worst case:* 2L in an instant at the border of two windows. With a calendar also 3L within W, around a window that
//! is shorter than W: a day of 23 hours, a month of 28 days. *State:* 16 bytes: the window's last instant and a count.
//!
//! The state identifies its window by the last instant in it. So a request inside the window needs no division and no
//! calendar, and a request from before the window (time stepped back) counts in it. The end of a window is computed
//! only for the first request that counts in it.

use super::{Calendar, CountDenied, LimitAlgorithm, WorstCase, WorstCaseDetail, WorstCaseScope};
use crate::packed_state::PackedView;
use crate::rate::UNITS_MAX;
use crate::{Nanos, OutcomeKind, PackedState, Rate, TimedCost, Timestamp, Wait};

/// L per W.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    pub(crate) rate: Rate,
    pub(crate) edges: Edges,
    pub(crate) count_denied: CountDenied,
}

/// Where windows begin and end: a checked [`Align`](super::Align).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edges {
    /// At multiples of W since the epoch.
    Epoch,
    /// With the first request of a key, and W after it.
    FirstHit,
    /// At the borders of days, weeks or months.
    Calendar(Calendar),
}

/// A window of a calendar: from its start to its end, the end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarWindow {
    /// Its first instant. The epoch if the window began earlier.
    pub start: Timestamp,
    /// The first instant of the next window, in nanoseconds since the epoch. May lie after the end of [`Timestamp`].
    pub end_ns: u128,
}

/// A window and the units used in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first nanosecond after the window, since the epoch.
    pub end_ns: u128,
    /// The units used in it.
    pub used: u64,
}

/// The count of attempts saturates here. It is more than every limit, so further attempts change nothing.
const USED_MAX: u64 = UNITS_MAX + 1;
const USED_BITS: u32 = 41;
const BEYOND_TIME: u128 = 1 << 64;
/// Every window ends long before this, and a state has room for it.
const END_NS_MAX: u128 = 1 << 80;

impl FixedWindow {
    /// Units per window.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Where windows begin and end.
    #[inline]
    pub fn edges(&self) -> &Edges {
        &self.edges
    }

    /// L in the last nanosecond of a window and L in the first of the next. If the first request begins the window,
    /// that request is not in the last nanosecond.
    pub fn worst_case(&self) -> WorstCase {
        let (limit, window_ns) = (self.rate.limit(), self.rate.window_ns());
        let (units, scope) = match &self.edges {
            Edges::Epoch => (2 * limit, WorstCaseScope::AnyWindow { window_ns }),
            Edges::FirstHit => ((2 * limit).saturating_sub(1), WorstCaseScope::AnyWindow { window_ns }),
            Edges::Calendar(calendar) => {
                (2 * limit, WorstCaseScope::CalendarEdge { unit: calendar.unit_name() })
            }
        };
        WorstCase { units, scope, detail: WorstCaseDetail::EachWindow(limit) }
    }

    /// The state of a key in this window. `None` if no key can be in it.
    #[inline]
    pub fn state(&self, window: Window) -> Option<PackedState> {
        let is_possible = (1..END_NS_MAX).contains(&window.end_ns) && window.used <= USED_MAX;
        is_possible.then(|| pack(&window))
    }

    /// The end of the window that a request at `now` opens, if the key is not in a window already.
    #[inline]
    fn end_of_new_window(&self, now: Timestamp) -> u128 {
        let (now_ns, window_ns) = (now.as_nanos(), self.rate.window_ns());
        match &self.edges {
            Edges::Epoch => u128::from(now_ns - now_ns % window_ns) + u128::from(window_ns),
            Edges::FirstHit => u128::from(now_ns) + u128::from(window_ns),
            Edges::Calendar(calendar) => calendar.window(now).end_ns,
        }
    }
}

impl LimitAlgorithm for FixedWindow {
    type State = PackedState;

    #[inline]
    fn outcome_kind(&self, state: &PackedState, request: TimedCost) -> OutcomeKind {
        OutcomeKind::from_fits(used(*state, request.now).saturating_add(request.cost) <= self.rate.limit())
    }

    #[inline]
    fn charge(&self, state: &mut PackedState, request: TimedCost) {
        let Window { end_ns, used } = match live_window(*state, request.now) {
            Some(window) => window,
            None => Window { end_ns: self.end_of_new_window(request.now), used: 0 },
        };
        *state = pack(&Window { end_ns, used: used.saturating_add(request.cost).min(USED_MAX) });
    }

    fn refund(&self, state: &mut PackedState, request: TimedCost) {
        *state = match live_window(*state, request.now) {
            Some(Window { end_ns, used }) if used > request.cost => {
                pack(&Window { end_ns, used: used - request.cost })
            }
            _ => PackedState::NEVER_SEEN,
        };
    }

    /// Units whose window is over are not counted. Otherwise they count in the window that the key is in, which may have
    /// begun after them if it begins with the first request.
    fn count_since(&self, state: &mut PackedState, request: TimedCost, from: Timestamp) {
        let from_end_ns = self.end_of_new_window(from.min(request.now));
        if from_end_ns <= u128::from(request.now.as_nanos()) {
            return;
        }
        let live = live_window(*state, request.now);
        let Window { end_ns, used } = live.unwrap_or(Window { end_ns: from_end_ns, used: 0 });
        *state = pack(&Window { end_ns, used: used.saturating_add(request.cost).min(USED_MAX) });
    }

    fn window_began_after(&self, state: &PackedState, instant: Timestamp) -> bool {
        live_window(*state, instant).is_some_and(|window| self.end_of_new_window(instant) < window.end_ns)
    }

    #[inline]
    fn remaining(&self, state: &PackedState, now: Timestamp) -> u64 {
        self.rate.limit().saturating_sub(used(*state, now))
    }

    #[inline]
    fn wait(&self, state: &PackedState, request: TimedCost) -> Wait {
        if request.cost > self.rate.limit() {
            return Wait::NEVER;
        }
        match live_window(*state, request.now) {
            Some(Window { end_ns, used }) if used.saturating_add(request.cost) > self.rate.limit() => {
                Wait::of(Nanos::between(request.now, end_ns))
            }
            _ => Wait::NONE,
        }
    }

    #[inline]
    fn reset_after(&self, state: &PackedState, now: Timestamp) -> Nanos {
        live_window(*state, now).map_or(Nanos::ZERO, |window| Nanos::between(now, window.end_ns))
    }

    #[inline]
    fn over(&self, state: &PackedState, now: Timestamp) -> u64 {
        used(*state, now).saturating_sub(self.rate.limit())
    }

    #[inline]
    fn count_denied(&self) -> CountDenied {
        self.count_denied
    }
}

/// The window of the state, if a request at `now` counts in it.
#[inline]
fn live_window(state: PackedState, now: Timestamp) -> Option<Window> {
    match state.view() {
        // A stored state has used something. A state with zero units used is that of a key never seen.
        PackedView::Until(last, used) => {
            (now.as_nanos() <= last && used > 0).then(|| Window { end_ns: u128::from(last) + 1, used })
        }
        PackedView::Outlasting(detail) => Some(unpack_late(detail)),
    }
}

/// The units used in the window that a request at `now` counts in.
#[inline]
fn used(state: PackedState, now: Timestamp) -> u64 {
    live_window(state, now).map_or(0, |window| window.used)
}

#[inline]
fn pack(window: &Window) -> PackedState {
    match u64::try_from(window.end_ns - 1) {
        Ok(last) => PackedState::until(last, window.used),
        Err(_) => {
            PackedState::outlasting((window.end_ns - BEYOND_TIME) << USED_BITS | u128::from(window.used))
        }
    }
}

/// Unpacks a window that ends after representable time.
#[cold]
#[allow(clippy::cast_possible_truncation, reason = "truncation picks the bits of the layout")]
fn unpack_late(detail: u128) -> Window {
    Window { end_ns: (detail >> USED_BITS) + BEYOND_TIME, used: detail as u64 & ((1 << USED_BITS) - 1) }
}
