//! A copy of one key's shared count, with the units that this node used and has not pushed yet.
//!
//! Pure: time is handed in. The copy is the state that the store reported last, with the units that this node has used
//! since. A decision runs the limit's own algorithm on it. A push adds the node's units to the shared count, and its
//! reply replaces the copy. So between two pushes a node misses only what other nodes used meanwhile, and whatever
//! exceeds the limit by that is in the shared count afterwards: buckets have a debt, a fixed window carries what is over
//! into the next one, and a sliding window weighs it.
//!
//! All instants of the copy are by the store's clock, which is estimated from the replies, and never ahead of it.

use tidegate_core::algorithm::{Edges, Gcra, LimitAlgorithm, PackedAlgorithm};
use tidegate_core::{Carry, ChargeDecision, Nanos, Outcome, OutcomeKind, PackedState, TimedCost, Timestamp};

/// How many grants are kept apart until a reply has them.
const GRANTED_MAX: usize = 32;

/// The copy of a key's shared count.
#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    state: PackedState,
    /// Own units that were not pushed yet.
    pending: Option<PendingUnits>,
    /// Own units whose push is under way.
    in_flight: Option<InFlight>,
    /// Units that the store granted when it was asked strictly, until a reply has them.
    granted: Vec<Granted>,
    /// The end of the window of `state`, by the store's clock. Fixed windows only.
    window_end: Option<Timestamp>,
    /// What the window carries over from the one before. Fixed windows only.
    carried: Option<Carried>,
    /// The store's clock minus this node's, in nanoseconds.
    clock_offset_ns: i64,
    /// The last reply. Until there is one, the offset is that of another key, whose server may have another clock.
    last_pull: Option<LastPull>,
}

/// Own units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingUnits {
    pub units: u64,
    /// When they were used, by this node's clock, as if at once. A push says how long ago that was, so that no clock is
    /// compared.
    pub used_at: Timestamp,
    /// When the first of them was used.
    pub first_at: Timestamp,
}

/// A push that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InFlight {
    units: PendingUnits,
    sent: Timestamp,
}

/// Units that the store granted to this node when it was asked strictly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub units: u64,
    /// When the store granted them, by its own clock.
    pub at: Timestamp,
    /// When it was asked and when this node learned of it, by this node's clock.
    pub asked: Timestamp,
    pub noted: Timestamp,
}

/// When the last reply to a push was made: by the store's clock, and when it was asked for and arrived, by this node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastPull {
    at: Timestamp,
    sent: Timestamp,
    answered: Timestamp,
}

/// Units from the window before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Carried {
    units: u64,
    /// The end of the window that they count in.
    window_end: Timestamp,
}

/// What the store replied to a push.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulled {
    pub state: PackedState,
    /// By the store's clock.
    pub at: Timestamp,
    /// When the push was sent and answered, by this node's clock.
    pub sent: Timestamp,
    pub answered: Timestamp,
}

impl Replica {
    /// A copy of which nothing is known yet, with the clock of another key of the same store.
    pub fn new(clock_offset_ns: i64) -> Self {
        Self { clock_offset_ns, ..Self::default() }
    }

    /// The store's time.
    pub fn store_time(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(now.as_nanos().saturating_add_signed(self.clock_offset_ns))
    }

    /// How old the copy is, counted from when the push was sent that returned it. None if there was none.
    pub fn age_ns(&self, now: Timestamp) -> Option<u64> {
        self.last_pull.map(|pull| now.as_nanos().saturating_sub(pull.sent.as_nanos()))
    }

    pub fn clock_offset_ns(&self) -> i64 {
        self.clock_offset_ns
    }

    /// Decides a charge, and charges it if it is allowed.
    pub fn decide(
        &mut self,
        algorithm: &PackedAlgorithm,
        carry: Carry,
        cost: u64,
        now: Timestamp,
    ) -> Outcome {
        let at = self.store_time(now);
        self.end_window(algorithm, carry, at);
        let request = TimedCost { now: at, cost };
        let charge_decision = ChargeDecision::of_one(algorithm.outcome_kind(&self.state, request));
        if charge_decision.outcome == OutcomeKind::Allowed && cost > 0 {
            algorithm.charge(&mut self.state, request);
            self.note_window_end(algorithm, at);
            self.add_pending(algorithm, PendingUnits::new(cost, now));
        }
        algorithm.outcome(&self.state, request, charge_decision)
    }

    /// What `decide` would answer, without charging.
    pub fn preview(&self, algorithm: &PackedAlgorithm, carry: Carry, cost: u64, now: Timestamp) -> Outcome {
        self.clone().decide(algorithm, carry, cost, now)
    }

