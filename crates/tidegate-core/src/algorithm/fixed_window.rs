//! Fixed window: a counter that starts again at every window's edge.
//!
//! The oldest and simplest (`INCR` and `EXPIRE`). Windows are aligned to the epoch, or begin with the key's
//! first request.
//!
//! *Worst case:* 2L in an instant around an edge. *State:* 16 bytes: the window's last instant and a count.
//!
//! The state names its window by the last instant in it, so a request inside the window needs no division,
//! and one from before the window (time stepped back) is counted in it.

use super::Counting;
use crate::packed::View;
use crate::rate::UNITS_MAX;
use crate::{Ask, Nanos, Packed, Rate, Timestamp, Verdict, Wait};

/// Where windows begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Align {
    /// At multiples of the window since the Unix epoch: the same edges for every key.
    #[default]
    Epoch,
    /// At the key's first request after its last window ended.
    FirstHit,
}

/// L per W.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    pub(crate) rate: Rate,
    pub(crate) align: Align,
    pub(crate) count_denied: bool,
}

/// A window and what was used in it.
struct Window {
    end_ns: u128,
    used: u64,
}

/// Counted attempts stop here, past every limit, where more of them change nothing.
const USED_MAX: u64 = UNITS_MAX + 1;
const USED_BITS: u32 = 41;
const BEYOND_TIME: u128 = 1 << 64;

impl FixedWindow {
    /// The window that a request at `now` belongs to.
    #[inline]
    fn window(&self, state: Packed, now: Timestamp) -> Window {
        let now_ns = now.as_nanos();
        match state.view() {
            // A state that is kept has used something; one never seen has not.
            View::Until(last, used) if now_ns <= last && used > 0 => {
                return Window { end_ns: u128::from(last) + 1, used };
            }
            View::Until(..) => {}
            View::Outlasting(detail) => return unpack_late(detail),
        }
        let start_ns = match self.align {
            Align::Epoch => now_ns - now_ns % self.rate.window_ns(),
            Align::FirstHit => now_ns,
        };
        Window { end_ns: u128::from(start_ns) + u128::from(self.rate.window_ns()), used: 0 }
    }
}

impl Counting for FixedWindow {
    type State = Packed;

    #[inline]
    fn weigh(&self, state: &Packed, ask: Ask) -> Verdict {
        let Window { used, .. } = self.window(*state, ask.now);
        Verdict::of(used.saturating_add(ask.cost) <= self.rate.limit())
    }

    #[inline]
    fn charge(&self, state: &mut Packed, ask: Ask) {
        let Window { end_ns, used } = self.window(*state, ask.now);
        *state = pack(&Window { end_ns, used: used.saturating_add(ask.cost).min(USED_MAX) });
    }

    fn refund(&self, state: &mut Packed, ask: Ask) {
        let Window { end_ns, used } = self.window(*state, ask.now);
        *state = match used.saturating_sub(ask.cost) {
            0 => Packed::NEVER_SEEN,
            used => pack(&Window { end_ns, used }),
        };
    }

    #[inline]
    fn remaining(&self, state: &Packed, now: Timestamp) -> u64 {
        self.rate.limit().saturating_sub(self.window(*state, now).used)
    }

    #[inline]
    fn wait(&self, state: &Packed, ask: Ask) -> Wait {
        let Window { end_ns, used } = self.window(*state, ask.now);
        if ask.cost > self.rate.limit() {
            Wait::NEVER
        } else if used.saturating_add(ask.cost) <= self.rate.limit() {
            Wait::NONE
        } else {
            Wait::of(Nanos::from_to(ask.now, end_ns))
        }
    }

    #[inline]
    fn reset_after(&self, state: &Packed, now: Timestamp) -> Nanos {
        match self.window(*state, now) {
            Window { used: 0, .. } => Nanos::ZERO,
            Window { end_ns, .. } => Nanos::from_to(now, end_ns),
        }
    }

    #[inline]
    fn counts_denied(&self) -> bool {
        self.count_denied
    }
}

#[inline]
fn pack(window: &Window) -> Packed {
    match u64::try_from(window.end_ns - 1) {
        Ok(last) => Packed::until(last, window.used),
        Err(_) => Packed::outlasting((window.end_ns - BEYOND_TIME) << USED_BITS | u128::from(window.used)),
    }
}

/// The one window of a key that ends after the end of representable time.
#[cold]
#[allow(clippy::cast_possible_truncation, reason = "the cuts are the layout")]
fn unpack_late(detail: u128) -> Window {
    Window { end_ns: (detail >> USED_BITS) + BEYOND_TIME, used: detail as u64 & ((1 << USED_BITS) - 1) }
}
