//! When each caller may proceed. Has no clock: time is passed in.

use tidegate_core::{Nanos, Rate, Timestamp};

use super::shape::{PacerShape, StoredPermits, TickScale};

/// When the next caller may proceed, and how many permits are stored until then.
///
/// A caller proceeds as soon as all permits before it are paid for, however many it asks for. Then the next caller
/// waits for what this one took. So a wait is known before the caller's own cost is.
///
/// All time is in ticks, an integer fraction of a nanosecond in which every permit is a whole number (see
/// [`PacerShape`]), so nothing drifts. Rounding is always to the later side: less than a tick for cold permits and,
/// unless the cold factor is 3, for idle time; less than a tick of the new rate when the rate changes; and waits are
/// whole nanoseconds. Ticks saturate after two million years (2^76 ns) or more.
#[derive(Debug)]
pub(super) struct Schedule {
    shape: PacerShape,
    rate: Rate,
    scale: TickScale,
    state: ScheduleState,
    /// How many reservations and changes of rate there were, minus those that were undone.
    revision: u64,
}

#[derive(Clone, Copy, Debug)]
struct ScheduleState {
    /// The instant at which all permits that were handed out are paid for.
    next_free: u128,
    stored: u128,
}

/// Permits that were taken, and when they may be used.
#[derive(Debug)]
pub(super) struct PermitReservation {
    pub wait: Nanos,
    revision: u64,
    state_before: ScheduleState,
}

impl Schedule {
    pub(super) fn new(shape: PacerShape, rate: Rate, now: Timestamp) -> Self {
        let scale = shape.at_rate(rate);
        let state = ScheduleState { next_free: ticks(now, &scale), stored: shape.stored_at_start(&scale) };
        Self { shape, rate, scale, state, revision: 0 }
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// How long a caller that comes now would wait, however many permits it asks for.
    pub(super) fn wait(&self, now: Timestamp) -> Nanos {
        let ahead = self.state.next_free.saturating_sub(ticks(now, &self.scale));
        Nanos::new(ahead.div_ceil(self.scale.ticks_per_ns))
    }

    /// Takes permits: first stored ones, then new ones.
    pub(super) fn reserve(&mut self, permits: u64, now: Timestamp) -> PermitReservation {
        let before = self.state;
        let wait = self.wait(now);
        self.store_unused(now);
        let requested = u128::from(permits).saturating_mul(self.scale.ticks_per_permit);
        let from_stored = requested.min(self.state.stored);
        let fresh = requested - from_stored;
        let stored_permits = StoredPermits { taken: from_stored, stored: self.state.stored };
        let cost = fresh.saturating_add(self.scale.cost(stored_permits));
        self.state.stored -= from_stored;
        self.state.next_free = self.state.next_free.saturating_add(cost);
        self.revision += 1;
        PermitReservation { wait, revision: self.revision, state_before: before }
    }

    /// Undoes the last reservation, as if it had not been made. Does nothing if a later one exists.
    ///
    /// Earlier reservations can be undone after it, because the revision goes back too. No two open reservations have
    /// the same revision: all other open ones have smaller ones.
    pub(super) fn undo(&mut self, reservation: &PermitReservation) {
        if reservation.revision == self.revision {
            self.state = reservation.state_before;
            self.revision -= 1;
        }
    }

    /// Changes the rate. Permits that were handed out are paid for at the rate at which they were handed out. Stored
    /// permits keep their share of the maximum, which is the same time. So does the idle time since the last call: a
    /// pause counts the same at any rate, and this function need not know the time.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        let new = self.shape.at_rate(rate);
        let change = TickConversion { old: &self.scale, new: &new };
        self.state = ScheduleState {
            next_free: change.rounded_up(self.state.next_free),
            stored: change.rounded_down(self.state.stored).min(new.stored_max),
        };
        (self.rate, self.scale) = (rate, new);
        self.revision += 1;
    }

    fn store_unused(&mut self, now: Timestamp) {
        let now = ticks(now, &self.scale);
        if let Some(idle @ 1..) = now.checked_sub(self.state.next_free) {
            let stored = self.state.stored + self.scale.stored_during(idle);
            self.state = ScheduleState { next_free: now, stored: stored.min(self.scale.stored_max) };
        }
    }
}

/// The instant in ticks. Below 2^64 * 2^52.
fn ticks(at: Timestamp, scale: &TickScale) -> u128 {
    u128::from(at.as_nanos()) * scale.ticks_per_ns
}

/// Converts ticks of one scale to ticks of another.
struct TickConversion<'a> {
    old: &'a TickScale,
    new: &'a TickScale,
}

impl TickConversion<'_> {
    fn rounded_down(&self, ticks: u128) -> u128 {
        let (whole, _) = self.quotient_and_remainder(ticks);
        whole
    }

    fn rounded_up(&self, ticks: u128) -> u128 {
        let (whole, rest) = self.quotient_and_remainder(ticks);
        whole.saturating_add(u128::from(rest > 0))
    }

    /// Whole new ticks, and the remainder. Whole nanoseconds are converted separately from the fraction, which times
    /// the new scale is below 2^104.
    fn quotient_and_remainder(&self, ticks: u128) -> (u128, u128) {
        let (old, new) = (self.old.ticks_per_ns, self.new.ticks_per_ns);
        let (ns, rest) = (ticks / old, ticks % old * new);
        (ns.saturating_mul(new).saturating_add(rest / old), rest % old)
    }
}
