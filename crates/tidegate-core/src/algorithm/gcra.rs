//! Generic cell rate algorithm (GCRA): one arrival time instead of a level and a clock.
//!
//! From ATM traffic policing (ITU-T I.371, "virtual scheduling"). Every unit moves the key's theoretical arrival time
//! (TAT) one interval W/L further. A request fits if the TAT that it would leave is at most B intervals ahead of now.
//! The TAT of an idle key falls behind now, and the key can take B units again, never more.
//!
//! *Worst case:* B + L·τ/W units in any span τ. *State:* 16 bytes.
//!
//! W/L is rarely a whole number of nanoseconds. So the TAT is kept as whole nanoseconds plus a remainder over L, and
//! decisions compare in units of 1/L ns, where everything is an integer:
//!
//! ```text
//! backlog = max(TAT - t, 0) * L       fits iff backlog + c*W <= B*W
//! ```
//!
//! Decisions use 64-bit numbers if B·W is at most 2^62, and 128-bit numbers otherwise.
//!
//! When L changes, the whole nanoseconds stay, and with them the used share of the limit. Only the meaning of the
//! remainder, less than one nanosecond, changes with L.

use super::fast_path::BucketPath;
use super::{LimitAlgorithm, WorstCase, WorstCaseDetail};
use crate::divisor::Divisor;
use crate::packed_state::PackedView;
use crate::rate::UNITS_MAX;
use crate::{Nanos, OutcomeKind, PackedState, Rate, TimedCost, Timestamp, Wait};

/// L per W, burst B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gcra {
    rate: Rate,
    burst: u64,
    /// B·W, in 1/L ns: how far the arrival time may be ahead.
    tolerance: u128,
    /// The same in 64 bits, if a decision fits 64 bits. That takes half the work.
    narrow_tolerance: Option<u64>,
    /// B·W/L: the same in nanoseconds.
    burst_span: Arrival,
    /// The largest remainder over L.
    remainder_max: u64,
    /// W/L, computed once because nearly every cost is one.
    interval: Arrival,
}

/// An arrival time in nanoseconds since the epoch, or a distance between two: `whole_ns + remainder/L` nanoseconds,
/// where `remainder < L`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Whole nanoseconds.
    pub whole_ns: u128,
    /// The rest, below one nanosecond, in 1/L ns.
    pub remainder: u64,
}

/// How far the arrival time may be ahead, and how far it is, in 1/L ns.
struct NarrowBacklog {
    tolerance: u64,
    backlog: u64,
}

/// Up to this tolerance, 64 bits have room for a backlog and a cost of the same size.
const NARROW_MAX: u64 = 1 << 62;
/// More than any tolerance, and small enough that any cost can be added.
const BACKLOG_MAX: u128 = 1 << 126;
/// The bits of [`PackedView::Outlasting`] from here on give the width of the remainder.
const REMAINDER_WIDTH_SHIFT: u32 = 121;

impl Gcra {
    /// `burst` may be one more than the largest limit: a queue of Q is a burst of Q + 1.
    pub(crate) fn new(rate: Rate, burst: u64) -> Self {
        // With a limit of zero the tolerance is zero, whatever the burst. So it needs no special case.
        let tolerance = if rate.limit() == 0 { 0 } else { u128::from(burst) * u128::from(rate.window_ns()) };
        let limit = rate.limit().max(1);
        let interval = split(u128::from(rate.window_ns()), limit);
        let narrow_tolerance =
            u64::try_from(tolerance).ok().filter(|tolerance| (1..=NARROW_MAX).contains(tolerance));
        Self {
            rate,
            burst,
            tolerance,
            narrow_tolerance,
            burst_span: split(tolerance, limit),
            remainder_max: limit - 1,
            interval,
        }
    }

    /// Units per window.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The largest cost that ever fits.
    #[inline]
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// A full bucket, and what flows in until the last nanosecond of the window. With a burst of one, every unit comes at
    /// a whole nanosecond, so a rate of nearly one unit per nanosecond admits less.
    pub fn worst_case(&self) -> WorstCase {
        let (limit, window_ns) = (self.rate.limit(), self.rate.window_ns());
        if limit == 0 {
            return WorstCase::in_any_window(window_ns, 0);
        }
        let refill = u128::from(limit) * u128::from(window_ns - 1) / u128::from(window_ns);
        let last_after_ns = (refill * u128::from(window_ns)).div_ceil(u128::from(limit));
        // Both are less than L and W.
        let [refill, last_after_ns] =
            [refill, last_after_ns].map(|value| u64::try_from(value).unwrap_or(u64::MAX));
        WorstCase::in_any_window(window_ns, self.burst + refill)
            .with_detail(WorstCaseDetail::Burst { at_once: self.burst, last_after_ns })
    }

