//! The future: a request that comes, stands in line, and leaves with an answer.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_core::rules::{Answer, Request, Touches};
use tidegate_core::{Nanos, PlanFull, Timestamp};

use super::Decided;
use super::in_line::{Next, Standing, View, span};
use crate::engine::in_force::{Hold, Purpose};
use crate::engine::shared::{Parts, Shared, Want};
use crate::engine::stages::Watch;
use crate::engine::{Engine, StageTimes};
use crate::waiting::Ticket;
use crate::{Refusal, Timer};

/// Decides a request, which may take a wait. Made by [`Engine::decide`].
///
/// `S` is what it becomes when it is first polled, if the engine's counters are those of a fleet.
#[must_use = "futures do nothing unless they are polled"]
pub struct Deciding<'a, C: Timer, F, S> {
    pub(super) engine: &'a Engine<C>,
    request: Request<'a>,
    /// Taken when it is done.
    answered: Option<F>,
    /// What it holds when it is done, if it is to hold what it is given.
    hold: Option<Hold>,
    /// How long its stages took, if somebody wants to know.
    stages: Option<Cell<StageTimes>>,
    pub(super) arrived: Option<Timestamp>,
    /// When it gives up: the earliest that any limit says which it waited for.
    pub(super) deadline: Timestamp,
    /// Its place among those who wait, once it has one.
    pub(super) ticket: Option<Ticket>,
    pub(super) standing: Option<Standing<C::Sleep>>,
    /// Boxed, for it is large, and not there at all where nothing is shared.
    shared: Option<Pin<Box<S>>>,
    share: fn(Parts<'a, C, F>) -> S,
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

    pub(super) fn watch(&self) -> Watch<'_> {
        Watch(self.stages.as_ref())
    }

    pub(super) fn purpose(&self) -> Purpose<'_> {
        self.hold.as_ref().map_or(Purpose::Charge, Purpose::Hold)
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

impl<C: Timer, F, S> std::fmt::Debug for Deciding<'_, C, F, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deciding").field("request", &self.request).finish_non_exhaustive()
    }
}
