//! The 16-byte state that the constant-size algorithms keep for a key.
//!
//! A store holds millions of these without knowing which limit each belongs to, and still has to tell what is
//! safe to drop. So every state begins with the last instant at which it matters:
//!
//! ```text
//! bit 127   126 ................ 63   62 ............ 0
//!       0   last instant that matters  detail             a state that ends
//!       1   detail ................................... 0  a state that outlasts representable time
//! ```
//!
//! The algorithm owns the detail. It puts what was used right below the instant, so that the plain order of
//! the 128 bits is the order in which live states are given up: nearest its reset first, of those the least
//! used. All zero is a key never seen.

use crate::Timestamp;

/// A constant-size state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packed(u128);

/// A [`Packed`] taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Matters up to and including this instant; 63 bits of detail.
    Until(u64, u64),
    /// Matters for all of representable time; 127 bits of detail.
    Outlasting(u128),
}

const OUTLASTING: u128 = 1 << 127;
const DETAIL_BITS: u32 = 63;
const DETAIL_MASK: u64 = (1 << DETAIL_BITS) - 1;

impl Packed {
    /// The state of a key that was never seen.
    pub const NEVER_SEEN: Self = Self(0);

    #[inline]
    pub(crate) fn until(instant_ns: u64, detail: u64) -> Self {
        debug_assert!(detail <= DETAIL_MASK);
        Self(u128::from(instant_ns) << DETAIL_BITS | u128::from(detail & DETAIL_MASK))
    }

    #[inline]
    pub(crate) fn outlasting(detail: u128) -> Self {
        debug_assert!(detail < OUTLASTING);
        Self(OUTLASTING | detail)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the cuts are the layout")]
    pub(crate) fn view(self) -> View {
        if self.0 & OUTLASTING == 0 {
            View::Until((self.0 >> DETAIL_BITS) as u64, self.0 as u64 & DETAIL_MASK)
        } else {
            View::Outlasting(self.0 & !OUTLASTING)
        }
    }

    /// Whether nothing is lost by forgetting this state at `now` or later. May say no for up to half a
    /// millisecond too long (see `sliding_window`), never yes too early.
    #[inline]
    pub fn is_idle_at(self, now: Timestamp) -> bool {
        match self.view() {
            View::Until(last, _) => last < now.as_nanos() || self == Self::NEVER_SEEN,
            View::Outlasting(_) => false,
        }
    }

    /// The last instant at which this state matters; none if it outlasts representable time. May be up to half a
    /// millisecond early (see `sliding_window`).
    #[inline]
    pub fn last_instant(self) -> Option<Timestamp> {
        match self.view() {
            View::Until(last, _) => Some(Timestamp::from_nanos(last)),
            View::Outlasting(_) => None,
        }
    }

    /// The two words a store keeps.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    pub const fn to_words(self) -> [u64; 2] {
        [(self.0 >> 64) as u64, self.0 as u64]
    }

    /// The state that [`to_words`](Self::to_words) took apart.
    #[inline]
    pub const fn from_words(words: [u64; 2]) -> Self {
        Self((words[0] as u128) << 64 | words[1] as u128)
    }
}
