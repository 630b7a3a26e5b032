//! The 16-byte state that the constant-size algorithms keep for a key.
//!
//! A store holds millions of these states. It does not know which limit a state belongs to, but it must know which
//! states it can drop. So every state begins with the last instant at which it matters:
//!
//! ```text
//! first word                         second word
//! last instant that matters          0 | 63 bits of detail       a state that ends
//! 64 bits of detail                  1 | 63 bits of detail       a state that outlasts representable time
//! ```
//!
//! The algorithm owns the detail. It puts the units used in the bits right after the instant. So the plain order of the
//! words is the order in which a full store evicts live states: the state that resets first goes first, and among
//! equals the one that used least. A key that was never seen is all zeros.
//!
//! An algorithm that needs more bits may use the lowest [`SPARE_INSTANT_BITS`] of the instant as detail too.

use std::cmp::Ordering;

use crate::Timestamp;

/// A constant-size state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PackedState {
    first: u64,
    second: u64,
}

/// A decoded [`PackedState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedView {
    /// Matters up to and including this instant. 63 bits of detail.
    Until(u64, u64),
    /// Matters for all of representable time. 127 bits of detail.
    Outlasting(u128),
}

const OUTLASTING: u64 = 1 << 63;
/// Low bits of the instant that an algorithm may use as detail. They stand for about half a millisecond.
pub(crate) const SPARE_INSTANT_BITS: u32 = 19;

impl PackedState {
    /// The state of a key that was never seen.
    pub const NEVER_SEEN: Self = Self { first: 0, second: 0 };

    #[inline]
    pub(crate) fn until(instant_ns: u64, detail: u64) -> Self {
        debug_assert!(detail < OUTLASTING);
        Self { first: instant_ns, second: detail & !OUTLASTING }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "truncation picks the bits of the layout")]
    pub(crate) fn outlasting(detail: u128) -> Self {
        debug_assert!(detail < 1 << 127);
        Self { first: (detail >> 63) as u64, second: detail as u64 | OUTLASTING }
    }

    #[inline]
    pub(crate) fn view(self) -> PackedView {
        if self.second & OUTLASTING == 0 {
            PackedView::Until(self.first, self.second)
        } else {
            PackedView::Outlasting(u128::from(self.first) << 63 | u128::from(self.second & !OUTLASTING))
        }
    }

    /// Whether the state can be dropped at `now` or later without any effect. May return false for up to half a
    /// millisecond too long, but never returns true too early.
    #[inline]
    pub fn is_idle_at(self, now: Timestamp) -> bool {
        self == Self::NEVER_SEEN || self.last_instant().is_some_and(|last| last < now)
    }

    /// The last instant at which this state matters, up to half a millisecond late. `None` if the state outlasts
    /// representable time.
    #[inline]
    pub fn last_instant(self) -> Option<Timestamp> {
        match self.view() {
            PackedView::Until(last, _) => Some(Timestamp::from_nanos(last | ((1 << SPARE_INSTANT_BITS) - 1))),
            PackedView::Outlasting(_) => None,
        }
    }

    /// The same state as of an earlier time, by up to half a millisecond less than `by_ns`. For a state that was counted by
    /// a clock that was ahead. A bucket has as much left as it had. A fixed window ends as much later as it did then,
    /// also if its edges are aligned. A sliding window may forget up to a window earlier. A state that outlasts representable time stays as it is.
    #[must_use]
    pub fn moved_back(self, by_ns: u64) -> Self {
        match self.view() {
            PackedView::Until(last, detail) => {
                Self::until(last.saturating_sub(by_ns >> SPARE_INSTANT_BITS << SPARE_INSTANT_BITS), detail)
            }
            PackedView::Outlasting(_) => self,
        }
    }

    /// The two words that a store keeps.
    #[inline]
    pub const fn to_words(self) -> [u64; 2] {
        [self.first, self.second]
    }

    /// The state that [`to_words`](Self::to_words) encoded.
    #[inline]
    pub const fn from_words([first, second]: [u64; 2]) -> Self {
        Self { first, second }
    }
}

/// The order in which a full store evicts live states.
impl Ord for PackedState {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |state: &Self| (state.second & OUTLASTING, state.first, state.second);
        rank(self).cmp(&rank(other))
    }
}

impl PartialOrd for PackedState {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
