//! The future: a request that comes, stands in line, and leaves with an answer.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_core::rules::{Answer, Delay, Request, Touches};
use tidegate_core::{Nanos, PlanFull, Timestamp, Wait};

use super::asking::{Asking, Delays, Given};
use super::{Decided, line};
use crate::engine::in_force::{Hold, Purpose};
use crate::engine::shared::{Parts, Shared, Want};
use crate::engine::stages::Watch;
use crate::engine::{Engine, StageTimes};
use crate::waiting::{Arrival, Exit, Nap, Step, Ticket, Waiter};
use crate::{Refusal, Timer};

/// Decides a request, which may take a wait. Made by [`Engine::decide`].
///
/// `S` is what it becomes when it is first polled, if the engine's counters are those of a fleet.
#[must_use = "futures do nothing unless they are polled"]
pub struct Deciding<'a, C: Timer, F, S> {
    engine: &'a Engine<C>,
    request: Request<'a>,
    /// Taken when it is done.
    answered: Option<F>,
    /// What it holds when it is done, if it is to hold what it is given.
    hold: Option<Hold>,
    /// How long its stages took, if somebody wants to know.
    stages: Option<Cell<StageTimes>>,
    arrived: Option<Timestamp>,
    /// When it gives up: the earliest that any limit says which it waited for.
    deadline: Timestamp,
    /// Its place among those who wait, once it has one.
    ticket: Option<Ticket>,
    standing: Option<Standing<C::Sleep>>,
    /// Boxed, for it is large, and not there at all where nothing is shared.
    shared: Option<Pin<Box<S>>>,
    share: fn(Parts<'a, C, F>) -> S,
}

/// Where it stands.
struct Standing<S> {
    line: Box<[u8]>,
    ticket: Ticket,
    /// When it got in this line.
    since: Timestamp,
    nap: Nap<S>,
}

/// What a request touches, by the rules as they are.
struct View<'t, 'r> {
    touches: &'t Touches<'r>,
    delays: Delays<'t>,
}

/// What comes next.
#[allow(clippy::large_enum_variant, reason = "it stays on the stack, where a box would be an allocation")]
enum Next<'r> {
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

impl<'a, C: Timer, F, S> Deciding<'a, C, F, S> {
    pub(super) fn new(
        engine: &'a Engine<C>,
        request: Request<'a>,
        answered: F,
        hold: Option<Hold>,
        share: fn(Parts<'a, C, F>) -> S,
    ) -> Self {
        Self {
            engine,
            request,
            answered: Some(answered),
            hold,
            stages: None,
            arrived: None,
            deadline: Timestamp::from_nanos(u64::MAX),
            ticket: None,
            standing: None,
            shared: None,
            share,
        }
    }

    /// Has its stages timed, which costs a few looks at the clock.
    pub fn timed(mut self) -> Self {
        self.stages = Some(Cell::default());
        self
    }

    /// Goes on where the counters are that a fleet shares.
    #[cold]
    fn poll_shared<R>(&mut self, shared: &'a Shared, context: &mut Context<'_>) -> Poll<Result<R, PlanFull>>
    where
        S: Future<Output = Result<R, PlanFull>>,
    {
        if let Some(answered) = self.answered.take() {
            let want = self.hold.as_ref().map_or(Want::Charge, |hold| Want::Hold(hold.ttl));
            let stages = self.stages.as_ref().map(Cell::get);
            let Self { engine, request, .. } = *self;
            self.shared =
                Some(Box::pin((self.share)(Parts { engine, shared, request, answered, want, stages })));
        }
        let deciding = self.shared.as_mut().expect("a future was polled after it was done");
        let decided = ready!(deciding.as_mut().poll(context));
        self.shared = None;
        Poll::Ready(decided)
    }

    /// Decides what no limit can hold, as is most. The answer is large and goes straight to whom it is for.
    fn at_once<R>(&mut self, touches: &Touches<'_>, answered: F) -> Result<R, PlanFull>
    where
        F: FnOnce(Decided<'_>) -> R,
    {
        let now = self.engine.clock.now();
        self.arrived.get_or_insert(now);
        let answer = self.engine.settle(touches, now, self.purpose(), self.watch())?;
        Ok(answered(self.decided(touches, answer, now, None)))
    }

    /// Goes as far as it can by these rules.
    fn go_on<'r>(
        &mut self,
        view: &View<'_, 'r>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Decided<'r>, PlanFull>> {
        let mut next = if self.standing.is_some() { Next::Step } else { Next::Arrive(None) };
        loop {
            let now = || self.engine.clock.now();
            next = match next {
                Next::Arrive(at) => self.arrive(view, at, now(), context),
                Next::Step => self.step(view, now(), context),
                Next::Sleep => return Poll::Pending,
                Next::Answer(answer, at) => {
                    return Poll::Ready(Ok(self.decided(view.touches, answer, at, None)));
                }
                Next::Refuse { delay, refusal, since } => {
                    let now = now();
                    let answer = self.refused(view, &view.delays[delay], refusal, since, now);
                    return Poll::Ready(
                        answer.map(|answer| self.decided(view.touches, answer, now, Some(refusal))),
                    );
                }
                Next::Full(full) => return Poll::Ready(Err(full)),
            };
        }
    }

    /// It comes, or comes from another line.
    fn arrive<'r>(
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
    fn step<'r>(&mut self, view: &View<'_, 'r>, now: Timestamp, context: &mut Context<'_>) -> Next<'r> {
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
    fn leave(&mut self, now: Timestamp) {
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

    fn watch(&self) -> Watch<'_> {
        Watch(self.stages.as_ref())
    }

    fn purpose(&self) -> Purpose<'_> {
        self.hold.as_ref().map_or(Purpose::Charge, Purpose::Hold)
    }

