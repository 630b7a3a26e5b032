//! The task of one request that may wait: it arrives, enters a queue, asks as the head, and ends with an answer. See
//! `wait.rs`.

use smallvec::SmallVec;
use tidegate_core::rules::{AnswerKind, DelayLimit, Ruleset};
use tidegate_core::{Nanos, Op, Timestamp, Wait};

use super::attempt::{RequestAttempt, delay_limit, delay_limits, remaining, retry_after};
use super::decide::DecideTask;
use super::delay_queue::{delay_forecaster, queue_key};
use super::{ActiveRules, Answer, EngineError, EngineInner};
use crate::queue::{
    Admission, AskContext, Forecaster, JoinPolicy, NewWaiter, Postponement, QueueObserver, QueueSlot, Ticket,
    WaitContext, WakeReason,
};
use crate::store::Store;
use crate::{Refusal, Timer};

/// A request that may have to wait.
pub(super) struct WaitTask<'e, C: Timer, S: Store> {
    engine: &'e EngineInner<C, S>,
    pub arrived_at: Timestamp,
    /// When it stops waiting: the earliest deadline of the limits that it waited for, or the caller's.
    pub deadline: Timestamp,
    /// Its position among all waiting requests, once it has one.
    ticket: Option<Ticket>,
    pub slot: Option<QueueSlot<'e, C>>,
    /// How often the rules had changed when they were last read.
    changes: u64,
}

/// What the task does next. A limit is identified by its index among the limits with the action `delay` that apply.
enum WaitStep<'e> {
    /// Enter the queue of this limit, or of any.
    Arrive(Option<usize>),
    /// Wait in the queue of this limit until the request may ask.
    WaitForHead(usize, JoinPolicy),
    /// Ask, from the queue of this limit.
    Ask(usize, AskContext),
    /// Wait for this limit, for as long as the answer says.
    Postpone(usize, PostponedAttempt<'e>),
    /// The request has ended.
    End(WaitEnd),
    /// Match the request again.
    Changed,
}

/// An attempt that was not admitted and has to wait.
struct PostponedAttempt<'e> {
    answer: Answer,
    /// When the request asked.
    at: Timestamp,
    /// The queue that it has to enter, observed since before it asked.
    observer: Option<QueueObserver<'e>>,
}

/// How a request ended.
pub(super) struct WaitEnd {
    pub answer: Answer,
    /// The instant as of which it ended.
    pub at: Timestamp,
    /// Why it did not wait, or stopped waiting, if it was denied for that.
    pub refusal: Option<Refusal>,
}

/// Why a request is refused, and when it started to wait.
#[derive(Clone, Copy)]
struct TimedRefusal {
    refusal: Refusal,
    entered_at: Timestamp,
}

impl<'e, C: Timer, S: Store> WaitTask<'e, C, S> {
    pub fn new(engine: &'e EngineInner<C, S>, arrived_at: Timestamp) -> Self {
        Self {
            engine,
            arrived_at,
            deadline: Timestamp::from_nanos(u64::MAX),
            ticket: None,
            slot: None,
            changes: 0,
        }
    }

    /// Runs as far as it can with these rules. None if the rules have changed.
    pub async fn run(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        changes: u64,
    ) -> Result<Option<WaitEnd>, EngineError> {
        if !task.evaluation.matched().may_wait() {
            // The rule that it waited for is gone.
            self.slot = None;
            let at = self.engine.clock.now();
            let answer = self.engine.ask(task, rules, task.op, at).await?;
            return Ok(Some(WaitEnd { answer, at, refusal: None }));
        }
        self.changes = changes;
        let mut next = self.first_step(task, rules);
        loop {
            next = match next {
                WaitStep::Arrive(index) => self.arrive(task, rules, index).await?,
                WaitStep::WaitForHead(index, policy) => {
                    self.wait_for_head(task, rules, index, policy).await?
                }
                WaitStep::Ask(index, context) => self.ask(task, rules, index, context).await?,
                WaitStep::Postpone(index, postponed) => self.postpone(task, rules, index, postponed).await?,
                WaitStep::End(end) => return Ok(Some(end)),
                WaitStep::Changed => return Ok(None),
            };
        }
    }

