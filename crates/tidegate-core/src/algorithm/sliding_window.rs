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

use super::Counting;
use crate::packed::{SPARE_INSTANT_BITS, View};
use crate::rate::UNITS_MAX;
use crate::{Ask, Nanos, Packed, Rate, Timestamp, Verdict, Wait};

/// L per W.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    pub(crate) rate: Rate,
}

/// The current window and what was used in it and in the one before.
#[derive(Clone, Copy)]
struct Windows {
    start_ns: u64,
    prev: u64,
    cur: u64,
}

const COUNT_BITS: u32 = 40;
/// The counts take the spare bits of the instant, and so the bits below them.
const CUR_BITS_BESIDE_INSTANT: u32 = SPARE_INSTANT_BITS;
const CUR_BITS_BELOW: u32 = COUNT_BITS - CUR_BITS_BESIDE_INSTANT;
/// At most one window ends in the span that the spare bits leave open.
const _: () = assert!(1 << SPARE_INSTANT_BITS < crate::rate::WINDOW_NS_MIN);

impl SlidingWindow {
    /// The windows as a request at `now` sees them.
    #[inline]
    fn windows(&self, state: Packed, now: Timestamp) -> Windows {
        let window_ns = self.rate.window_ns();
        let now_ns = now.as_nanos();
        let start_ns = now_ns - now_ns % window_ns;
        if state == Packed::NEVER_SEEN {
            return Windows { start_ns, prev: 0, cur: 0 };
        }
        let held = self.unpack(state, start_ns);
        if held.start_ns >= start_ns {
            // The same window, or time stepped back: the state's own window counts then.
            held
        } else if start_ns - held.start_ns == window_ns {
            Windows { start_ns, prev: held.cur, cur: 0 }
        } else {
            Windows { start_ns, prev: 0, cur: 0 }
        }
    }

    /// `guess_ns` is the start of the window of now, which most states belong to: trying it saves a division.
    #[inline]
    fn unpack(&self, state: Packed, guess_ns: u64) -> Windows {
        let window_ns = self.rate.window_ns();
        match state.view() {
            View::Until(instant, detail) => {
                let kept = instant >> SPARE_INSTANT_BITS;
                let start_ns = if last_instant(guess_ns, window_ns) >> SPARE_INSTANT_BITS == u128::from(kept)
                {
                    guess_ns
                } else {
                    start_of(kept, window_ns)
                };
                let cur_high = instant & ((1 << CUR_BITS_BESIDE_INSTANT) - 1);
                let cur = cur_high << CUR_BITS_BELOW | detail >> COUNT_BITS;
                Windows { start_ns, prev: detail & UNITS_MAX, cur }
            }
            View::Outlasting(detail) => unpack_late(detail, window_ns),
        }
    }

    #[inline]
    fn pack(&self, Windows { start_ns, prev, cur }: Windows) -> Packed {
        match u64::try_from(last_instant(start_ns, self.rate.window_ns())) {
            Ok(last) => {
                let kept = last >> SPARE_INSTANT_BITS << SPARE_INSTANT_BITS;
                let cur_low = cur & ((1 << CUR_BITS_BELOW) - 1);
                Packed::until(kept | cur >> CUR_BITS_BELOW, cur_low << COUNT_BITS | prev)
            }
            Err(_) => pack_late(start_ns / self.rate.window_ns(), prev, cur),
        }
    }

    /// L·W minus what the windows weigh at `now`, none if they weigh more.
    #[inline]
    fn free(&self, windows: Windows, now: Timestamp) -> Option<u128> {
        let window = u128::from(self.rate.window_ns());
        let elapsed = now.as_nanos().saturating_sub(windows.start_ns);
        let weight =
            u128::from(windows.prev) * (window - u128::from(elapsed)) + u128::from(windows.cur) * window;
        (u128::from(self.rate.limit()) * window).checked_sub(weight)
    }

    /// The first instant into a window at which `fading` units of the window before leave room for `room`.
    fn fades_after(&self, fading: u64, room: u64) -> u128 {
        let window = u128::from(self.rate.window_ns());
        match fading {
            0 => 0,
            _ => window.saturating_sub(u128::from(room) * window / u128::from(fading)),
        }
    }
}

