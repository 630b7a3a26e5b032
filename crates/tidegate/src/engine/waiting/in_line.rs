//! A request that comes, stands in a line, and leaves it.

use std::task::{Context, Poll};

use tidegate_core::rules::{Answer, Delay, Touches};
use tidegate_core::{Nanos, PlanFull, Timestamp, Wait};

use super::asking::{Asking, Delays, Given};
use super::{Deciding, line};
use crate::engine::in_force::Purpose;
use crate::waiting::{Arrival, Exit, Nap, Step, Ticket, Waiter};
use crate::{Refusal, Timer};

/// Where it stands.
pub(super) struct Standing<S> {
    line: Box<[u8]>,
    ticket: Ticket,
    /// When it got in this line.
    since: Timestamp,
    nap: Nap<S>,
}

/// What a request touches, by the rules as they are.
pub(super) struct View<'t, 'r> {
    pub touches: &'t Touches<'r>,
    pub delays: Delays<'t>,
}

/// What comes next.
#[allow(clippy::large_enum_variant, reason = "it stays on the stack, where a box would be an allocation")]
pub(super) enum Next<'r> {
    /// To get in the line of the limit at this place among those that may hold it; or in any.
    Arrive(Option<usize>),
    /// To ask again, where it stands.
    Step,
    /// To be woken.
    Sleep,
    /// Nothing: this is the answer, as of this instant.
    Answer(Answer<'r>, Timestamp),
    /// Nothing: it is not held by the limit at this place among those that may, since when it asked it.
    Refuse { delay: usize, refusal: Refusal, since: Timestamp },
    /// Nothing: it touches too many limits.
    Full(PlanFull),
}