    /// c·W/L: how far a cost moves the arrival time. A limit of zero is treated as one.
    #[inline]
    pub fn span(&self, cost: u64) -> Arrival {
        if self.limit() == 0 { split(u128::from(cost) * self.window(), 1) } else { self.span_of(cost) }
    }

    /// B·W/L: how far the arrival time may be ahead of now. Zero if the limit is zero.
    #[inline]
    pub fn burst_span(&self) -> Arrival {
        self.burst_span
    }

    /// The state of a key with this arrival time, for any L of the remainder. `None` if no L has such a remainder.
    #[inline]
    pub fn state(&self, arrival: Arrival) -> Option<PackedState> {
        (arrival.remainder < UNITS_MAX).then(|| pack(arrival))
    }

    /// The numbers for charges of one unit, if they fit 64 bits.
    pub(super) fn fast_path(&self) -> Option<BucketPath> {
        let window_ns = self.rate.window_ns();
        let reach = split(u128::from(self.narrow_tolerance?.checked_sub(window_ns)?), self.limit());
        Some(BucketPath {
            limit: self.limit(),
            reach_ns: u64::try_from(reach.whole_ns).ok()?,
            reach_remainder: reach.remainder,
            interval_ns: u64::try_from(self.interval.whole_ns).ok()?,
            interval_remainder: self.interval.remainder,
            window: Divisor::new(window_ns),
            delay_mask: 0,
        })
    }

    /// How long the newest unit has to wait if units leave one interval apart.
    #[inline]
    pub(super) fn newest_departure_after(&self, state: &PackedState, now: Timestamp) -> Nanos {
        let leaves = self.arrival(*state).and_then(|arrival| self.earlier(arrival, self.interval));
        leaves.map_or(Nanos::ZERO, |leaves| Nanos::between(now, leaves.ceil()))
    }

    #[inline]
    fn limit(&self) -> u64 {
        self.rate.limit()
    }

    #[inline]
    fn window(&self) -> u128 {
        u128::from(self.rate.window_ns())
    }

    /// The arrival time in `state`. `None` if the key was never seen.
    #[inline]
    fn arrival(&self, state: PackedState) -> Option<Arrival> {
        if state == PackedState::NEVER_SEEN {
            return None;
        }
        let (whole_ns, remainder) = match state.view() {
            PackedView::Until(whole_ns, remainder) => (u128::from(whole_ns), remainder),
            PackedView::Outlasting(detail) => unpack_late(detail),
        };
        // A remainder that was kept under a larger L is still less than one nanosecond.
        Some(Arrival { whole_ns, remainder: remainder.min(self.remainder_max) })
    }

    /// How far the arrival time is ahead of `now`, in 1/L ns.
    #[inline]
    fn backlog(&self, state: PackedState, now: Timestamp) -> u128 {
        let limit = u128::from(self.limit());
        match state.view() {
            // The common case, in which nothing can overflow.
            PackedView::Until(whole_ns, remainder) => match whole_ns.checked_sub(now.as_nanos()) {
                Some(ahead) => u128::from(ahead) * limit + u128::from(remainder.min(self.remainder_max)),
                None => 0,
            },
            PackedView::Outlasting(detail) => {
                let (whole_ns, remainder) = unpack_late(detail);
                let ahead = whole_ns.saturating_sub(u128::from(now.as_nanos())).saturating_mul(limit);
                ahead.saturating_add(u128::from(remainder.min(self.remainder_max))).min(BACKLOG_MAX)
            }
        }
    }

    /// The tolerance and the backlog in 64 bits, if they fit. They nearly always do.
    #[inline]
    fn narrow(&self, state: PackedState, now: Timestamp) -> Option<NarrowBacklog> {
        let tolerance = self.narrow_tolerance?;
        let PackedView::Until(whole_ns, remainder) = state.view() else { return None };
        let Some(ahead) = whole_ns.checked_sub(now.as_nanos()) else {
            return Some(NarrowBacklog { tolerance, backlog: 0 });
        };
        // The arrival time is no further ahead than the tolerance allows, so the product is at most the tolerance.
        (u128::from(ahead) <= self.burst_span.whole_ns).then(|| NarrowBacklog {
            tolerance,
            backlog: ahead * self.limit() + remainder.min(self.remainder_max),
        })
    }

