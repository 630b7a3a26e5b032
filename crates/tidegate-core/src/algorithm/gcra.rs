//! Generic cell rate algorithm: one arrival time instead of a level and a clock.
//!
//! From ATM traffic policing (ITU-T I.371, "virtual scheduling"). Every unit pushes the key's theoretical
//! arrival time (TAT) one interval W/L further; a request fits while the TAT it would leave is no more than
//! B intervals ahead of now. A key that rests falls behind now and holds B units again, never more.
//!
//! *Worst case:* B + L·τ/W units in any span τ. *State:* 16 bytes.
//!
//! W/L is rarely a whole number of nanoseconds, so the TAT is kept as whole nanoseconds plus a remainder over
//! L, and decisions compare in units of 1/L ns, where everything is an integer:
//!
//! ```text
//! backlog = max(TAT - t, 0) * L       fits iff backlog + c*W <= B*W
//! ```
//!
//! When L changes, the whole nanoseconds stay and with them the share that is used; what the fraction of one
//! nanosecond means changes with L.

use super::LimitAlgorithm;
use crate::packed::PackedView;
use crate::rate::UNITS_MAX;
use crate::{TimedCost, Nanos, PackedState, Rate, Timestamp, OutcomeKind, Wait};

/// L per W, burst B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gcra {
    rate: Rate,
    burst: u64,
    /// B·W, in 1/L ns: how far the arrival time may run ahead.
    tolerance: u128,
    /// The same where it is small enough that a decision can be made in 64 bits, which is half the work.
    narrow_tolerance: Option<u64>,
    /// B·W/L: the same in nanoseconds.
    burst_span: Arrival,
    /// The largest remainder over L.
    remainder_max: u64,
    /// W/L, worked out once because nearly every cost is one.
    interval: Arrival,
}

/// How far the arrival time may be ahead, and how far it is, in 1/L ns.
struct NarrowBacklog {
    tolerance: u64,
    backlog: u64,
}

/// An arrival time, in nanoseconds since the epoch, or a distance between two: `whole + part/L` nanoseconds, `part < L`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Whole nanoseconds.
    pub whole_ns: u128,
    /// What is left of one, in 1/L.
    pub remainder: u64,
}

/// Tolerances up to here leave room to add a backlog and a cost of their size.
const NARROW_MAX: u64 = 1 << 62;
/// More than any tolerance, and little enough to add any cost to.
const BACKLOG_MAX: u128 = 1 << 126;
/// Bits of [`View::Outlasting`] that say how many of the others are the remainder.
const REMAINDER_WIDTH_SHIFT: u32 = 121;

