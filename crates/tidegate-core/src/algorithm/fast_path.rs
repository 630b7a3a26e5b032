//! One unit, in few instructions: the algorithms again, for the decision that nearly every request gets.
//!
//! Nearly every request costs one unit, finds its key, and is admitted. For this case the numbers that do not depend on the
//! key are computed once per counter. A decision then takes some additions and comparisons. It takes a multiplication or
//! two for what is left, and no division. A flood that is denied is common too, and [`FastPath::denial`] decides that.
//! In every other case a path returns `None`: a new window, a state under another L, a time that stepped
//! back, a product that does not fit 62 bits. The caller then asks the [algorithm](super::LimitAlgorithm), which stays the
//! definition: `tests/it/properties/fast_path.rs` holds every path to it, in state and outcome.

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Algorithm, CountDenied, PackedAlgorithm, SlidingWindow};
use crate::divisor::Divisor;
use crate::packed_state::SPARE_INSTANT_BITS;
use crate::{Nanos, Outcome, OutcomeKind, PackedState, Timestamp, Wait};

/// The fast path of a counter: its algorithm, with the numbers that it needs for one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastPath(PathByAlgorithm);

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathByAlgorithm {
    /// `gcra`, `token_bucket` and `leaky_bucket`.
    Bucket(BucketPath),
    FixedWindow(FixedWindowPath),
    SlidingWindow(SlidingWindowPath),
}

