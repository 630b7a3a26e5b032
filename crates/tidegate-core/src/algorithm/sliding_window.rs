//! Sliding window counter: two fixed windows, the older one fading out.
//!
//! Made popular by Cloudflare (2017). With e the time into the current window, the previous window weighs
//! (W - e)/W; a request fits if and only if
//!
//! ```text
//! prev*(W - e) + (cur + c)*W <= L*W
//! ```
//!
//! in integers, so there is no rounding to argue about.
//!
//! *Worst case:* just under 2L in W (a burst at the end of one window, then a drip); L per W in the long run.
//! *State:* 16 bytes: the window and two 40-bit counts, which leaves 45 bits for time. That is enough: the
//! last instant that matters is the end of a window, windows are at least a millisecond, and of such a number
//! the low 19 bits need not be kept to know which one it is.

use super::LimitAlgorithm;
use crate::packed::{SPARE_INSTANT_BITS, PackedView};
use crate::rate::UNITS_MAX;
use crate::{TimedCost, Nanos, PackedState, Rate, Timestamp, OutcomeKind, Wait};

/// L per W.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    pub(crate) rate: Rate,
    /// L·W where it is small enough that a decision can be made in 64 bits, which is half the work.
    narrow_capacity: Option<u64>,
    /// floor(2^64 / W): multiplying by it is half the wait of dividing by W.
    reciprocal: u64,
}

/// A window and what was used in it and in the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPair {
    /// How many windows there were before it since the epoch.
    pub number: u64,
    /// What was used in the one before.
    pub prev: u64,
    /// What was used in it.
    pub cur: u64,
}

/// The current window and what was used in it and in the one before.
#[derive(Clone, Copy)]
struct WindowCounts {
    start_ns: u64,
    prev: u64,
    cur: u64,
}

/// What is left of L·W, in the width it was worked out in.
enum FreeCapacity {
    Narrow(u64),
    Wide(u128),
}

const COUNT_BITS: u32 = 40;
/// The counts take the spare bits of the instant, and so the bits below them.
const CUR_BITS_BESIDE_INSTANT: u32 = SPARE_INSTANT_BITS;
const CUR_BITS_BELOW: u32 = COUNT_BITS - CUR_BITS_BESIDE_INSTANT;
/// At most one window ends in the span that the spare bits leave open.
const _: () = assert!(1 << SPARE_INSTANT_BITS < crate::rate::WINDOW_NS_MIN);

/// Capacities up to here leave room to weigh two windows of their size.
const NARROW_MAX: u64 = 1 << 62;

impl SlidingWindow {
    pub(crate) fn new(rate: Rate) -> Self {
        let capacity = rate.limit().checked_mul(rate.window_ns());
        #[allow(clippy::cast_possible_truncation, reason = "W is more than one")]
        let reciprocal = ((1_u128 << 64) / u128::from(rate.window_ns())) as u64;
        Self { rate, narrow_capacity: capacity.filter(|capacity| *capacity <= NARROW_MAX), reciprocal }
    }

    /// Units per window.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The state of a key that used so much; none if no key can have.
    #[inline]
    pub fn state(&self, WindowPair { number, prev, cur }: WindowPair) -> Option<PackedState> {
        let start_ns = number.checked_mul(self.rate.window_ns())?;
        let can_be = prev <= UNITS_MAX && cur <= UNITS_MAX;
        can_be.then(|| match (prev, cur) {
            (0, 0) => PackedState::NEVER_SEEN,
            _ => self.pack(WindowCounts { start_ns, prev, cur }),
        })
    }

    /// The start of the window that `now_ns` is in.
    ///
    /// The estimated number of windows is the true one or one less: the reciprocal is short of 2^64 / W by less
    /// than one, and so the product of t / 2^64 < 1.
    #[inline(always)]
    fn start_of_now(&self, now_ns: u64) -> u64 {
        let window_ns = self.rate.window_ns();
        #[allow(clippy::cast_possible_truncation, reason = "less than t")]
        let number = ((u128::from(now_ns) * u128::from(self.reciprocal)) >> 64) as u64;
        let start_ns = number * window_ns;
        if now_ns - start_ns >= window_ns { start_ns + window_ns } else { start_ns }
    }