impl Gcra {
    /// `burst` may be one more than a limit can be: a queue of Q is a burst of Q + 1.
    pub(crate) fn new(rate: Rate, burst: u64) -> Self {
        // A limit of zero tolerates nothing, whatever its burst, and then needs no case of its own.
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

    /// The most that fits at once.
    #[inline]
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// c·W/L: how far a cost moves the arrival time. Of a limit of zero, as if it was one.
    #[inline]
    pub fn span(&self, cost: u64) -> Arrival {
        if self.limit() == 0 { split(u128::from(cost) * self.window(), 1) } else { self.span_of(cost) }
    }

    /// B·W/L: how far the arrival time may be ahead of now. A limit of zero lets it be nowhere.
    #[inline]
    pub fn burst_span(&self) -> Arrival {
        self.burst_span
    }

    /// The state of a key with this arrival time, whatever L its part is over; none if that is no part of any.
    #[inline]
    pub fn state(&self, arrival: Arrival) -> Option<PackedState> {
        (arrival.remainder < UNITS_MAX).then(|| pack(arrival))
    }

    /// How long the newest unit has to wait for its turn if units leave one interval apart.
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

    /// The arrival time in `state`; none if the key was never seen.
    #[inline]
    fn arrival(&self, state: PackedState) -> Option<Arrival> {
        if state == PackedState::NEVER_SEEN {
            return None;
        }
        let (whole, part) = match state.view() {
            PackedView::Until(whole, part) => (u128::from(whole), part),
            PackedView::Outlasting(detail) => unpack_late(detail),
        };
        // A remainder kept under a larger L is still less than one nanosecond.
        Some(Arrival { whole_ns: whole, remainder: part.min(self.remainder_max) })
    }

    /// How far the arrival time is ahead of `now`, in 1/L ns.
    #[inline]
    fn backlog(&self, state: PackedState, now: Timestamp) -> u128 {
        let limit = u128::from(self.limit());
        match state.view() {
            // The common case, in which nothing can overflow.
            PackedView::Until(whole, part) => match whole.checked_sub(now.as_nanos()) {
                Some(ahead) => u128::from(ahead) * limit + u128::from(part.min(self.remainder_max)),
                None => 0,
            },
            PackedView::Outlasting(detail) => {
                let (whole, part) = unpack_late(detail);
                let ahead = whole.saturating_sub(u128::from(now.as_nanos())).saturating_mul(limit);
                ahead.saturating_add(u128::from(part.min(self.remainder_max))).min(BACKLOG_MAX)
            }
        }
    }

    /// The tolerance and the backlog in 64 bits, if they fit: nearly always.
    #[inline]
    fn narrow(&self, state: PackedState, now: Timestamp) -> Option<NarrowBacklog> {
        let tolerance = self.narrow_tolerance?;
        let PackedView::Until(whole, part) = state.view() else { return None };
        let Some(ahead) = whole.checked_sub(now.as_nanos()) else {
            return Some(NarrowBacklog { tolerance, backlog: 0 });
        };
        // No further ahead than the tolerance reaches, so the product is no larger than it.
        (u128::from(ahead) <= self.burst_span.whole_ns)
            .then(|| NarrowBacklog { tolerance, backlog: ahead * self.limit() + part.min(self.remainder_max) })
    }

    /// max(TAT, t): where the next unit starts from.
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
        let parts = arrival.remainder + span.remainder;
        let carry = parts >= self.limit();
        Arrival {
            whole_ns: arrival.whole_ns + span.whole_ns + u128::from(carry),
            remainder: if carry { parts - self.limit() } else { parts },
        }
    }

    /// `arrival - span`; none if that is before the epoch.
    #[inline]
    fn earlier(&self, arrival: Arrival, span: Arrival) -> Option<Arrival> {
        let borrow = arrival.remainder < span.remainder;
        let whole = arrival.whole_ns.checked_sub(span.whole_ns + u128::from(borrow))?;
        let part = if borrow { arrival.remainder + self.limit() - span.remainder } else { arrival.remainder - span.remainder };
        Some(Arrival { whole_ns: whole, remainder: part })
    }

    /// Takes the arrival time back, but not behind `now`.
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
    fn outcome_kind(&self, state: &PackedState, ask: TimedCost) -> OutcomeKind {
        if let Some(NarrowBacklog { tolerance, backlog }) = self.narrow(*state, ask.now) {
            let fits = |needed| backlog + needed <= tolerance;
            return OutcomeKind::from_fits(ask.cost <= self.burst && fits(ask.cost * self.rate.window_ns()));
        }
        let needed = u128::from(ask.cost) * self.window();
        OutcomeKind::from_fits(self.backlog(*state, ask.now) + needed <= self.tolerance)
    }

    #[inline]
    fn charge(&self, state: &mut PackedState, ask: TimedCost) {
        if self.limit() == 0 {
            return;
        }
        *state = pack(self.later(self.start(*state, ask.now), self.span_of(ask.cost)));
    }

    /// The arrival time ends B intervals ahead of now, where nothing is left. One that is further ahead already, since
    /// a larger burst or a later clock, stays as it is.
    fn charge_over_limit(&self, state: &mut PackedState, ask: TimedCost) {
        if self.limit() == 0 {
            return;
        }
        let now = Arrival { whole_ns: u128::from(ask.now.as_nanos()), remainder: 0 };
        let empty = self.later(now, self.burst_span);
        if self.start(*state, ask.now) <= empty {
            *state = pack(empty);
        }
    }

    fn refund(&self, state: &mut PackedState, ask: TimedCost) {
        if self.limit() > 0 {
            self.move_back(state, self.span_of(ask.cost), ask.now);
        }
    }

    /// Where the arrival time begins to move.
    fn counts_from(&self, state: &PackedState, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(u64::try_from(self.start(*state, now).whole_ns).unwrap_or(u64::MAX))
    }