/// One admitted unit.
#[derive(Clone, Copy, Debug)]
pub struct FastCharge {
    /// The state after the charge.
    pub state: PackedState,
    /// What `remaining` is computed from, in the terms of the algorithm.
    rest: [u64; 2],
    reset_after_ns: u64,
    delay_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketPath {
    pub limit: u64,
    /// (B - 1)·W/L: how far ahead the arrival time may be before the unit. Whole nanoseconds and a remainder over L.
    pub reach_ns: u64,
    pub reach_remainder: u64,
    /// W/L, in the same way.
    pub interval_ns: u64,
    pub interval_remainder: u64,
    /// B·W is at most 2^62.
    pub window: Divisor,
    /// All ones if units leave one interval apart, as from a leaky bucket. Else zero.
    pub delay_mask: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FixedWindowPath {
    pub limit: u64,
    pub count_denied: CountDenied,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlidingWindowPath {
    limit: u64,
    window: Divisor,
    /// Up to this count, the weight of the previous window is at most [`NARROW_MAX`].
    prev_max: u64,
    recent_start: RecentStart,
}

/// The start of a recent window, in nanoseconds. Nearly every request is in the same window as the one before. To
/// compare takes two steps, to divide and multiply takes ten, and everything else waits for the result.
///
/// It is only a hint, which does not change any answer: it is the start of some window, and a path decides only within
/// that window.
#[derive(Debug, Default)]
struct RecentStart(AtomicU64);

/// Up to this product, its sum with a window is in the range of [`Divisor::divide`].
const NARROW_MAX: u64 = 1 << 62;

impl FastPath {
    /// The fast path of an algorithm, if it has one.
    pub(crate) fn new(algorithm: &Algorithm) -> Option<Self> {
        let Algorithm::Packed(algorithm) = algorithm else { return None };
        Some(Self(match algorithm {
            PackedAlgorithm::Gcra(gcra) => PathByAlgorithm::Bucket(gcra.fast_path()?),
            PackedAlgorithm::TokenBucket(bucket) => PathByAlgorithm::Bucket(bucket.as_gcra().fast_path()?),
            PackedAlgorithm::LeakyBucket(bucket) => {
                PathByAlgorithm::Bucket(BucketPath { delay_mask: u64::MAX, ..bucket.as_gcra().fast_path()? })
            }
            PackedAlgorithm::FixedWindow(window) => {
                let (limit, count_denied) = (window.rate().limit(), window.count_denied);
                PathByAlgorithm::FixedWindow(FixedWindowPath { limit, count_denied })
            }
            PackedAlgorithm::SlidingWindow(window) => PathByAlgorithm::SlidingWindow(window.fast_path()),
        }))
    }

    /// Charges one unit to a state. `None` if it is not admitted, or not decided here.
    #[inline(always)]
    pub fn charge(&self, state: PackedState, now: Timestamp) -> Option<FastCharge> {
        let (words, now_ns) = (state.to_words(), now.as_nanos());
        match &self.0 {
            PathByAlgorithm::Bucket(path) => path.charge(words, now_ns),
            PathByAlgorithm::FixedWindow(path) => path.charge(words, now_ns),
            PathByAlgorithm::SlidingWindow(path) => path.charge(words, now_ns),
        }
    }

    /// Prepares the path for decisions at `now`. To be called after it did not decide.
    #[inline]
    pub fn refresh(&self, now: Timestamp) {
        if let PathByAlgorithm::SlidingWindow(path) = &self.0 {
            path.refresh(now.as_nanos());
        }
    }

    /// The outcome of a unit that the limit denies and does not count. `None` if it is admitted, or not decided here.
    #[inline]
    pub fn denial(&self, state: PackedState, now: Timestamp) -> Option<Outcome> {
        let (words, now_ns) = (state.to_words(), now.as_nanos());
        match &self.0 {
            PathByAlgorithm::Bucket(path) => path.denial(words, now_ns),
            PathByAlgorithm::FixedWindow(path) => path.denial(words, now_ns),
            PathByAlgorithm::SlidingWindow(path) => path.denial(words, now_ns),
        }
    }

    /// The outcome of a charge by this path.
    #[inline(always)]
    pub fn outcome(&self, charge: &FastCharge) -> Outcome {
        Outcome {
            kind: OutcomeKind::Allowed,
            remaining: match &self.0 {
                PathByAlgorithm::Bucket(path) => path.remaining(charge.rest),
                PathByAlgorithm::FixedWindow(_) => charge.rest[0],
                PathByAlgorithm::SlidingWindow(path) => path.remaining(charge.rest),
            },
            retry_after: Wait::NONE,
            reset_after: Nanos::new(u128::from(charge.reset_after_ns)),
            delay: Nanos::new(u128::from(charge.delay_ns)),
            over: 0,
        }
    }
}

impl BucketPath {
    /// See `gcra.rs`, and for the delay `leaky_bucket.rs`: a unit leaves at the arrival time before its charge.
    #[inline(always)]
    fn charge(&self, [whole_ns, remainder]: [u64; 2], now_ns: u64) -> Option<FastCharge> {
        // A remainder over a larger L, or a state that outlasts representable time, whose highest bit is set.
        if remainder >= self.limit {
            return None;
        }
        let is_ahead = whole_ns >= now_ns;
        let start_ns = if is_ahead { whole_ns } else { now_ns };
        let remainder = if is_ahead { remainder } else { 0 };
        let ahead_ns = start_ns - now_ns;
        let free_ns = self.reach_ns.checked_sub(ahead_ns)?;
        if free_ns == 0 && remainder > self.reach_remainder {
            return None;
        }
        let sum = remainder + self.interval_remainder;
        let carry = sum >= self.limit;
        // No branch: it could not be predicted.
        let new_remainder = sum - select_unpredictable(carry, self.limit, 0);
        let new_whole_ns = start_ns.checked_add(self.interval_ns + u64::from(carry))?;
        let rounded_up = |whole_ns: u64, remainder: u64| whole_ns + u64::from(remainder > 0);
        Some(FastCharge {
            state: PackedState::from_words([new_whole_ns, new_remainder]),
            rest: [free_ns, remainder],
            reset_after_ns: rounded_up(new_whole_ns - now_ns, new_remainder),
            delay_ns: rounded_up(ahead_ns, remainder) & self.delay_mask,
        })
    }

    /// The unit fits when the arrival time is no further ahead than its reach.
    #[inline]
    fn denial(&self, [whole_ns, remainder]: [u64; 2], now_ns: u64) -> Option<Outcome> {
        let ahead_ns = whole_ns.checked_sub(now_ns).filter(|_| remainder < self.limit)?;
        let excess_ns = ahead_ns.checked_sub(self.reach_ns)?;
        let rounds_up = remainder > self.reach_remainder;
        let is_denied = excess_ns > 0 || rounds_up;
        is_denied.then(|| Outcome {
            kind: OutcomeKind::Denied,
            remaining: 0,
            retry_after: Wait::of(Nanos::new(u128::from(excess_ns) + u128::from(rounds_up))),
            reset_after: Nanos::new(u128::from(ahead_ns) + u128::from(remainder > 0)),
            delay: Nanos::ZERO,
            over: 0,
        })
    }

    /// How many intervals fit between the arrival time and its reach: their distance in 1/L ns, divided by W.
    #[inline(always)]
    fn remaining(&self, [free_ns, remainder]: [u64; 2]) -> u64 {
        self.window.divide(free_ns * self.limit + self.reach_remainder - remainder)
    }
}

impl FixedWindowPath {
    /// See `fixed_window.rs`: the state is the window's last instant and the units used in it.
    #[inline(always)]
    fn charge(&self, [last_ns, used]: [u64; 2], now_ns: u64) -> Option<FastCharge> {
        // A state that outlasts representable time has the highest bit set, so it is not below the limit.
        if now_ns > last_ns || used == 0 || used >= self.limit {
            return None;
        }
        Some(FastCharge {
            state: PackedState::from_words([last_ns, used + 1]),
            rest: [self.limit - used - 1, 0],
            reset_after_ns: (last_ns - now_ns).checked_add(1)?,
            delay_ns: 0,
        })
    }

    /// The unit fits when the window is over. A limit of zero has no such window.
    #[inline]
    fn denial(&self, [last_ns, used]: [u64; 2], now_ns: u64) -> Option<Outcome> {
        let outlasts = used >> 63 != 0;
        if self.count_denied != CountDenied::Never || self.limit == 0 || outlasts {
            return None;
        }
        let over = used.checked_sub(self.limit)?;
        let end_after = Nanos::new(u128::from(last_ns.checked_sub(now_ns)?) + 1);
        Some(Outcome {
            kind: OutcomeKind::Denied,
            remaining: 0,
            retry_after: Wait::of(end_after),
            reset_after: end_after,
            delay: Nanos::ZERO,
            over,
        })
    }
}

impl SlidingWindowPath {
    pub(super) fn new(limit: u64, window: Divisor) -> Self {
        Self { limit, window, prev_max: NARROW_MAX / window.get(), recent_start: RecentStart::default() }
    }

    /// The start of the window at `now_ns`, if it is the recent one.
    #[inline(always)]
    fn start_ns(&self, now_ns: u64) -> Option<u64> {
        let start_ns = self.recent_start.0.load(Ordering::Relaxed);
        let is_recent = now_ns.wrapping_sub(start_ns) < self.window.get();
        is_recent.then_some(start_ns)
    }

    fn refresh(&self, now_ns: u64) {
        if self.start_ns(now_ns).is_none() && now_ns >> 63 == 0 {
            let start_ns = self.window.divide(now_ns) * self.window.get();
            self.recent_start.0.store(start_ns, Ordering::Relaxed);
        }
    }

    /// Whether a state counts the window that starts at `start_ns`.
    #[inline(always)]
    fn is_of_window(&self, [instant, _]: [u64; 2], start_ns: u64) -> bool {
        let last_ns = start_ns + (2 * self.window.get() - 1);
        (instant ^ last_ns) >> SPARE_INSTANT_BITS == 0
    }

    /// The unit fits when enough of the previous window has faded, or else of this window in the next one.
    #[inline]
    fn denial(&self, words: [u64; 2], now_ns: u64) -> Option<Outcome> {
        let (start_ns, window_ns) = (self.start_ns(now_ns)?, self.window.get());
        let outlasts = words[1] >> 63 != 0;
        if outlasts || !self.is_of_window(words, start_ns) {
            return None;
        }
        let (prev, cur) = SlidingWindow::unpack_counts(words);
        let (window_start_ns, fading, room) = match self.limit.checked_sub(cur + 1) {
            Some(room) => (start_ns, prev, room),
            None => (start_ns + window_ns, cur, self.limit.checked_sub(1)?),
        };
        // The time that `room` units take to fade, subtracted from the window.
        let room_ns = room.checked_mul(window_ns)?.checked_div(fading)?;
        let fits_ns = window_start_ns + window_ns.saturating_sub(room_ns);
        let retry_after_ns = fits_ns.checked_sub(now_ns).filter(|retry_after_ns| *retry_after_ns > 0)?;
        let windows_left = if cur == 0 { 1 } else { 2 };
        Some(Outcome {
            kind: OutcomeKind::Denied,
            remaining: 0,
            retry_after: Wait::of(Nanos::new(u128::from(retry_after_ns))),
            reset_after: Nanos::new(u128::from(start_ns + windows_left * window_ns - now_ns)),
            delay: Nanos::ZERO,
            over: 0,
        })
    }

    /// See `sliding_window.rs`, for a state of the current window.
    #[inline(always)]
    fn charge(&self, words: [u64; 2], now_ns: u64) -> Option<FastCharge> {
        let (start_ns, window_ns) = (self.start_ns(now_ns)?, self.window.get());
        let state = SlidingWindow::add_unit(words)?;
        let (prev, cur) = SlidingWindow::unpack_counts(words);
        if !self.is_of_window(words, start_ns) || prev > self.prev_max {
            return None;
        }
        let room = self.limit.checked_sub(cur + 1)?;
        let left_ns = start_ns + window_ns - now_ns;
        // The weight is at most `prev`, so most requests need no product. Below it, the product with `room` is narrow too.
        if room < prev && prev * left_ns > room * window_ns {
            return None;
        }
        Some(FastCharge {
            state,
            rest: [room, prev * left_ns],
            reset_after_ns: left_ns + window_ns,
            delay_ns: 0,
        })
    }

    /// The room without the weight of the previous window, rounded up to whole units.
    #[inline(always)]
    fn remaining(&self, [room, weight]: [u64; 2]) -> u64 {
        room - self.window.divide(weight + (self.window.get() - 1))
    }
}

impl Clone for RecentStart {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A hint makes no difference between counters.
impl PartialEq for RecentStart {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RecentStart {}