    /// The first step under rules that are new to the task: stay in the same queue, unless its limit is gone.
    fn first_step(&mut self, task: &DecideTask, rules: &Ruleset) -> WaitStep<'e> {
        let Some(slot) = &self.slot else { return WaitStep::Arrive(None) };
        match delay_limits(task, rules).iter().position(|delay| *queue_key(delay) == *slot.key()) {
            Some(index) => WaitStep::WaitForHead(index, JoinPolicy::Join),
            None => {
                self.slot = None;
                WaitStep::Arrive(None)
            }
        }
    }

    /// Arrives, for the first time or from another queue.
    async fn arrive(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        to: Option<usize>,
    ) -> Result<WaitStep<'e>, EngineError> {
        self.slot = None;
        let waits_in = to.or_else(|| self.engine.queue_with_earlier_head(task, rules, self.ticket, None));
        let index = waits_in.unwrap_or(0);
        let now = self.engine.clock.now();
        let (is_admissible, max_wait) = {
            let delay = delay_limit(task, rules, index);
            (delay.is_admissible(), delay.max_wait)
        };
        self.deadline = self.deadline.min(self.arrived_at.saturating_add(max_wait));
        if !is_admissible {
            return self
                .end_refused(task, rules, index, TimedRefusal { refusal: Refusal::Never, entered_at: now })
                .await;
        }
        if waits_in.is_none() {
            return self.ask_on_arrival(task, rules, index, now).await;
        }
        match self.enter(delay_limit(task, rules, index), now).await {
            Err(refusal) => {
                self.end_refused(task, rules, index, TimedRefusal { refusal, entered_at: now }).await
            }
            Ok(slot) => {
                self.ticket = Some(slot.ticket());
                self.slot = Some(slot);
                Ok(WaitStep::WaitForHead(index, JoinPolicy::Join))
            }
        }
    }

    /// Asks without a queue, because no earlier request waits.
    async fn ask_on_arrival(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        at: Timestamp,
    ) -> Result<WaitStep<'e>, EngineError> {
        // A request that has not asked yet asks once, however short its maximum wait is.
        if self.ticket.is_some() && self.deadline < at {
            let refused = TimedRefusal { refusal: Refusal::TooLong { wait: None }, entered_at: at };
            return self.end_refused(task, rules, index, refused).await;
        }
        // If the request has to wait, its position is before all requests that arrive while it asks.
        self.ticket.get_or_insert_with(|| self.engine.queues.next_ticket());
        let observers = self.observe_queues(task, rules);
        let (answer, attempt) = self.engine.attempt(task, rules, index, at).await?;
        let index = match attempt {
            RequestAttempt::Admitted | RequestAttempt::Denied => {
                return Ok(WaitStep::End(WaitEnd { answer, at, refusal: None }));
            }
            RequestAttempt::Wait(_) => index,
            RequestAttempt::WaitForLimit(other) => other,
        };
        let observer = observers.into_iter().nth(index);
        Ok(WaitStep::Postpone(index, PostponedAttempt { answer, at, observer }))
    }

    /// Enters a queue after an attempt that has to wait, without asking again. Requests with earlier tickets stay
    /// before it.
    async fn postpone(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        postponed: PostponedAttempt<'e>,
    ) -> Result<WaitStep<'e>, EngineError> {
        let PostponedAttempt { answer, at, observer } = postponed;
        self.slot = None;
        let now = self.engine.clock.now();
        // A shared store decided when it was asked, by its own clock.
        let is_local = self.engine.store.is_local();
        let (entered_at, decided_at) = if is_local { (now, at) } else { (at, now) };
        let delay = delay_limit(task, rules, index);
        self.deadline = self.deadline.min(self.arrived_at.saturating_add(delay.max_wait));
        let wait = retry_after(&answer, &delay);
        let entered = match self.wait_context(&delay, entered_at, decided_at, now).due(wait) {
            Ok(due) => self.enter(delay, entered_at).await.map(|slot| (due, slot)),
            Err(refusal) => Err(refusal),
        };
        let (due, slot) = match entered {
            Ok(entered) => entered,
            Err(refusal) if is_local => {
                return self.end_refused(task, rules, index, TimedRefusal { refusal, entered_at }).await;
            }
            Err(refusal) => {
                return Ok(WaitStep::End(end_denied(
                    answer,
                    &delay,
                    TimedRefusal { refusal, entered_at },
                    now,
                )));
            }
        };
        self.ticket = Some(slot.ticket());
        let wakes = slot.wakes();
        self.slot = Some(slot);
        // Leases may have been released since the call. The request learns of that only once it watches them, so it
        // asks again.
        let sees_releases = is_local || delay.has_forecast();
        let reason = match sees_releases && observer.is_some_and(|observer| observer.wakes == wakes) {
            true => {
                self.until_due(Postponement { due, release_rate: delay.release_rate(now), wakes }, delay)
                    .await
            }
            false => self.until_head(JoinPolicy::Join).await,
        };
        self.handle_wake(task, rules, index, reason, entered_at).await
    }

    /// Waits in its queue until the request may ask.
    async fn wait_for_head(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        policy: JoinPolicy,
    ) -> Result<WaitStep<'e>, EngineError> {
        let Some(entered_at) = self.slot.as_ref().map(|slot| slot.entered_at) else {
            return Ok(WaitStep::Arrive(None));
        };
        let reason = self.until_head(policy).await;
        self.handle_wake(task, rules, index, reason, entered_at).await
    }

    async fn handle_wake(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        reason: WakeReason,
        entered_at: Timestamp,
    ) -> Result<WaitStep<'e>, EngineError> {
        match reason {
            WakeReason::Changed => Ok(WaitStep::Changed),
            WakeReason::Refused(refusal) => {
                self.slot = None;
                self.end_refused(task, rules, index, TimedRefusal { refusal, entered_at }).await
            }
            WakeReason::Head(context) => {
                Ok(match self.engine.queue_with_earlier_head(task, rules, self.ticket, Some(index)) {
                    Some(earlier) => WaitStep::Arrive(Some(earlier)),
                    None => {
                        self.watch(delay_limit(task, rules, index));
                        WaitStep::Ask(index, context)
                    }
                })
            }
            // It is not the head, so an earlier request waits in this queue too. Do not move to another queue yet.
            WakeReason::MayJoin(context) => {
                Ok(match self.engine.queue_with_earlier_head(task, rules, self.ticket, Some(index)) {
                    Some(_) => WaitStep::WaitForHead(index, JoinPolicy::HeadOnly),
                    None => WaitStep::Ask(index, context),
                })
            }
        }
    }

    /// Asks, and then leaves with the answer or waits.
    async fn ask(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        context: AskContext,
    ) -> Result<WaitStep<'e>, EngineError> {
        let Some(slot) = &self.slot else { return Ok(WaitStep::Arrive(None)) };
        let (entered_at, mut now) = (slot.entered_at, self.engine.clock.now());
        let is_local = self.engine.store.is_local();
        let mut at = now;
        if is_local {
            let forecaster = delay_forecaster(self.engine, delay_limit(task, rules, index));
            let earliest = forecaster.map_or(now, |forecaster| forecaster.earliest(now));
            at = entered_at.max(context.not_before).max(earliest).min(now);
            slot.begin_ask();
        }
        loop {
            if self.deadline < at {
                let refused = TimedRefusal { refusal: Refusal::TooLong { wait: None }, entered_at };
                return self.end_refused(task, rules, index, refused).await;
            }
            // The request has waited, so the store gets a new deadline.
            task.session.reset();
            // It may have to enter the queue of another limit.
            let observers = match delay_limits(task, rules).len() {
                0 | 1 => SmallVec::new(),
                _ => self.observe_queues(task, rules),
            };
            let (answer, attempt) = self.engine.attempt(task, rules, index, at).await?;
            let delay = delay_limit(task, rules, index);
            let wait = match attempt {
                RequestAttempt::Admitted => {
                    let remaining_units = if is_local { 0 } else { remaining(&answer, &delay) };
                    if let Some(slot) = self.slot.take() {
                        let forecaster = delay_forecaster(self.engine, delay);
                        slot.leave(Admission { leaves_at: at, remaining_units }, forecaster.as_ref());
                    }
                    return Ok(WaitStep::End(WaitEnd { answer, at, refusal: None }));
                }
                RequestAttempt::Denied => return Ok(WaitStep::End(WaitEnd { answer, at, refusal: None })),
                RequestAttempt::WaitForLimit(other) => {
                    let observer = observers.into_iter().nth(other);
                    return Ok(WaitStep::Postpone(other, PostponedAttempt { answer, at, observer }));
                }
                RequestAttempt::Wait(wait) => wait,
            };
            if !is_local {
                now = self.engine.clock.now();
            }
            let decided_at = if is_local { at } else { now };
            let due = match self.wait_context(&delay, entered_at, decided_at, now).due(wait) {
                Ok(due) => due,
                Err(refusal) => {
                    return Ok(WaitStep::End(end_denied(
                        answer,
                        &delay,
                        TimedRefusal { refusal, entered_at },
                        now,
                    )));
                }
            };
            if is_local && due <= now {
                at = due;
                continue;
            }
            let postponement =
                Postponement { due, release_rate: delay.release_rate(now), wakes: context.wakes };
            let reason = self.until_due(postponement, delay).await;
            return self.handle_wake(task, rules, index, reason, entered_at).await;
        }
    }

    /// Observes the queues that the request may have to enter. Call it before asking.
    fn observe_queues(&self, task: &DecideTask, rules: &Ruleset) -> SmallVec<[QueueObserver<'e>; 1]> {
        delay_limits(task, rules).iter().map(|delay| self.engine.queues.observe(&queue_key(delay))).collect()
    }

    async fn enter(&self, delay: DelayLimit<'_>, entered_at: Timestamp) -> Result<QueueSlot<'e, C>, Refusal> {
        let engine = self.engine;
        let waiter = NewWaiter {
            ticket: self.ticket,
            cost: delay.cost,
            entered_at,
            deadline: Some(self.deadline),
            leaves_at: None,
        };
        let forecaster = delay_forecaster(engine, delay);
        QueueSlot::enter(&engine.queues, &engine.clock, &queue_key(&delay), waiter, forecaster.as_ref()).await
    }

    /// Asks a shared store to announce leases that other nodes release.
    fn watch(&mut self, delay: DelayLimit<'_>) {
        let store = &self.engine.store;
        if let Some(slot) = &mut self.slot
            && !store.is_local()
            && !delay.has_forecast()
        {
            slot.watch(|| store.watch(&delay.plan(self.engine.clock.now())));
        }
    }

    async fn until_head(&self, policy: JoinPolicy) -> WakeReason {
        match &self.slot {
            Some(slot) => slot.until_head(policy, || self.is_changed()).await,
            None => WakeReason::Changed,
        }
    }

    async fn until_due(&mut self, postponement: Postponement, delay: DelayLimit<'_>) -> WakeReason {
        let (engine, changes) = (self.engine, self.changes);
        let forecaster = delay_forecaster(engine, delay);
        let is_changed = || engine.changes() != changes;
        match &mut self.slot {
            Some(slot) => slot.until_due(postponement, forecaster.as_ref(), is_changed).await,
            None => WakeReason::Changed,
        }
    }

    fn is_changed(&self) -> bool {
        self.engine.changes() != self.changes
    }

    fn wait_context(
        &self,
        delay: &DelayLimit<'_>,
        entered_at: Timestamp,
        decided_at: Timestamp,
        now: Timestamp,
    ) -> WaitContext {
        let forecaster = delay_forecaster(self.engine, *delay);
        WaitContext {
            entered_at,
            decided_at,
            now,
            deadline: Some(self.deadline),
            next_expiry: delay.next_expiry(decided_at),
            is_forecastable: match &forecaster {
                Some(forecaster) => forecaster.is_forecastable(now),
                None => delay.has_forecast(),
            },
            has_forecaster: forecaster.is_some(),
            is_watched: self.slot.as_ref().is_some_and(QueueSlot::is_watched),
        }
    }

    /// Ends a request that does not wait, or stops waiting, without an attempt.
    async fn end_refused(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        refused: TimedRefusal,
    ) -> Result<WaitStep<'e>, EngineError> {
        self.slot = None;
        task.session.reset();
        let now = self.engine.clock.now();
        let answer = self.engine.ask(task, rules, Op::Peek, now).await?;
        Ok(WaitStep::End(end_denied(answer, &delay_limit(task, rules, index), refused, now)))
    }
}

/// Ends a request that is denied because it does not wait, or stops waiting.
fn end_denied(mut answer: Answer, delay: &DelayLimit<'_>, refused: TimedRefusal, now: Timestamp) -> WaitEnd {
    let retry_after = match refused.refusal {
        Refusal::Never => Wait::NEVER,
        Refusal::TooLong { wait: Some(wait) } => {
            at_least_one_ns(elapsed(now, refused.entered_at.saturating_add(wait)))
        }
        Refusal::TooLong { wait: None } | Refusal::QueueFull => at_least_one_ns(Nanos::ZERO),
    };
    // `Unavailable` keeps its kind: the store did not answer.
    if answer.kind != AnswerKind::Unavailable {
        answer.deny(delay.index, retry_after);
    }
    WaitEnd { answer, at: now, refusal: Some(refused.refusal) }
}

pub(super) fn elapsed(from: Timestamp, to: Timestamp) -> Nanos {
    Nanos::new(u128::from(to.as_nanos().saturating_sub(from.as_nanos())))
}

/// A denial has a retry time of at least one nanosecond.
fn at_least_one_ns(wait: Nanos) -> Wait {
    Wait::of(wait.max(Nanos::new(1)))
}
