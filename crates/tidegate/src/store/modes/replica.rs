//! A copy of one key's shared count, with the units that this node used and has not pushed yet.
//!
//! Pure: time is handed in. The copy is the state that the store reported last, with the units that this node has used
//! since. A decision runs the limit's own algorithm on it. A push adds the node's units to the shared count, and its
//! reply replaces the copy. So between two pushes a node misses only what other nodes used meanwhile, and whatever
//! exceeds the limit by that is in the shared count afterwards: buckets have a debt, a fixed window carries what is over
//! into the next one, and a sliding window weighs it.
//!
//! All instants of the copy are by the store's clock, which is estimated from the replies, and never ahead of it.

use tidegate_core::algorithm::{Gcra, LimitAlgorithm, PackedAlgorithm};
use tidegate_core::{Carry, ChargeDecision, Nanos, Outcome, OutcomeKind, PackedState, TimedCost, Timestamp};

/// The copy of a key's shared count.
#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    state: PackedState,
    /// Own units that were not pushed yet.
    pending: Option<PendingUnits>,
    /// Own units whose push is under way.
    in_flight: Option<PendingUnits>,
    /// Units that the store granted when it was asked strictly, until a later reply has them.
    granted: Option<Granted>,
    /// The end of the window of `state`, by the store's clock. Fixed windows only.
    window_end: Option<Timestamp>,
    /// What the window carries over from the one before. Fixed windows only.
    carried: Option<Carried>,
    /// The store's clock minus this node's, in nanoseconds.
    clock_offset_ns: i64,
    /// When the push was sent that the last reply answers, by this node's clock. Until there is one, the offset is that
    /// of another key, whose server may have another clock.
    pulled_at: Option<Timestamp>,
}

/// Own units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingUnits {
    pub units: u64,
    /// When they were used, by this node's clock. A push says how long ago that was, so that no clock is compared.
    pub used_at: Timestamp,
}

/// Units that the store granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Granted {
    units: u64,
    /// When it granted the last of them, by its own clock.
    at: Timestamp,
    /// When this node learned of it, by this node's clock. A push that is sent later finds the units counted.
    noted_at: Timestamp,
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
        self.pulled_at.map(|pulled_at| now.as_nanos().saturating_sub(pulled_at.as_nanos()))
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
            self.add_pending(algorithm, PendingUnits { units: cost, used_at: now });
        }
        algorithm.outcome(&self.state, request, charge_decision)
    }

    /// What `decide` would answer, without charging.
    pub fn preview(&self, algorithm: &PackedAlgorithm, carry: Carry, cost: u64, now: Timestamp) -> Outcome {
        self.clone().decide(algorithm, carry, cost, now)
    }

    /// Adds units that the store granted to this node at `at`, by its own clock, when it was asked strictly. If a reply has
    /// brought them already, they count twice here until the next one.
    pub fn add_granted(
        &mut self,
        algorithm: &PackedAlgorithm,
        carry: Carry,
        units: u64,
        at: Timestamp,
        now: Timestamp,
    ) {
        self.end_window(algorithm, carry, at);
        algorithm.count_since(&mut self.state, TimedCost { now: at, cost: units }, at);
        self.note_window_end(algorithm, at);
        let before = self.granted.map_or(0, |granted| granted.units);
        self.granted = Some(Granted { units: before.saturating_add(units), at, noted_at: now });
    }

    /// Takes back units that were charged at `charged`, by the store's clock. Returns false if they were pushed already.
    pub fn refund(
        &mut self,
        algorithm: &PackedAlgorithm,
        cost: u64,
        charged: Timestamp,
        now: Timestamp,
    ) -> bool {
        let Some(pending) = &mut self.pending else { return false };
        let Some(left) = pending.units.checked_sub(cost) else { return false };
        pending.units = left;
        if left == 0 {
            self.pending = None;
        }
        let request = TimedCost { now: self.store_time(now), cost };
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
        [self.pending, self.in_flight].iter().flatten().map(|units| units.units).sum()
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
            PackedAlgorithm::Gcra(gcra) => bucket_debt(gcra, &self.state, at),
            PackedAlgorithm::TokenBucket(bucket) => bucket_debt(bucket.as_gcra(), &self.state, at),
            _ => 0,
        }
    }

    pub fn is_push_under_way(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Starts a push. Returns the units to push, possibly none, to learn the shared count.
    pub fn start_push(&mut self, algorithm: &PackedAlgorithm, carry: Carry, now: Timestamp) -> PendingUnits {
        let at = self.store_time(now);
        self.end_window(algorithm, carry, at);
        let pushed = self.pending.take().unwrap_or(PendingUnits { units: 0, used_at: now });
        self.in_flight = Some(pushed);
        pushed
    }

    /// Ends a push that the store has answered.
    pub fn finish_push(&mut self, algorithm: &PackedAlgorithm, carry: Carry, pulled: Pulled) {
        self.in_flight = None;
        let known_before = self.pulled_at.replace(pulled.sent);
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
        for PendingUnits { units, used_at } in self.pending.iter().copied() {
            let from = self.store_time(used_at);
            algorithm.count_since(&mut self.state, TimedCost { now: at.max(from), cost: units }, from);
        }
        // A reply that was overtaken lacks what the store granted later.
        let is_overtaken = |granted: &Granted| pulled.sent < granted.noted_at && pulled.at < granted.at;
        self.granted = self.granted.filter(is_overtaken);
        if let Some(Granted { units, at, .. }) = self.granted {
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
        if let Some(pushed) = self.in_flight.take().filter(|pushed| pushed.units > 0) {
            self.add_pending(algorithm, pushed);
        }
    }

    /// A bucket drains from the first of the units on. Units of a window all count in the window of the last one, so
    /// that none is forgotten.
    fn add_pending(&mut self, algorithm: &PackedAlgorithm, added: PendingUnits) {
        let Some(pending) = &mut self.pending else {
            self.pending = Some(added);
            return;
        };
        pending.units = pending.units.saturating_add(added.units);
        pending.used_at = match algorithm {
            PackedAlgorithm::FixedWindow(_) | PackedAlgorithm::SlidingWindow(_) => {
                pending.used_at.max(added.used_at)
            }
            _ => pending.used_at.min(added.used_at),
        };
    }

    /// Ends a fixed window that is over: what is over the limit counts in the next window, up to the limit, and what was
    /// not pushed does not count any more.
    fn end_window(&mut self, algorithm: &PackedAlgorithm, carry: Carry, at: Timestamp) {
        let PackedAlgorithm::FixedWindow(window) = algorithm else { return };
        // Without the store's clock, the end of the window is not known.
        let Some(end) = self.window_end.filter(|end| *end <= at && self.pulled_at.is_some()) else { return };
        let last = Timestamp::from_nanos(end.as_nanos().saturating_sub(1));
        let over = window.over(&self.state, last).min(window.rate().limit());
        self.state = PackedState::NEVER_SEEN;
        (self.window_end, self.carried) = (None, None);
        // Until a reply has shown the store's clock, the window may not be over there.
        if self.pulled_at.is_some() {
            self.pending = None;
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

/// Units by which the arrival time is further ahead than the burst allows.
fn bucket_debt(gcra: &Gcra, state: &PackedState, at: Timestamp) -> u64 {
    let limit = u128::from(gcra.rate().limit());
    let ahead_ns = gcra.reset_after(state, at).get().saturating_sub(gcra.burst_span().whole_ns);
    let units = ahead_ns.saturating_mul(limit) / u128::from(gcra.rate().window_ns());
    u64::try_from(units).unwrap_or(u64::MAX)
}