    /// The answer to a request that is not held, or no longer, though it is not admitted.
    fn refused<'r>(
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

    #[inline]
    fn decided<'r>(
        &self,
        touches: &Touches<'r>,
        mut answer: Answer<'r>,
        at: Timestamp,
        refusal: Option<Refusal>,
    ) -> Decided<'r> {
        // Once, not each time that it asks.
        self.engine.try_candidates(touches, &mut answer, at, Purpose::Charge);
        let waited = self.arrived.map_or(Nanos::ZERO, |arrived| span(arrived, at));
        let lease = self.hold.as_ref().and_then(|hold| hold.lease.get());
        let stages = self.stages.as_ref().map(Cell::get);
        Decided { answer, waited, refusal, lease, stages }
    }
}

impl<C, R, F, S> Future for Deciding<'_, C, F, S>
where
    C: Timer,
    F: FnOnce(Decided<'_>) -> R,
    S: Future<Output = Result<R, PlanFull>>,
{
    type Output = Result<R, PlanFull>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(shared) = &this.engine.shared {
            return this.poll_shared(shared, context);
        }
        assert!(this.answered.is_some(), "a future was polled after it was done");
        loop {
            let changes = this.engine.changes();
            let rules = this.engine.rules.load();
            let touches = this.watch().matching(&this.engine.clock, || rules.touched_by(&this.request));
            let view = View { touches: &touches, delays: touches.delays().collect() };
            if view.delays.is_empty()
                && this.standing.is_none()
                && let Some(answered) = this.answered.take()
            {
                return Poll::Ready(this.at_once(&touches, answered));
            }
            if let Poll::Ready(decided) = this.go_on(&view, context) {
                let answered = this.answered.take();
                return Poll::Ready(decided.map(|decided| match answered {
                    Some(answered) => answered(decided),
                    None => unreachable!("looked at above"),
                }));
            }
            if this.engine.changes() == changes {
                return Poll::Pending;
            }
        }
    }
}

/// Nothing in it is ever pinned but what is in a box: its sleep can be moved, and what is called in the end is taken out
/// first.
impl<C: Timer, F, S> Unpin for Deciding<'_, C, F, S> {}

/// Whoever is dropped steps out of the line and has charged nothing.
impl<C: Timer, F, S> Drop for Deciding<'_, C, F, S> {
    fn drop(&mut self) {
        if self.standing.is_some() {
            self.leave(self.engine.clock.now());
        }
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