    /// max(TAT, t): the arrival time from which the next unit counts.
    #[inline]
    fn start(&self, state: PackedState, now: Timestamp) -> Arrival {
        let now = Arrival { whole_ns: u128::from(now.as_nanos()), remainder: 0 };
        match self.arrival(state) {
            Some(arrival) if arrival.whole_ns >= now.whole_ns => arrival,
            _ => now,
        }
    }

    /// `arrival + span`.
    #[inline]
    fn later(&self, arrival: Arrival, span: Arrival) -> Arrival {
        let sum = arrival.remainder + span.remainder;
        let carry = sum >= self.limit();
        Arrival {
            whole_ns: arrival.whole_ns + span.whole_ns + u128::from(carry),
            remainder: if carry { sum - self.limit() } else { sum },
        }
    }

    /// `arrival - span`. `None` if that is before the epoch.
    #[inline]
    fn earlier(&self, arrival: Arrival, span: Arrival) -> Option<Arrival> {
        let borrow = arrival.remainder < span.remainder;
        let whole_ns = arrival.whole_ns.checked_sub(span.whole_ns + u128::from(borrow))?;
        let remainder = if borrow {
            arrival.remainder + self.limit() - span.remainder
        } else {
            arrival.remainder - span.remainder
        };
        Some(Arrival { whole_ns, remainder })
    }

    /// Moves the arrival time back, but not before `now`.
    fn move_back(&self, state: &mut PackedState, span: Arrival, now: Timestamp) {
        let back = self.arrival(*state).and_then(|arrival| self.earlier(arrival, span));
        *state = match back {
            Some(arrival) if arrival.whole_ns >= u128::from(now.as_nanos()) => pack(arrival),
            _ => PackedState::NEVER_SEEN,
        };
    }

    /// c·W/L.
    #[inline]
    fn span_of(&self, cost: u64) -> Arrival {
        if cost == 1 { self.interval } else { split(u128::from(cost) * self.window(), self.limit()) }
    }
}

impl LimitAlgorithm for Gcra {
    type State = PackedState;

    #[inline]
    fn outcome_kind(&self, state: &PackedState, request: TimedCost) -> OutcomeKind {
        if let Some(NarrowBacklog { tolerance, backlog }) = self.narrow(*state, request.now) {
            let fits = |needed| backlog + needed <= tolerance;
            return OutcomeKind::from_fits(
                request.cost <= self.burst && fits(request.cost * self.rate.window_ns()),
            );
        }
        let needed = u128::from(request.cost) * self.window();
        OutcomeKind::from_fits(self.backlog(*state, request.now) + needed <= self.tolerance)
    }

    #[inline]
    fn charge(&self, state: &mut PackedState, request: TimedCost) {
        if self.limit() == 0 {
            return;
        }
        *state = pack(self.later(self.start(*state, request.now), self.span_of(request.cost)));
    }

    /// Moves the arrival time to B intervals ahead of now, where nothing is left. An arrival time that is already
    /// further ahead, after a larger burst or a later clock, stays.
    fn charge_over_limit(&self, state: &mut PackedState, request: TimedCost) {
        if self.limit() == 0 {
            return;
        }
        let now = Arrival { whole_ns: u128::from(request.now.as_nanos()), remainder: 0 };
        let empty = self.later(now, self.burst_span);
        if self.start(*state, request.now) <= empty {
            *state = pack(empty);
        }
    }

    fn refund(&self, state: &mut PackedState, request: TimedCost) {
        if self.limit() > 0 {
            self.move_back(state, self.span_of(request.cost), request.now);
        }
    }

    /// The arrival time continues from max(TAT, from). It may end beyond the burst, and before now: then it matters only to
    /// units that another node used in the same time. Forgetting it would let the bucket drain once for each node.
    fn count_since(&self, state: &mut PackedState, request: TimedCost, from: Timestamp) {
        if self.limit() == 0 {
            return;
        }
        *state = pack(self.later(self.start(*state, from.min(request.now)), self.span_of(request.cost)));
    }

    /// The arrival time from which the charge starts.
    fn counts_from(&self, state: &PackedState, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(u64::try_from(self.start(*state, now).whole_ns).unwrap_or(u64::MAX))
    }

    /// Without the charge the arrival time would have been at `from`. A bucket is full when its arrival time is in the
    /// past, and units that would flow in then are lost. So the units that flowed in since `from` may have been lost,
    /// whatever was charged later, and only the rest of the charge is given back. For a bucket without other charges
    /// this makes no difference. If several charges are refunded, each counts from the arrival time that the one before
    /// it left. If the earlier charge is refunded first, a refund may once give back too much, by at most what flowed
    /// in since.
    fn refund_charged(&self, state: &mut PackedState, request: TimedCost, from: Timestamp) {
        if self.limit() == 0 {
            return;
        }
        let passed_ns = request.now.as_nanos().saturating_sub(from.as_nanos());
        let passed = Arrival { whole_ns: u128::from(passed_ns), remainder: 0 };
        match self.earlier(self.span_of(request.cost), passed) {
            Some(left) if left > Arrival::ZERO => self.move_back(state, left, request.now),
            _ => {}
        }
    }