    /// Whether the window pays for units of the window before. The store does not know that.
    pub fn pays(&self, algorithm: &PackedAlgorithm, carry: Carry, now: Timestamp) -> bool {
        let mut copy = self.clone();
        copy.end_window(algorithm, carry, self.store_time(now));
        copy.carried.is_some()
    }

    /// Adds units that the store granted, unless the last reply has them. Returns whether they may count twice now: if the
    /// store granted them at the instant of that reply, by its clock. The next reply corrects that.
    pub fn add_granted(&mut self, algorithm: &PackedAlgorithm, carry: Carry, granted: Granted) -> bool {
        let Granted { units, at, asked, .. } = granted;
        // The store's clock tells only while both were under way: it may be set back.
        let pull = self.last_pull.filter(|pull| asked < pull.answered);
        if pull.is_some_and(|pull| at < pull.at) {
            return false;
        }
        self.end_window(algorithm, carry, at);
        algorithm.count_since(&mut self.state, TimedCost { now: at, cost: units }, at);
        self.note_window_end(algorithm, at);
        let is_full = self.granted.len() >= GRANTED_MAX;
        match self.granted.last_mut().filter(|_| is_full) {
            // A reply has all of them or counts them again, which is on the safe side.
            Some(last) => {
                last.units = last.units.saturating_add(units);
                (last.at, last.noted) = (last.at.max(at), granted.noted);
            }
            None => self.granted.push(granted),
        }
        pull.is_some()
    }

    /// Takes back units that were charged at `charged`, by the store's clock. Returns false if they were pushed already.
    pub fn refund(
        &mut self,
        algorithm: &PackedAlgorithm,
        cost: u64,
        charged: Timestamp,
        now: Timestamp,
    ) -> bool {
        let request = TimedCost { now: self.store_time(now), cost };
        let first_at = self.pending.map(|pending| self.store_time(pending.first_at));
        let Some(pending) = self.pending.as_mut().filter(|_| first_at.is_some_and(|first| first <= charged))
        else {
            return false;
        };
        let Some(left) = pending.units.checked_sub(units_to_refund(algorithm, request, charged)) else {
            return false;
        };
        pending.units = left;
        if left == 0 {
            self.pending = None;
        }
        algorithm.refund_charged(&mut self.state, request, charged);
        true
    }

    /// Whether the next window has to pay for units beyond the limit of this one. The store does not know that.
    pub fn carries_over(&self, algorithm: &PackedAlgorithm, now: Timestamp) -> bool {
        let (PackedAlgorithm::FixedWindow(window), Some(end)) = (algorithm, self.window_end) else {
            return false;
        };
        let last = Timestamp::from_nanos(end.as_nanos().saturating_sub(1));
        let next_end = end.saturating_add(Nanos::new(window.rate().window_ns().into()));
        self.store_time(now) < next_end && (self.carried.is_some() || window.over(&self.state, last) > 0)
    }

    /// The end of a fixed window, by this node's clock.
    pub fn window_end(&self, now: Timestamp) -> Option<Timestamp> {
        let left_ns = self.window_end?.as_nanos().saturating_sub(self.store_time(now).as_nanos());
        Some(now.saturating_add(Nanos::new(left_ns.into())))
    }

    /// Own units that the store does not know yet.
    pub fn units_pending(&self) -> u64 {
        let in_flight = self.in_flight.map(|in_flight| in_flight.units);
        [self.pending, in_flight].iter().flatten().map(|units| units.units).sum()
    }

    /// Own units that wait for the next push.
    pub fn units_unsent(&self) -> u64 {
        self.pending.map_or(0, |pending| pending.units)
    }

    /// Units beyond the limit.
    pub fn debt(&self, algorithm: &PackedAlgorithm, now: Timestamp) -> u64 {
        let at = self.store_time(now);
        match algorithm {
            PackedAlgorithm::FixedWindow(window) => window.over(&self.state, at),
            _ => bucket_of(algorithm).map_or(0, |gcra| bucket_debt(gcra, &self.state, at)),
        }
    }