    /// The windows as a request at `now` sees them.
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
        let kept = instant >> SPARE_INSTANT_BITS;
        let cur_high = instant & ((1 << CUR_BITS_BESIDE_INSTANT) - 1);
        let cur = cur_high << CUR_BITS_BELOW | detail >> COUNT_BITS;
        let prev = detail & UNITS_MAX;
        // Most states belong to the window of now or to the one before, and to try those needs no division.
        let is_last_of =
            |last_ns: Option<u64>| last_ns.is_some_and(|last| last >> SPARE_INSTANT_BITS == kept);
        if is_last_of(start_ns.checked_add(2 * window_ns - 1)) {
            WindowCounts { start_ns, prev, cur }
        } else if is_last_of(start_ns.checked_add(window_ns - 1)) {
            WindowCounts { start_ns, prev: cur, cur: 0 }
        } else {
            carried_to(start_ns, WindowCounts { start_ns: start_of(kept, window_ns), prev, cur }, window_ns)
        }
    }

    #[inline(always)]
    fn pack(&self, WindowCounts { start_ns, prev, cur }: WindowCounts) -> PackedState {
        match u64::try_from(last_instant(start_ns, self.rate.window_ns())) {
            Ok(last) => {
                let kept = last >> SPARE_INSTANT_BITS << SPARE_INSTANT_BITS;
                let cur_low = cur & ((1 << CUR_BITS_BELOW) - 1);
                PackedState::until(kept | cur >> CUR_BITS_BELOW, cur_low << COUNT_BITS | prev)
            }
            Err(_) => pack_late(start_ns / self.rate.window_ns(), prev, cur),
        }
    }

    /// L·W minus what the windows weigh at `now`, none if they weigh more.
    #[inline(always)]
    fn free(&self, WindowCounts { start_ns, prev, cur }: WindowCounts, now: Timestamp) -> Option<FreeCapacity> {
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

    /// The first instant into a window at which `fading` units of the window before leave room for `room`.
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

// Always inlined: the questions of one decision then look at the windows once, not each for itself.
impl LimitAlgorithm for SlidingWindow {
    type State = PackedState;

    #[inline(always)]
    fn outcome_kind(&self, state: &PackedState, ask: TimedCost) -> OutcomeKind {
        let (cost, window_ns) = (ask.cost, self.rate.window_ns());
        OutcomeKind::from_fits(match self.free(self.windows(*state, ask.now), ask.now) {
            Some(FreeCapacity::Narrow(free)) => cost <= self.rate.limit() && cost * window_ns <= free,
            Some(FreeCapacity::Wide(free)) => u128::from(cost) * u128::from(window_ns) <= free,
            None => false,
        })
    }

    #[inline(always)]
    fn charge(&self, state: &mut PackedState, ask: TimedCost) {
        let windows = self.windows(*state, ask.now);
        let cur = windows.cur.saturating_add(ask.cost).min(UNITS_MAX);
        *state = self.pack(WindowCounts { cur, ..windows });
    }

    fn refund(&self, state: &mut PackedState, ask: TimedCost) {
        let WindowCounts { start_ns, prev, cur } = self.windows(*state, ask.now);
        let from_prev = ask.cost.saturating_sub(cur);
        let windows =
            WindowCounts { start_ns, prev: prev.saturating_sub(from_prev), cur: cur.saturating_sub(ask.cost) };
        *state = if windows.prev + windows.cur == 0 { PackedState::NEVER_SEEN } else { self.pack(windows) };
    }

    fn window_began_after(&self, state: &PackedState, instant: Timestamp) -> bool {
        self.windows(*state, instant).start_ns > instant.as_nanos()
    }

    #[inline(always)]
    fn remaining(&self, state: &PackedState, now: Timestamp) -> u64 {
        #[allow(clippy::cast_possible_truncation, reason = "at most the limit")]
        match self.free(self.windows(*state, now), now) {
            Some(FreeCapacity::Narrow(free)) => free / self.rate.window_ns(),
            Some(FreeCapacity::Wide(free)) => (free / u128::from(self.rate.window_ns())) as u64,
            None => 0,
        }
    }

    #[inline(always)]
    fn wait(&self, state: &PackedState, ask: TimedCost) -> Wait {
        let limit = self.rate.limit();
        if self.outcome_kind(state, ask) == OutcomeKind::Allowed {
            return Wait::NONE;
        }
        if ask.cost > limit {
            return Wait::NEVER;
        }
        let WindowCounts { start_ns, prev, cur } = self.windows(*state, ask.now);
        let start = u128::from(start_ns);
        let at_ns = match limit.checked_sub(cur.saturating_add(ask.cost)) {
            Some(room) => start + self.fades_after(prev, room),
            None => start + u128::from(self.rate.window_ns()) + self.fades_after(cur, limit - ask.cost),
        };
        Wait::of(Nanos::between(ask.now, at_ns))
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

/// The last instant at which the counts of the window from `start_ns` matter: the end of the one after it.
#[inline]
fn last_instant(start_ns: u64, window_ns: u64) -> u128 {
    u128::from(start_ns) + 2 * u128::from(window_ns) - 1
}

/// The start of the window of which `kept` are the upper bits of [`last_instant`].
#[cold]
#[allow(clippy::cast_possible_truncation, reason = "before an instant that fits")]
fn start_of(kept: u64, window_ns: u64) -> u64 {
    let latest_end = u128::from(kept + 1) << SPARE_INSTANT_BITS;
    let windows = (latest_end / u128::from(window_ns)) as u64;
    windows.saturating_sub(2) * window_ns
}

/// What is left of `held` in the window from `start_ns`. A window after it (time stepped back) counts as it is.
#[cold]
fn carried_to(start_ns: u64, held: WindowCounts, window_ns: u64) -> WindowCounts {
    if held.start_ns >= start_ns {
        held
    } else if start_ns - held.start_ns == window_ns {
        WindowCounts { start_ns, prev: held.cur, cur: 0 }
    } else {
        WindowCounts { start_ns, prev: 0, cur: 0 }
    }
}

/// The last windows before the end of representable time, by number.
#[cold]
fn pack_late(number: u64, prev: u64, cur: u64) -> PackedState {
    PackedState::outlasting(
        u128::from(number) << (2 * COUNT_BITS) | u128::from(cur) << COUNT_BITS | u128::from(prev),
    )
}

#[cold]
#[allow(clippy::cast_possible_truncation, reason = "the cuts are the layout")]
fn unpack_late(detail: u128, window_ns: u64) -> WindowCounts {
    let number = (detail >> (2 * COUNT_BITS)) as u64;
    let cur = (detail >> COUNT_BITS) as u64 & UNITS_MAX;
    WindowCounts { start_ns: number.saturating_mul(window_ns), prev: detail as u64 & UNITS_MAX, cur }
}
