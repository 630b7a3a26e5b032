//! One line: who waits for a key, in the order they came.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use tidegate_core::{Nanos, Timestamp};

use super::Refusal;
use super::playing::Tail;
use super::request::{Attempt, Request};
use super::unlocked::{Place, Unlocked};

/// A place in a line: lower ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What a request in line hears when it asks whether it is its turn.
pub(crate) enum Step<G> {
    /// It is admitted and has left the line.
    Leaves(Departure<G>),
    /// It is admitted, and stays in front of the line until this instant.
    Held(Departure<G>),
    /// It is in front and has to ask again at this instant.
    AskAgain(Timestamp),
    /// Others are in front; it will be woken.
    Behind,
    /// It does not wait any longer and has left the line.
    Refused(Refusal),
}

/// What a request was given, and when it goes.
pub(crate) struct Departure<G> {
    pub given: G,
    pub leaves: Timestamp,
}

/// How a request leaves the line of its own accord.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It has what it waited for, and was held for its delay, which is over.
    Done,
    /// It was dropped or went to another line, at this instant.
    Dropped(Timestamp),
}

/// Wakers that a line is done with.
pub(super) struct Wakers {
    pub woken: Vec<Waker>,
    _gone: Vec<Waker>,
}

/// A request that waits.
pub(crate) struct Waiter {
    /// The place that it has already, in another line.
    pub ticket: Option<Ticket>,
    pub cost: u64,
    pub arrived: Timestamp,
    /// When it gives up.
    pub deadline: Option<Timestamp>,
    /// When it leaves, if that was worked out. It may be sooner since.
    pub foreseen: Option<Timestamp>,
    pub waker: Waker,
}

/// A line. The one in front is the only one that asks the store.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) waiters: BTreeMap<Ticket, Waiter>,
    pub(super) deadlines: BTreeSet<(Timestamp, Ticket)>,
    /// Those who had to leave and have not heard of it yet.
    pub(super) refused: BTreeMap<Ticket, Refusal>,
    /// Whether the one in front has been admitted, and only waits for the instant at which it leaves.
    pub(super) front_is_charged: bool,
    /// When the last one left, or leaves if it is still held: nobody behind it is decided before.
    pub(super) left: Timestamp,
    /// What the states will be when all in line have left, if that was worked out.
    pub(super) tail: Option<Tail>,
    /// What the one in front goes by if it asks a store that answers later.
    pub(super) unlocked: Unlocked,
    /// Whether the head asks at this moment, without the lock: its units may be counted already, and it is still here.
    pub(super) is_asking: bool,
    /// Whether a request entered meanwhile, for which no forecast was made.
    #[cfg_attr(
        not(feature = "rules"),
        allow(dead_code, reason = "a limiter has its queue locked while it asks")
    )]
    pub(super) is_unforecast: bool,
    /// Who is to be woken once the lock is released.
    pub(super) woken: Vec<Waker>,
    /// Wakers that are of no use any more. They may own a task, which must not be dropped while the line is locked: it
    /// may be in it.
    gone: Vec<Waker>,
}

impl Ticket {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }
}

impl Waiter {
    pub(super) fn gives_up_before(&self, instant: Timestamp) -> bool {
        self.deadline.is_some_and(|deadline| deadline < instant)
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.refused.is_empty()
    }

    /// Who is to be woken, and wakers to be dropped, when nothing is locked.
    pub(super) fn take_wakers(&mut self) -> Wakers {
        Wakers { woken: std::mem::take(&mut self.woken), _gone: std::mem::take(&mut self.gone) }
    }

    pub(super) fn enter(&mut self, ticket: Ticket, waiter: Waiter) {
        self.deadlines.extend(waiter.deadline.map(|deadline| (deadline, ticket)));
        self.waiters.insert(ticket, waiter);
    }

    /// Whether somebody in line comes after one that has this ticket; after a newcomer nobody does.
    pub(super) fn is_before_others(&self, ticket: Option<Ticket>) -> bool {
        ticket.is_some_and(|ticket| self.waiters.last_key_value().is_some_and(|(last, _)| *last > ticket))
    }

    /// Somebody got in line whose deadline has to be watched by the one in front, which may sleep for longer.
    pub(super) fn watch(&mut self, ticket: Ticket) {
        let is_next = self.deadlines.first().is_some_and(|(_, first)| *first == ticket);
        if is_next && !self.front_is_charged && self.front() != Some(ticket) {
            self.wake_front();
        }
    }

    /// The one in front is admitted and is held until then.
    pub(super) fn hold_front_until(&mut self, leaves: Timestamp) {
        self.front_is_charged = true;
        self.left = leaves;
    }

    /// A request in line asks whether it is its turn.
    pub(super) fn step<R: Request>(
        &mut self,
        request: &R,
        ticket: Ticket,
        now: Timestamp,
        waker: &Waker,
    ) -> Step<R::Given> {
        if let Some(refusal) = self.refused.remove(&ticket) {
            return Step::Refused(refusal);
        }
        self.wakes_by(ticket, waker);
        if self.front() != Some(ticket) {
            return Step::Behind;
        }
        let foreseen = self.waiters[&ticket].foreseen;
        let step = self.step_front(request, ticket, now);
        match &step {
            Step::Leaves(departure) => {
                self.left = departure.leaves;
                self.remove(ticket);
            }
            Step::Refused(_) => self.remove(ticket),
            Step::Held(departure) => self.hold_front_until(departure.leaves),
            Step::AskAgain(_) | Step::Behind => {}
        }
        if let Step::Leaves(departure) | Step::Held(departure) = &step {
            if foreseen.is_some_and(|foreseen| foreseen < departure.leaves) {
                self.play_out(request, now);
            }
            // Nobody behind it leaves sooner, and where nothing is foreseen nobody has been told.
            self.refuse_those(|deadline| deadline < departure.leaves);
        }
        step
    }