    pub fn is_push_under_way(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Starts a push. Returns the units to push, possibly none, to learn the shared count.
    pub fn start_push(&mut self, algorithm: &PackedAlgorithm, carry: Carry, now: Timestamp) -> PendingUnits {
        let at = self.store_time(now);
        self.end_window(algorithm, carry, at);
        let pushed = self.pending.take().unwrap_or(PendingUnits::new(0, now));
        self.in_flight = Some(InFlight { units: pushed, sent: now });
        pushed
    }

    /// Whether the push that was sent then is still under way. It is not if the copy was made after a reset.
    pub fn has_sent(&self, sent: Timestamp) -> bool {
        self.in_flight.is_some_and(|in_flight| in_flight.sent == sent)
    }

    /// Ends a push that the store has answered.
    pub fn finish_push(&mut self, algorithm: &PackedAlgorithm, carry: Carry, pulled: Pulled) {
        self.in_flight = None;
        let Pulled { at, sent, answered, .. } = pulled;
        let known_before = self.last_pull.replace(LastPull { at, sent, answered });
        // As if the reply had taken no time: then the estimate is never ahead of the store's clock, and never admits what
        // would fit only a moment later.
        let ahead_ns = i128::from(pulled.at.as_nanos()) - i128::from(pulled.answered.as_nanos());
        self.clock_offset_ns = i64::try_from(ahead_ns).unwrap_or(0);
        if known_before.is_none() {
            (self.window_end, self.carried) = (None, None);
        }
        let at = self.store_time(pulled.answered);
        // A reply from before the end of the window has its last count. A later one has no count of it any more.
        if self.window_end.is_some_and(|end| end <= pulled.at) {
            self.end_window(algorithm, carry, at.max(pulled.at));
        }
        self.state = pulled.state;
        for PendingUnits { units, used_at, .. } in self.pending.iter().copied() {
            let from = self.store_time(used_at);
            algorithm.count_since(&mut self.state, TimedCost { now: at.max(from), cost: units }, from);
        }
        // A reply that was overtaken lacks what the store granted later.
        self.granted.retain(|granted| pulled.sent < granted.noted && pulled.at <= granted.at);
        for Granted { units, at, .. } in self.granted.iter().copied() {
            algorithm.count_since(&mut self.state, TimedCost { now: at, cost: units }, at);
        }
        if let Some(Carried { units, window_end }) = self.carried
            && pulled.at < window_end
        {
            algorithm.count_since(&mut self.state, TimedCost { now: pulled.at, cost: units }, pulled.at);
        }
        self.note_window_end(algorithm, pulled.at);
    }

    /// Ends a push that failed. Its units are pushed again. If the store has counted them nevertheless, they count twice:
    /// that is on the safe side, and passes with time.
    pub fn fail_push(&mut self, algorithm: &PackedAlgorithm) {
        if let Some(pushed) = self.in_flight.take().map(|in_flight| in_flight.units)
            && pushed.units > 0
        {
            self.add_pending(algorithm, pushed);
        }
    }

    fn add_pending(&mut self, algorithm: &PackedAlgorithm, added: PendingUnits) {
        self.pending = Some(match self.pending {
            Some(pending) if pending.used_at <= added.used_at => pending.then(algorithm, added),
            Some(pending) => added.then(algorithm, pending),
            None => added,
        });
    }

    /// Ends a fixed window that is over: what is over the limit counts in the next window, up to the limit, and what was
    /// not pushed does not count any more.
    fn end_window(&mut self, algorithm: &PackedAlgorithm, carry: Carry, at: Timestamp) {
        let PackedAlgorithm::FixedWindow(window) = algorithm else { return };
        // Without the store's clock, the end of the window is not known.
        let Some(end) = self.window_end.filter(|end| *end <= at && self.last_pull.is_some()) else { return };
        let last = Timestamp::from_nanos(end.as_nanos().saturating_sub(1));
        let over = window.over(&self.state, last).min(window.rate().limit());
        self.state = PackedState::NEVER_SEEN;
        (self.window_end, self.carried, self.pending) = (None, None, None);
        // A push of this window that fails is not repeated in the next one.
        if let Some(InFlight { units, .. }) = &mut self.in_flight {
            units.units = 0;
        }
        // A window in between that was not used has paid for it.
        let next_end = end.saturating_add(Nanos::new(window.rate().window_ns().into()));
        if over > 0 && carry == Carry::On && at < next_end {
            algorithm.charge(&mut self.state, TimedCost { now: at, cost: over });
            self.note_window_end(algorithm, at);
            self.carried = self.window_end.map(|window_end| Carried { units: over, window_end });
        }
    }

    fn note_window_end(&mut self, algorithm: &PackedAlgorithm, at: Timestamp) {
        if let PackedAlgorithm::FixedWindow(window) = algorithm {
            let left = window.reset_after(&self.state, at);
            self.window_end = (left > Nanos::ZERO).then(|| at.saturating_add(left));
        }
    }
}

impl PendingUnits {
    fn new(units: u64, used_at: Timestamp) -> Self {
        Self { units, used_at, first_at: used_at }
    }