impl<C: Timer, F, S> Deciding<'_, C, F, S> {
    /// It comes, or comes from another line.
    pub(super) fn arrive<'r>(
        &mut self,
        view: &View<'_, 'r>,
        at: Option<usize>,
        now: Timestamp,
        context: &Context<'_>,
    ) -> Next<'r> {
        let arrived = *self.arrived.get_or_insert(now);
        let number = at.or_else(|| self.earlier_in(view)).unwrap_or(0);
        let Some(delay) = view.delays.get(number) else {
            return match self.engine.settle(view.touches, now, self.purpose(), self.watch()) {
                Ok(answer) => Next::Answer(answer, now),
                Err(full) => Next::Full(full),
            };
        };
        self.deadline = self.deadline.min(arrived.saturating_add(delay.max_wait));
        let line = line(delay);
        let waiter = Waiter {
            ticket: self.ticket,
            cost: delay.cost,
            arrived: now,
            deadline: Some(self.deadline),
            foreseen: None,
            waker: context.waker().clone(),
        };
        match self.engine.queues.arrive(&self.asking(view, delay, &line), waiter) {
            Arrival::Leaves(given) | Arrival::Declined(given) => leaves(given, number, now, now),
            Arrival::Refused(refusal) => Next::Refuse { delay: number, refusal, since: now },
            Arrival::Waits(ticket) => {
                self.ticket = Some(ticket);
                let line = line.as_slice().into();
                self.standing = Some(Standing { line, ticket, since: now, nap: Nap::none() });
                Next::Step
            }
            Arrival::Held { .. } => unreachable!("it goes when it is admitted"),
        }
    }

    /// It looks whether it is its turn.
    pub(super) fn step<'r>(
        &mut self,
        view: &View<'_, 'r>,
        now: Timestamp,
        context: &mut Context<'_>,
    ) -> Next<'r> {
        let Some(standing) = &self.standing else { return Next::Arrive(None) };
        let (ticket, since) = (standing.ticket, standing.since);
        let Some(number) = view.delays.iter().position(|delay| line(delay).as_slice() == &*standing.line)
        else {
            // The rule is gone, or counts in another way.
            self.leave(now);
            return Next::Arrive(None);
        };
        if view.delays.len() > 1
            && self.engine.queues.front(&standing.line) == Some(ticket)
            && let Some(earlier) = self.earlier_in(view)
        {
            self.leave(now);
            return Next::Arrive(Some(earlier));
        }
        let asking = self.asking(view, &view.delays[number], &standing.line);
        let step = self.engine.queues.step(&asking, ticket, now, context.waker());
        match step {
            Step::Behind => return self.sleep(None, context),
            Step::AskAgain(at) => return self.sleep(Some(at), context),
            // It has left the line.
            _ => self.standing = None,
        }
        match step {
            Step::Leaves(departure) => leaves(departure.given, number, departure.leaves, since),
            Step::Declined(given) => leaves(given, number, now, since),
            Step::Refused(refusal) => Next::Refuse { delay: number, refusal, since },
            _ => unreachable!("it goes when it is admitted"),
        }
    }

    /// It sleeps where it stands: until this instant, or until it is woken.
    fn sleep<'r>(&mut self, until: Option<Timestamp>, context: &mut Context<'_>) -> Next<'r> {
        let Some(standing) = &mut self.standing else { return Next::Arrive(None) };
        let Some(until) = until else {
            // It may have been in front before somebody came from another line.
            standing.nap = Nap::none();
            return Next::Sleep;
        };
        match standing.nap.poll_until(until, &self.engine.clock, context) {
            Poll::Ready(()) => Next::Step,
            Poll::Pending => Next::Sleep,
        }
    }

    /// It leaves the line that it stands in, if it does.
    pub(super) fn leave(&mut self, now: Timestamp) {
        if let Some(standing) = self.standing.take() {
            self.engine.queues.leave(&standing.line, standing.ticket, Exit::Dropped(now));
        }
    }

    /// One of the limits that may hold it for which somebody waits who came earlier. Others may not be overtaken where
    /// they wait, whatever it is that this one waits for.
    fn earlier_in(&self, view: &View<'_, '_>) -> Option<usize> {
        if view.delays.len() < 2 {
            return None;
        }
        let came_earlier = |front: Ticket| self.ticket.is_none_or(|ticket| front < ticket);
        view.delays.iter().position(|delay| self.engine.queues.front(&line(delay)).is_some_and(came_earlier))
    }

    fn asking<'p, 't, 'r>(
        &'p self,
        view: &'p View<'t, 'r>,
        delay: &'p Delay<'t>,
        line: &'p [u8],
    ) -> Asking<'p, 't, 'r, C> {
        let View { touches, delays } = view;
        let purpose = self.purpose();
        let (engine, deadline, watch) = (self.engine, self.deadline, self.watch());
        Asking { engine, touches, delays, delay, line, deadline, purpose, watch }
    }

    /// The answer to a request that is not held, or no longer, though it is not admitted.
    pub(super) fn refused<'r>(
        &self,
        view: &View<'_, 'r>,
        delay: &Delay<'_>,
        refusal: Refusal,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<Answer<'r>, PlanFull> {
        let mut answer = self.engine.settle(view.touches, now, Purpose::Look, self.watch())?;
        let retry_after = match refusal {
            Refusal::Never => Wait::NEVER,
            Refusal::TooLong { wait: Some(wait) } => at_least(span(now, since.saturating_add(wait))),
            Refusal::TooLong { wait: None } | Refusal::QueueFull => at_least(Nanos::ZERO),
        };
        answer.deny(delay.place, retry_after);
        Ok(answer)
    }
}

/// What comes after a line that it got in at `since`, if it leaves it with this, as of `at`.
fn leaves(given: Given<'_>, delay: usize, at: Timestamp, since: Timestamp) -> Next<'_> {
    match given {
        Given::Answer(answer) => Next::Answer(answer, at),
        Given::Full(full) => Next::Full(full),
        Given::WaitsFor(other) => Next::Arrive(Some(other)),
        Given::Late => Next::Refuse { delay, refusal: Refusal::TooLong { wait: None }, since },
    }
}

pub(in crate::engine) fn span(from: Timestamp, to: Timestamp) -> Nanos {
    Nanos::new(u128::from(to.as_nanos().saturating_sub(from.as_nanos())))
}

/// Not at once, or it would not be a denial.
pub(in crate::engine) fn at_least(wait: Nanos) -> Wait {
    Wait::of(wait.max(Nanos::new(1)))
}