    /// Without the charge the arrival time would have been at `from`. A bucket whose arrival time is over is full, and
    /// what would flow into it then is lost. So what has passed since `from` may have been lost, whoever came after it,
    /// and only the rest of the charge is given back. Of a bucket that nobody else used that makes no difference. Of
    /// several charges that are to be given back, each counts from where the one before it left the arrival time: if the
    /// earlier one goes first, up to what has passed since may be given back too much, once.
    fn refund_charged(&self, state: &mut PackedState, ask: TimedCost, from: Timestamp) {
        if self.limit() == 0 {
            return;
        }
        let passed_ns = ask.now.as_nanos().saturating_sub(from.as_nanos());
        let passed = Arrival { whole_ns: u128::from(passed_ns), remainder: 0 };
        match self.earlier(self.span_of(ask.cost), passed) {
            Some(left) if left > Arrival::ZERO => self.move_back(state, left, ask.now),
            _ => {}
        }
    }

    #[inline]
    fn remaining(&self, state: &PackedState, now: Timestamp) -> u64 {
        if let Some(NarrowBacklog { tolerance, backlog }) = self.narrow(*state, now) {
            return tolerance.saturating_sub(backlog) / self.rate.window_ns();
        }
        let free = self.tolerance.saturating_sub(self.backlog(*state, now));
        #[allow(clippy::cast_possible_truncation, reason = "at most the burst")]
        return (free / self.window()) as u64;
    }

    #[inline]
    fn wait(&self, state: &PackedState, ask: TimedCost) -> Wait {
        if self.limit() == 0 {
            return if ask.cost == 0 { Wait::NONE } else { Wait::NEVER };
        }
        if ask.cost > self.burst {
            return Wait::NEVER;
        }
        if let Some(NarrowBacklog { tolerance, backlog }) = self.narrow(*state, ask.now) {
            let excess = (backlog + ask.cost * self.rate.window_ns()).saturating_sub(tolerance);
            return Wait::of(Nanos::new(u128::from(excess.div_ceil(self.limit()))));
        }
        // When the arrival time that the cost would leave is no longer too far ahead.
        let left = self.later(self.start(*state, ask.now), self.span_of(ask.cost));
        let fits = self.earlier(left, self.burst_span);
        Wait::of(fits.map_or(Nanos::ZERO, |fits| Nanos::between(ask.now, fits.ceil())))
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

    /// The first whole nanosecond that is not before it.
    #[inline]
    fn ceil(self) -> u128 {
        self.whole_ns + u128::from(self.remainder > 0)
    }
}

/// `amount / limit` as a whole and a remainder, by the narrow division where it will do.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "a remainder below the divisor")]
fn split(amount: u128, limit: u64) -> Arrival {
    match u64::try_from(amount) {
        Ok(amount) => Arrival { whole_ns: u128::from(amount / limit), remainder: amount % limit },
        Err(_) => Arrival { whole_ns: amount / u128::from(limit), remainder: (amount % u128::from(limit)) as u64 },
    }
}

#[inline]
fn pack(Arrival { whole_ns: whole, remainder: part }: Arrival) -> PackedState {
    match u64::try_from(whole) {
        Ok(whole) => PackedState::until(whole, part),
        Err(_) => pack_late(whole, part),
    }
}

/// An arrival past the end of `u64`: near the end of time, or with a burst that takes centuries to come back.
/// Whole and remainder share 121 bits; how they do is written beside them, for L may change.
///
/// They fit: an admitted arrival is below 2^64 + 2^40·W/L, the remainder below L, so both together take no
/// more than 64 + 40 or 100 bits, give or take one.
#[cold]
fn pack_late(whole: u128, part: u64) -> PackedState {
    let width = u64::BITS - part.leading_zeros();
    let whole = whole.min((1 << (REMAINDER_WIDTH_SHIFT - width)) - 1);
    PackedState::outlasting(u128::from(width) << REMAINDER_WIDTH_SHIFT | whole << width | u128::from(part))
}

#[cold]
#[allow(clippy::cast_possible_truncation, reason = "the cuts are the layout")]
fn unpack_late(detail: u128) -> (u128, u64) {
    let width = (detail >> REMAINDER_WIDTH_SHIFT) as u32;
    let rest = detail & ((1 << REMAINDER_WIDTH_SHIFT) - 1);
    (rest >> width, (rest & ((1 << width) - 1)) as u64)
}