    /// These units and later ones.
    ///
    /// Units of a window all count in the window of the last one, so that none is forgotten. If that window begins with the
    /// first request, it begins with the first of them. A bucket drains from the
    /// first one on, but not while it is empty. Its arrival time after n units at s is max(s0, s) + n I, for s0 before
    /// and I = W / L. After c more at t it is max(max(s0, s) + n I, t) + c I = max(s0, max(s, t - n I)) + (n + c) I. So
    /// all of them count as if used at max(s, t - n I).
    fn then(self, algorithm: &PackedAlgorithm, later: Self) -> Self {
        let before_later = |span_ns: u128| {
            let span_ns = u64::try_from(span_ns).unwrap_or(u64::MAX);
            Timestamp::from_nanos(later.used_at.as_nanos().saturating_sub(span_ns))
        };
        let used_at = match (bucket_of(algorithm), algorithm) {
            // Rounded down, so the units count for a nanosecond longer at most.
            (Some(gcra), _) => self.used_at.max(before_later(units_span_ns(gcra, self.units))),
            (None, PackedAlgorithm::FixedWindow(window))
                if *window.edges() == Edges::FirstHit
                    && self.used_at > before_later(window.rate().window_ns().into()) =>
            {
                self.used_at
            }
            _ => later.used_at,
        };
        Self { units: self.units.saturating_add(later.units), used_at, first_at: self.first_at }
    }
}

/// How many units are given back. What has flowed into a bucket since the charge is not: other units have taken its place.
fn units_to_refund(algorithm: &PackedAlgorithm, request: TimedCost, charged: Timestamp) -> u64 {
    let Some(gcra) = bucket_of(algorithm) else { return request.cost };
    let passed_ns = request.now.as_nanos().saturating_sub(charged.as_nanos());
    let left_ns = units_span_ns(gcra, request.cost).saturating_sub(passed_ns.into());
    units_in_ns(gcra, left_ns).min(request.cost)
}

fn bucket_of(algorithm: &PackedAlgorithm) -> Option<&Gcra> {
    match algorithm {
        PackedAlgorithm::Gcra(gcra) => Some(gcra),
        PackedAlgorithm::TokenBucket(bucket) => Some(bucket.as_gcra()),
        _ => None,
    }
}

/// The time in which units flow into a bucket, rounded down.
fn units_span_ns(gcra: &Gcra, units: u64) -> u128 {
    u128::from(units) * u128::from(gcra.rate().window_ns()) / u128::from(gcra.rate().limit().max(1))
}

/// The units that flow into a bucket in this time, rounded down.
fn units_in_ns(gcra: &Gcra, span_ns: u128) -> u64 {
    let units = span_ns.saturating_mul(u128::from(gcra.rate().limit())) / u128::from(gcra.rate().window_ns());
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// Units by which the arrival time is further ahead than the burst allows.
fn bucket_debt(gcra: &Gcra, state: &PackedState, at: Timestamp) -> u64 {
    let ahead_ns = gcra.reset_after(state, at).get().saturating_sub(gcra.burst_span().whole_ns);
    units_in_ns(gcra, ahead_ns)
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Algorithm, Limit};

    use super::*;

    /// Hits of a window that is over are not charged to the next one.
    #[test]
    fn units_of_a_failed_push_end_with_their_window() {
        let limit: Limit = "{algorithm: fixed_window, limit: 10, per: 1s}".parse().unwrap();
        let Algorithm::Packed(algorithm) = limit.algorithm() else { panic!("it is packed") };
        let at = |ms: u64| Timestamp::from_nanos(10_000_000_000 + ms * 1_000_000);
        let mut replica = Replica::new(0);
        replica.start_push(algorithm, Carry::On, at(100));
        let state = PackedState::NEVER_SEEN;
        replica.finish_push(
            algorithm,
            Carry::On,
            Pulled { state, at: at(101), sent: at(100), answered: at(101) },
        );
        assert_eq!(replica.decide(algorithm, Carry::On, 3, at(900)).kind, OutcomeKind::Allowed);
        assert_eq!(replica.start_push(algorithm, Carry::On, at(950)).units, 3);
        assert_eq!(replica.decide(algorithm, Carry::On, 2, at(1_020)).kind, OutcomeKind::Allowed);
        replica.fail_push(algorithm);
        assert_eq!(replica.units_unsent(), 2);
        assert_eq!(replica.preview(algorithm, Carry::On, 0, at(1_030)).remaining, 8);
    }
}