    /// A request in line is woken by this from now on.
    pub(super) fn wakes_by(&mut self, ticket: Ticket, waker: &Waker) {
        if let Some(waiter) = self.waiters.get_mut(&ticket)
            && !waiter.waker.will_wake(waker)
        {
            self.gone.push(std::mem::replace(&mut waiter.waker, waker.clone()));
        }
    }

    fn step_front<R: Request>(&mut self, request: &R, ticket: Ticket, now: Timestamp) -> Step<R::Given> {
        let waiter = &self.waiters[&ticket];
        let mut at = waiter.arrived.max(self.left).max(request.earliest(now)).min(now);
        loop {
            let wait = match request.attempt(at) {
                Attempt::Admitted(given) => {
                    let leaves = at.saturating_add(request.held(&given));
                    if waiter.gives_up_before(leaves) {
                        request.give_back(&given);
                        return Step::Refused(too_long(waiter.arrived, leaves));
                    }
                    let departure = Departure { given, leaves };
                    return if leaves <= now { Step::Leaves(departure) } else { Step::Held(departure) };
                }
                Attempt::Wait(wait) => wait,
            };
            let Some(due) = request.due(at, wait) else { return Step::Refused(Refusal::Never) };
            if due > now {
                return self.ask_again(request, ticket, due, now);
            }
            at = due;
        }
    }

    /// The one in front cannot be admitted before `due`, as far as is known.
    fn ask_again<R: Request>(
        &mut self,
        request: &R,
        ticket: Ticket,
        due: Timestamp,
        now: Timestamp,
    ) -> Step<R::Given> {
        let waiter = &self.waiters[&ticket];
        if request.is_foreseeable(now) {
            // Others took units past the line, so all in it are later than was thought; or it was not foreseeable when
            // they came, because of leases that have gone out of force, and somebody has a deadline.
            if waiter.foreseen.map_or(!self.deadlines.is_empty(), |foreseen| foreseen < due) {
                self.play_out(request, now);
            }
            return self.refused.remove(&ticket).map_or(Step::AskAgain(due), Step::Refused);
        }
        if waiter.deadline.is_some_and(|deadline| deadline <= now) {
            return Step::Refused(Refusal::TooLong { wait: None });
        }
        self.refuse_those(|deadline| deadline <= now);
        Step::AskAgain(self.deadlines.first().map_or(due, |(deadline, _)| due.min(*deadline)))
    }

    /// A request leaves of its own accord.
    pub(super) fn leave(&mut self, ticket: Ticket, exit: Exit) {
        if self.front() == Some(ticket) {
            self.is_asking = false;
        }
        self.refused.remove(&ticket);
        if !self.waiters.contains_key(&ticket) {
            return;
        }
        if let Exit::Dropped(now) = exit {
            self.unlocked.leaves_in_vain(self.place(ticket));
            self.may_be_sooner();
            if self.front_is_charged && self.front() == Some(ticket) {
                self.left = self.left.min(now);
            }
        }
        self.remove(ticket);
    }

    /// The limits themselves may be others: nothing that was worked out holds.
    #[cfg(feature = "rules")]
    pub(super) fn nudge_afresh(&mut self, now: Timestamp) {
        self.tail = None;
        // Without it the one in front works all of it out again.
        if let Some(mut front) = self.waiters.first_entry() {
            front.get_mut().foreseen = None;
        }
        self.nudge(now);
    }

    /// Units came back: those in line may come sooner than was worked out, but nobody before this instant.
    pub(super) fn nudge(&mut self, now: Timestamp) {
        self.may_be_sooner();
        self.unlocked.nudged();
        if !self.front_is_charged {
            self.left = self.left.max(now);
            self.wake_front();
        }
    }

    pub(super) fn front(&self) -> Option<Ticket> {
        self.waiters.first_key_value().map(|(ticket, _)| *ticket)
    }

    fn place(&self, ticket: Ticket) -> Place {
        if self.front() == Some(ticket) { Place::Front } else { Place::Behind }
    }

    /// Refuses those whose deadline is too early for what is not known any better.
    pub(super) fn refuse_those(&mut self, is_too_early: impl Fn(Timestamp) -> bool) {
        while let Some((deadline, late)) = self.deadlines.first().copied()
            && is_too_early(deadline)
        {
            self.refuse(late, Refusal::TooLong { wait: None });
        }
    }

    pub(super) fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        let waker = self.waiters.get(&ticket).map(|waiter| waiter.waker.clone());
        self.unlocked.leaves_in_vain(self.place(ticket));
        self.remove(ticket);
        self.refused.insert(ticket, refusal);
        self.woken.extend(waker);
    }

    /// Takes a request out of the line. If it was in front, the next one is woken.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        let was_front = self.front() == Some(ticket);
        let Some(waiter) = self.waiters.remove(&ticket) else { return };
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        self.gone.push(waiter.waker);
        if was_front {
            self.front_is_charged = false;
            self.wake_front();
        }
    }

    fn wake_front(&mut self) {
        let front = self.waiters.first_key_value();
        self.woken.extend(front.map(|(_, waiter)| waiter.waker.clone()));
    }
}

/// A refusal of a request that arrived then and would leave then.
pub(super) fn too_long(arrived: Timestamp, leaves: Timestamp) -> Refusal {
    let wait_ns = leaves.as_nanos().saturating_sub(arrived.as_nanos());
    Refusal::TooLong { wait: Some(Nanos::new(u128::from(wait_ns))) }
}
