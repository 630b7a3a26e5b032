//! Who goes when. Knows no clock: time is handed in.

use tidegate_core::{Nanos, Rate, Timestamp};

use super::shape::{Scale, Shape, Taken};

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
    shape: Shape,
    rate: Rate,
    scale: Scale,
    state: State,
    /// How many reservations and changes of rate there were, less those that were given back.
    turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// The instant at which all that was handed out is paid for.
    next_free: u128,
    kept: u128,
}

/// Permits that were taken, and when they may be used.
#[derive(Debug)]
pub(super) struct Reservation {
    pub wait: Nanos,
    turn: u64,
    before: State,
}

impl Schedule {
    pub(super) fn new(shape: Shape, rate: Rate, now: Timestamp) -> Self {
        let scale = shape.scale(rate);
        let state = State { next_free: ticks(now, &scale), kept: shape.kept_at_start(&scale) };
        Self { shape, rate, scale, state, turn: 0 }
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
    pub(super) fn reserve(&mut self, permits: u64, now: Timestamp) -> Reservation {
        let before = self.state;
        let wait = self.wait(now);
        self.keep_what_nobody_took(now);
        let asked = u128::from(permits).saturating_mul(self.scale.ticks_per_permit);
        let from_kept = asked.min(self.state.kept);
        let fresh = asked - from_kept;
        let of_kept = Taken { taken: from_kept, of_kept: self.state.kept };
        let cost = fresh.saturating_add(self.scale.cost(of_kept));
        self.state.kept -= from_kept;
        self.state.next_free = self.state.next_free.saturating_add(cost);
        self.turn += 1;
        Reservation { wait, turn: self.turn, before }
    }

    /// Undoes a reservation that nobody built on: if it was the last, all is as if it had not been.
    ///
    /// Those before it can be undone after it, for the turn goes back as well; no two reservations that are still
    /// held ever have the same turn, because all others that are held have smaller ones.
    pub(super) fn give_back(&mut self, reservation: &Reservation) {
        if reservation.turn == self.turn {
            self.state = reservation.before;
            self.turn -= 1;
        }
    }

    /// What was handed out stays as it is, to be paid for at the rate it was handed out at. What is kept stays the
    /// same share of the most that can be, which is the same time. So is the time since it was last looked at: a
    /// pause counts the same at any rate, and the change need not know what time it is.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        let new = self.shape.scale(rate);
        let change = Change { old: &self.scale, new: &new };
        self.state = State {
            next_free: change.rounded_up(self.state.next_free),
            kept: change.rounded_down(self.state.kept).min(new.kept_max),
        };
        (self.rate, self.scale) = (rate, new);
        self.turn += 1;
    }

    fn keep_what_nobody_took(&mut self, now: Timestamp) {
        let now = ticks(now, &self.scale);
        if let Some(idle @ 1..) = now.checked_sub(self.state.next_free) {
            let kept = self.state.kept + self.scale.gained(idle);
            self.state = State { next_free: now, kept: kept.min(self.scale.kept_max) };
        }
    }
}

/// Below 2^64 * 2^52.
fn ticks(at: Timestamp, scale: &Scale) -> u128 {
    u128::from(at.as_nanos()) * scale.ticks_per_ns
}

/// From ticks of one scale to ticks of another.
struct Change<'a> {
    old: &'a Scale,
    new: &'a Scale,
}

impl Change<'_> {
    fn rounded_down(&self, ticks: u128) -> u128 {
        let (whole, _) = self.whole_and_rest(ticks);
        whole
    }

    fn rounded_up(&self, ticks: u128) -> u128 {
        let (whole, rest) = self.whole_and_rest(ticks);
        whole.saturating_add(u128::from(rest > 0))
    }

    /// Whole new ticks, and what is left over. Whole nanoseconds are taken apart from the rest of one, which times
    /// the new scale is below 2^104.
    fn whole_and_rest(&self, ticks: u128) -> (u128, u128) {
        let (old, new) = (self.old.ticks_per_ns, self.new.ticks_per_ns);
        let (ns, rest) = (ticks / old, ticks % old * new);
        (ns.saturating_mul(new).saturating_add(rest / old), rest % old)
    }
}