impl Counting for SlidingWindow {
    type State = Packed;

    #[inline]
    fn weigh(&self, state: &Packed, ask: Ask) -> Verdict {
        let needed = u128::from(ask.cost) * u128::from(self.rate.window_ns());
        Verdict::of(self.free(self.windows(*state, ask.now), ask.now).is_some_and(|free| needed <= free))
    }

    #[inline]
    fn charge(&self, state: &mut Packed, ask: Ask) {
        let windows = self.windows(*state, ask.now);
        let cur = windows.cur.saturating_add(ask.cost).min(UNITS_MAX);
        *state = self.pack(Windows { cur, ..windows });
    }

    fn refund(&self, state: &mut Packed, ask: Ask) {
        let Windows { start_ns, prev, cur } = self.windows(*state, ask.now);
        let from_prev = ask.cost.saturating_sub(cur);
        let windows =
            Windows { start_ns, prev: prev.saturating_sub(from_prev), cur: cur.saturating_sub(ask.cost) };
        *state = if windows.prev + windows.cur == 0 { Packed::NEVER_SEEN } else { self.pack(windows) };
    }

    #[inline]
    fn remaining(&self, state: &Packed, now: Timestamp) -> u64 {
        let free = self.free(self.windows(*state, now), now).unwrap_or(0);
        #[allow(clippy::cast_possible_truncation, reason = "at most the limit")]
        match u64::try_from(free) {
            Ok(free) => free / self.rate.window_ns(),
            Err(_) => (free / u128::from(self.rate.window_ns())) as u64,
        }
    }

    fn wait(&self, state: &Packed, ask: Ask) -> Wait {
        let limit = self.rate.limit();
        if self.weigh(state, ask) == Verdict::Allowed {
            return Wait::NONE;
        }
        if ask.cost > limit {
            return Wait::NEVER;
        }
        let Windows { start_ns, prev, cur } = self.windows(*state, ask.now);
        let start = u128::from(start_ns);
        let at_ns = match limit.checked_sub(cur.saturating_add(ask.cost)) {
            Some(room) => start + self.fades_after(prev, room),
            None => start + u128::from(self.rate.window_ns()) + self.fades_after(cur, limit - ask.cost),
        };
        Wait::of(Nanos::from_to(ask.now, at_ns))
    }

    #[inline]
    fn reset_after(&self, state: &Packed, now: Timestamp) -> Nanos {
        let Windows { start_ns, prev, cur } = self.windows(*state, now);
        let windows_left = match (prev, cur) {
            (0, 0) => return Nanos::ZERO,
            (_, 0) => 1,
            _ => 2,
        };
        Nanos::from_to(now, u128::from(start_ns) + windows_left * u128::from(self.rate.window_ns()))
    }
}

/// The last instant at which the counts of the window from `start_ns` matter: the end of the one after it.
#[inline]
fn last_instant(start_ns: u64, window_ns: u64) -> u128 {
    u128::from(start_ns) + 2 * u128::from(window_ns) - 1
}

/// The start of the window of which `kept` are the upper bits of [`last_instant`].
#[allow(clippy::cast_possible_truncation, reason = "before an instant that fits")]
fn start_of(kept: u64, window_ns: u64) -> u64 {
    let latest_end = u128::from(kept + 1) << SPARE_INSTANT_BITS;
    let windows = (latest_end / u128::from(window_ns)) as u64;
    (windows - 2) * window_ns
}

/// The last windows before the end of representable time, by number.
#[cold]
fn pack_late(number: u64, prev: u64, cur: u64) -> Packed {
    Packed::outlasting(
        u128::from(number) << (2 * COUNT_BITS) | u128::from(cur) << COUNT_BITS | u128::from(prev),
    )
}

#[cold]
#[allow(clippy::cast_possible_truncation, reason = "the cuts are the layout")]
fn unpack_late(detail: u128, window_ns: u64) -> Windows {
    let number = (detail >> (2 * COUNT_BITS)) as u64;
    let cur = (detail >> COUNT_BITS) as u64 & UNITS_MAX;
    Windows { start_ns: number * window_ns, prev: detail as u64 & UNITS_MAX, cur }
}
