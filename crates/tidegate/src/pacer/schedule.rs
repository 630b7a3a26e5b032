//! Who goes when. Knows no clock: time is handed in.

use tidegate_core::{Nanos, Rate, Timestamp};

use super::shape::{TickScale, PacerShape, StoredPermits};

/// When the next caller may go, and what is kept until then.
///
/// A caller goes as soon as all before it are paid for, however much it asks for; then it is the next caller's turn
/// to wait for what this one took. That is all there is to a wait: it is known before the caller's own cost is.
///
/// All time is in ticks, an integer fraction of a nanosecond in which every permit is a whole number (see
/// [`Shape`]), so nothing drifts. Rounding happens where a fraction cannot be helped, and always to the later side:
/// less than a tick for cold permits and, unless the cold factor is 3, for idle time; less than a tick of the new
/// rate when the rate changes; and a wait is whole nanoseconds. Ticks saturate, after two million years (2^76 ns)
/// or more.
#[derive(Debug)]
pub(super) struct Schedule {
    shape: PacerShape,
    rate: Rate,
    scale: TickScale,
    state: ScheduleState,
    /// How many reservations and changes of rate there were, less those that were given back.
    revision: u64,
}

#[derive(Clone, Copy, Debug)]
struct ScheduleState {
    /// The instant at which all that was handed out is paid for.
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

    /// How long a caller that comes now would wait, whatever it asks for.
    pub(super) fn wait(&self, now: Timestamp) -> Nanos {
        let ahead = self.state.next_free.saturating_sub(ticks(now, &self.scale));
        Nanos::new(ahead.div_ceil(self.scale.ticks_per_ns))
    }

    /// Takes the permits: first what is kept, then new ones.
    pub(super) fn reserve(&mut self, permits: u64, now: Timestamp) -> PermitReservation {
        let before = self.state;
        let wait = self.wait(now);
        self.store_unused(now);
        let asked = u128::from(permits).saturating_mul(self.scale.ticks_per_permit);
        let from_kept = asked.min(self.state.stored);
        let fresh = asked - from_kept;
        let of_kept = StoredPermits { taken: from_kept, stored: self.state.stored };
        let cost = fresh.saturating_add(self.scale.cost(of_kept));
        self.state.stored -= from_kept;
        self.state.next_free = self.state.next_free.saturating_add(cost);
        self.revision += 1;
        PermitReservation { wait, revision: self.revision, state_before: before }
    }

    /// Undoes a reservation that nobody built on: if it was the last, all is as if it had not been.
    ///
    /// Those before it can be undone after it, for the turn goes back as well; no two reservations that are still
    /// held ever have the same turn, because all others that are held have smaller ones.
    pub(super) fn undo(&mut self, reservation: &PermitReservation) {
        if reservation.revision == self.revision {
            self.state = reservation.state_before;
            self.revision -= 1;
        }
    }

    /// What was handed out stays as it is, to be paid for at the rate it was handed out at. What is kept stays the
    /// same share of the most that can be, which is the same time. So is the time since it was last looked at: a
    /// pause counts the same at any rate, and the change need not know what time it is.
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
            let kept = self.state.stored + self.scale.stored_during(idle);
            self.state = ScheduleState { next_free: now, stored: kept.min(self.scale.stored_max) };
        }
    }
}

/// Below 2^64 * 2^52.
fn ticks(at: Timestamp, scale: &TickScale) -> u128 {
    u128::from(at.as_nanos()) * scale.ticks_per_ns
}

/// From ticks of one scale to ticks of another.
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

    /// Whole new ticks, and what is left over. Whole nanoseconds are taken apart from the rest of one, which times
    /// the new scale is below 2^104.
    fn quotient_and_remainder(&self, ticks: u128) -> (u128, u128) {
        let (old, new) = (self.old.ticks_per_ns, self.new.ticks_per_ns);
        let (ns, rest) = (ticks / old, ticks % old * new);
        (ns.saturating_mul(new).saturating_add(rest / old), rest % old)
    }
}
