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
use crate::packed::View;
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
/// Below the kept bits of time: two counts and two unused bits.
const TIME_SHIFT: u32 = 2 * COUNT_BITS + 2;
/// Less than the shortest window, so at most one window ends in any span this long.
const DROPPED_TIME_BITS: u32 = 19;
const _: () = assert!(1 << DROPPED_TIME_BITS < crate::rate::WINDOW_NS_MIN);

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
    #[allow(clippy::cast_possible_truncation, reason = "the cuts are the layout")]
    fn unpack(&self, state: Packed, guess_ns: u64) -> Windows {
        let window_ns = self.rate.window_ns();
        let [high, low] = state.to_words();
        let bits = u128::from(high) << 64 | u128::from(low);
        let mask = u128::from(UNITS_MAX);
        let (cur, prev) = ((bits >> (COUNT_BITS + 2) & mask) as u64, (bits >> 2 & mask) as u64);
        let start_ns = match state.view() {
            View::Until(last, _) => {
                let kept = last >> DROPPED_TIME_BITS;
                let guessed = last_instant(guess_ns, window_ns);
                if guessed >> DROPPED_TIME_BITS == u128::from(kept) {
                    guess_ns
                } else {
                    // The multiple of W in the span that the kept bits leave open, two windows back.
                    let latest = u128::from(kept + 1) << DROPPED_TIME_BITS;
                    (latest / u128::from(window_ns) * u128::from(window_ns)) as u64 - 2 * window_ns
                }
            }
            View::Outlasting(detail) => (detail >> TIME_SHIFT) as u64 * window_ns,
        };
        Windows { start_ns, prev, cur }
    }

    #[inline]
    fn pack(&self, Windows { start_ns, prev, cur }: Windows) -> Packed {
        let counts = u128::from(cur) << (COUNT_BITS + 2) | u128::from(prev) << 2;
        match u64::try_from(last_instant(start_ns, self.rate.window_ns())) {
            Ok(last) => {
                let kept = u128::from(last >> DROPPED_TIME_BITS) << TIME_SHIFT;
                #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
                Packed::from_words([((kept | counts) >> 64) as u64, (kept | counts) as u64])
            }
            Err(_) => Packed::outlasting(u128::from(start_ns / self.rate.window_ns()) << TIME_SHIFT | counts),
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