    #[inline]
    fn remaining(&self, state: &PackedState, now: Timestamp) -> u64 {
        if let Some(NarrowBacklog { tolerance, backlog }) = self.narrow(*state, now) {
            let (free, window_ns) = (tolerance.saturating_sub(backlog), self.rate.window_ns());
            // The usual case of a denial, without a division.
            return if free < window_ns { 0 } else { free / window_ns };
        }
        let free = self.tolerance.saturating_sub(self.backlog(*state, now));
        #[allow(clippy::cast_possible_truncation, reason = "at most the burst")]
        return (free / self.window()) as u64;
    }

    #[inline]
    fn wait(&self, state: &PackedState, request: TimedCost) -> Wait {
        if self.limit() == 0 {
            return if request.cost == 0 { Wait::NONE } else { Wait::NEVER };
        }
        if request.cost > self.burst {
            return Wait::NEVER;
        }
        if let Some(NarrowBacklog { tolerance, backlog }) = self.narrow(*state, request.now) {
            let excess = (backlog + request.cost * self.rate.window_ns()).saturating_sub(tolerance);
            return Wait::of(Nanos::new(u128::from(excess.div_ceil(self.limit()))));
        }
        // The instant at which the arrival time that the cost would leave is no longer too far ahead.
        let left = self.later(self.start(*state, request.now), self.span_of(request.cost));
        let fits = self.earlier(left, self.burst_span);
        Wait::of(fits.map_or(Nanos::ZERO, |fits| Nanos::between(request.now, fits.ceil())))
    }

    #[inline]
    fn reset_after(&self, state: &PackedState, now: Timestamp) -> Nanos {
        match self.arrival(*state) {
            Some(arrival) => Nanos::between(now, arrival.ceil()),
            None => Nanos::ZERO,
        }
    }
}

impl Arrival {
    const ZERO: Self = Self { whole_ns: 0, remainder: 0 };

    /// The first whole nanosecond that is not before the arrival.
    #[inline]
    fn ceil(self) -> u128 {
        self.whole_ns + u128::from(self.remainder > 0)
    }
}

/// `amount / limit` as quotient and remainder. Uses the 64-bit division if it fits.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "a remainder below the divisor")]
fn split(amount: u128, limit: u64) -> Arrival {
    match u64::try_from(amount) {
        Ok(amount) => Arrival { whole_ns: u128::from(amount / limit), remainder: amount % limit },
        Err(_) => {
            Arrival { whole_ns: amount / u128::from(limit), remainder: (amount % u128::from(limit)) as u64 }
        }
    }
}

#[inline]
fn pack(Arrival { whole_ns, remainder }: Arrival) -> PackedState {
    match u64::try_from(whole_ns) {
        Ok(whole_ns) => PackedState::until(whole_ns, remainder),
        Err(_) => pack_late(whole_ns, remainder),
    }
}

/// Packs an arrival time that does not fit `u64`: near the end of time, or with a burst that takes centuries to come
/// back. Whole nanoseconds and remainder share 121 bits. The width of the remainder is stored beside them, because L
/// may change.
///
/// They fit: an admitted arrival is below 2^64 + 2^40·W/L and the remainder is below L, so together they need at most
/// 64 + 40 or 100 bits, plus or minus one.
#[cold]
fn pack_late(whole_ns: u128, remainder: u64) -> PackedState {
    let width = u64::BITS - remainder.leading_zeros();
    let whole_ns = whole_ns.min((1 << (REMAINDER_WIDTH_SHIFT - width)) - 1);
    PackedState::outlasting(
        u128::from(width) << REMAINDER_WIDTH_SHIFT | whole_ns << width | u128::from(remainder),
    )
}

#[cold]
#[allow(clippy::cast_possible_truncation, reason = "truncation picks the bits of the layout")]
fn unpack_late(detail: u128) -> (u128, u64) {
    let width = (detail >> REMAINDER_WIDTH_SHIFT) as u32;
    let rest = detail & ((1 << REMAINDER_WIDTH_SHIFT) - 1);
    (rest >> width, (rest & ((1 << width) - 1)) as u64)
}
