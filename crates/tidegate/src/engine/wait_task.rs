//! One request that waits: it comes, enters a queue, asks when it is its turn, and ends with an answer. See `wait.rs`.

use smallvec::SmallVec;
use tidegate_core::rules::{DelayLimit, AnswerKind, MatchedLimits, Ruleset};
use tidegate_core::{Nanos, Op, Timestamp, Wait};

use super::decide::DecideTask;
use super::delay_queue::{delay_forecaster, queue_key};
use super::judge::{RequestAttempt, counts_denied, delay, delays, classify_attempt, remaining, retry_after};
use super::{ActiveRules, Answer, EngineError, EngineInner};
use crate::store::Store;
use crate::queue::{
    Admission, JoinPolicy, WaitContext, Forecaster, NewWaiter, QueueObserver, Postponement, QueueSlot, Ticket, AskContext, WakeReason,
};
use crate::{Clock, Refusal, Timer};

/// A request that may have to wait.
pub(super) struct WaitTask<'e, C: Timer, S: Store> {
    engine: &'e EngineInner<C, S>,
    pub arrived_at: Timestamp,
    /// When it gives up: the earliest that any limit says which it waited for, or the caller.
    pub deadline: Timestamp,
    /// Its position among all that wait, once it has one.
    ticket: Option<Ticket>,
    pub slot: Option<QueueSlot<'e, C>>,
    /// How often the rules had changed when they were last looked at.
    changes: u64,
}

/// What comes next. Limits are known by their positions among those that may hold the request.
enum WaitStep<'e> {
    /// To enter the queue of this limit; or any.
    Arrive(Option<usize>),
    /// To wait for its turn in the queue of this limit.
    WaitForHead(usize, JoinPolicy),
    /// To ask, in the queue of this limit.
    Ask(usize, AskContext),
    /// To wait for this limit, for as long as the answer says.
    Postpone(usize, PostponedAttempt<'e>),
    /// Nothing: it ended.
    End(WaitEnd),
    /// To match the request again.
    Changed,
}

/// What a request was told that has to wait.
struct PostponedAttempt<'e> {
    answer: Answer,
    /// When it asked.
    at: Timestamp,
    /// The queue that it has to enter, as it was before it asked.
    observer: Option<QueueObserver<'e>>,
}

/// How a request ended.
pub(super) struct WaitEnd {
    pub answer: Answer,
    /// As of when.
    pub at: Timestamp,
    /// Why it was not held, or no longer, if it was denied for that.
    pub refusal: Option<Refusal>,
}

/// Why a request does not wait, and since when it asked to.
#[derive(Clone, Copy)]
struct TimedRefusal {
    refusal: Refusal,
    entered_at: Timestamp,
}

impl<'e, C: Timer, S: Store> WaitTask<'e, C, S> {
    pub fn new(engine: &'e EngineInner<C, S>, arrived: Timestamp) -> Self {
        Self {
            engine,
            arrived_at: arrived,
            deadline: Timestamp::from_nanos(u64::MAX),
            ticket: None,
            slot: None,
            changes: 0,
        }
    }

    /// Goes as far as it can by these rules; none if they have changed.
    pub async fn run(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        changes: u64,
    ) -> Result<Option<WaitEnd>, EngineError> {
        if !task.evaluation.matched().may_wait() {
            // The rule is gone that it waited for.
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
                WaitStep::WaitForHead(index, company) => self.wait_for_head(task, rules, index, company).await?,
                WaitStep::Ask(index, turn) => self.ask(task, rules, index, turn).await?,
                WaitStep::Postpone(index, told) => self.postpone(task, rules, index, told).await?,
                WaitStep::End(end) => return Ok(Some(end)),
                WaitStep::Changed => return Ok(None),
            };
        }
    }

    /// Where it begins by rules that it has not seen before: in its queue, unless that limit is gone.
    fn first_step(&mut self, task: &DecideTask, rules: &Ruleset) -> WaitStep<'e> {
        let Some(slot) = &self.slot else { return WaitStep::Arrive(None) };
        match delays(task, rules).iter().position(|delay| *queue_key(delay) == *slot.key()) {
            Some(index) => WaitStep::WaitForHead(index, JoinPolicy::Join),
            None => {
                self.slot = None;
                WaitStep::Arrive(None)
            }
        }
    }

    /// It comes, or comes from another queue.
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
        let (is_possible, max_wait) = {
            let delay = delay(task, rules, index);
            (delay.is_admissible(), delay.max_wait)
        };
        self.deadline = self.deadline.min(self.arrived_at.saturating_add(max_wait));
        if !is_possible {
            return self.end_refused(task, rules, index, TimedRefusal { refusal: Refusal::Never, entered_at: now }).await;
        }
        if waits_in.is_none() {
            return self.ask_on_arrival(task, rules, index, now).await;
        }
        match self.enter(delay(task, rules, index), now).await {
            Err(refusal) => self.end_refused(task, rules, index, TimedRefusal { refusal, entered_at: now }).await,
            Ok(slot) => {
                self.ticket = Some(slot.ticket());
                self.slot = Some(slot);
                Ok(WaitStep::WaitForHead(index, JoinPolicy::Join))
            }
        }
    }

    /// It asks without a queue, because no request waits that came earlier.
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
        // Should it have to wait, it does so in front of all that come while it asks.
        self.ticket.get_or_insert_with(|| self.engine.queues.next_ticket());
        let observed = self.observe_queues(task, rules);
        let (answer, judged) = self.engine.attempt(task, rules, index, at).await?;
        let index = match judged {
            RequestAttempt::Admitted | RequestAttempt::Denied => return Ok(WaitStep::End(WaitEnd { answer, at, refusal: None })),
            RequestAttempt::Wait(_) => index,
            RequestAttempt::WaitForLimit(other) => other,
        };
        let observed = observed.into_iter().nth(index);
        Ok(WaitStep::Postpone(index, PostponedAttempt { answer, at, observer: observed }))
    }

    /// It enters a queue because it was told to wait, without asking anew. If others are in front, they go first.
    async fn postpone(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        told: PostponedAttempt<'e>,
    ) -> Result<WaitStep<'e>, EngineError> {
        let PostponedAttempt { answer, at, observer: observed } = told;
        self.slot = None;
        let now = self.engine.clock.now();
        // A shared store decided when it was asked, by its own clock.
        let is_local = self.engine.store.is_local();
        let (since, asked) = if is_local { (now, at) } else { (at, now) };
        let delay = delay(task, rules, index);
        self.deadline = self.deadline.min(self.arrived_at.saturating_add(delay.max_wait));
        let wait = retry_after(&answer, &delay);
        let entered = match self.wait_context(&delay, since, asked, now).due(wait) {
            Ok(due) => self.enter(delay, since).await.map(|slot| (due, slot)),
            Err(refusal) => Err(refusal),
        };
        let (due, slot) = match entered {
            Ok(entered) => entered,
            Err(refusal) if is_local => {
                return self.end_refused(task, rules, index, TimedRefusal { refusal, entered_at: since }).await;
            }
            Err(refusal) => return Ok(WaitStep::End(end_denied(answer, &delay, TimedRefusal { refusal, entered_at: since }, now))),
        };
        self.ticket = Some(slot.ticket());
        let wakes = slot.wakes();
        self.slot = Some(slot);
        // Leases may have been released since it asked, which it hears of once it watches them.
        let is_told = is_local || delay.has_forecast();
        let woken = match is_told && observed.is_some_and(|observed| observed.wakes == wakes) {
            true => self.until_due(Postponement { due, release_rate: delay.release_rate(now), wakes }, delay).await,
            false => self.until_head(JoinPolicy::Join).await,
        };
        self.handle_wake(task, rules, index, woken, since).await
    }

    /// It waits for its turn.
    async fn wait_for_head(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        company: JoinPolicy,
    ) -> Result<WaitStep<'e>, EngineError> {
        let Some(since) = self.slot.as_ref().map(|slot| slot.entered_at) else { return Ok(WaitStep::Arrive(None)) };
        let woken = self.until_head(company).await;
        self.handle_wake(task, rules, index, woken, since).await
    }

    async fn handle_wake(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        woken: WakeReason,
        since: Timestamp,
    ) -> Result<WaitStep<'e>, EngineError> {
        match woken {
            WakeReason::Changed => Ok(WaitStep::Changed),
            WakeReason::Refused(refusal) => {
                self.slot = None;
                self.end_refused(task, rules, index, TimedRefusal { refusal, entered_at: since }).await
            }
            WakeReason::Head(turn) => Ok(match self.engine.queue_with_earlier_head(task, rules, self.ticket, Some(index)) {
                Some(earlier) => WaitStep::Arrive(Some(earlier)),
                None => {
                    self.watch(delay(task, rules, index));
                    WaitStep::Ask(index, turn)
                }
            }),
            // Another request came earlier here as well, so it has no reason to go elsewhere yet.
            WakeReason::MayJoin(turn) => Ok(match self.engine.queue_with_earlier_head(task, rules, self.ticket, Some(index)) {
                Some(_) => WaitStep::WaitForHead(index, JoinPolicy::HeadOnly),
                None => WaitStep::Ask(index, turn),
            }),
        }
    }

    /// It asks, and leaves with the answer or waits.
    async fn ask(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        turn: AskContext,
    ) -> Result<WaitStep<'e>, EngineError> {
        let Some(slot) = &self.slot else { return Ok(WaitStep::Arrive(None)) };
        let (since, mut now) = (slot.entered_at, self.engine.clock.now());
        let is_local = self.engine.store.is_local();
        let mut at = now;
        if is_local {
            let forecaster = delay_forecaster(self.engine, delay(task, rules, index));
            let earliest = forecaster.map_or(now, |forecaster| forecaster.earliest(now));
            at = since.max(turn.not_before).max(earliest).min(now);
            slot.begin_ask();
        }
        loop {
            if self.deadline < at {
                let refused = TimedRefusal { refusal: Refusal::TooLong { wait: None }, entered_at: since };
                return self.end_refused(task, rules, index, refused).await;
            }
            // It has waited for its turn, so the store has a new deadline.
            task.session.reset();
            // It may have to enter the queue of another limit.
            let observed = match delays(task, rules).len() {
                0 | 1 => SmallVec::new(),
                _ => self.observe_queues(task, rules),
            };
            let (answer, judged) = self.engine.attempt(task, rules, index, at).await?;
            let delay = delay(task, rules, index);
            let wait = match judged {
                RequestAttempt::Admitted => {
                    let left_units = if is_local { 0 } else { remaining(&answer, &delay) };
                    if let Some(slot) = self.slot.take() {
                        let forecaster = delay_forecaster(self.engine, delay);
                        slot.leave(Admission { leaves_at: at, remaining_units: left_units }, forecaster.as_ref());
                    }
                    return Ok(WaitStep::End(WaitEnd { answer, at, refusal: None }));
                }
                RequestAttempt::Denied => return Ok(WaitStep::End(WaitEnd { answer, at, refusal: None })),
                RequestAttempt::WaitForLimit(other) => {
                    let observed = observed.into_iter().nth(other);
                    return Ok(WaitStep::Postpone(other, PostponedAttempt { answer, at, observer: observed }));
                }
                RequestAttempt::Wait(wait) => wait,
            };
            if !is_local {
                now = self.engine.clock.now();
            }
            let asked = if is_local { at } else { now };
            let due = match self.wait_context(&delay, since, asked, now).due(wait) {
                Ok(due) => due,
                Err(refusal) => {
                    return Ok(WaitStep::End(end_denied(answer, &delay, TimedRefusal { refusal, entered_at: since }, now)));
                }
            };
            if is_local && due <= now {
                at = due;
                continue;
            }
            let postponement = Postponement { due, release_rate: delay.release_rate(now), wakes: turn.wakes };
            let woken = self.until_due(postponement, delay).await;
            return self.handle_wake(task, rules, index, woken, since).await;
        }
    }

    /// The queues that it may have to enter, before it asks.
    fn observe_queues(&self, task: &DecideTask, rules: &Ruleset) -> SmallVec<[QueueObserver<'e>; 1]> {
        delays(task, rules).iter().map(|delay| self.engine.queues.observe(&queue_key(delay))).collect()
    }

    async fn enter(&self, delay: DelayLimit<'_>, since: Timestamp) -> Result<QueueSlot<'e, C>, Refusal> {
        let engine = self.engine;
        let newcomer = NewWaiter {
            ticket: self.ticket,
            cost: delay.cost,
            entered_at: since,
            deadline: Some(self.deadline),
            leaves_at: None,
        };
        let forecaster = delay_forecaster(engine, delay);
        QueueSlot::enter(&engine.queues, &engine.clock, &queue_key(&delay), newcomer, forecaster.as_ref())
            .await
    }

    /// Lets a shared store tell when other nodes release leases.
    fn watch(&mut self, delay: DelayLimit<'_>) {
        let store = &self.engine.store;
        if let Some(slot) = &mut self.slot
            && !store.is_local()
            && !delay.has_forecast()
        {
            slot.watch(|| store.watch(&delay.plan(self.engine.clock.now())));
        }
    }

    async fn until_head(&self, company: JoinPolicy) -> WakeReason {
        match &self.slot {
            Some(slot) => slot.until_head(company, || self.is_changed()).await,
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

    fn wait_context(&self, delay: &DelayLimit<'_>, since: Timestamp, at: Timestamp, now: Timestamp) -> WaitContext {
        let forecaster = delay_forecaster(self.engine, *delay);
        WaitContext {
            entered_at: since,
            decided_at: at,
            now,
            deadline: Some(self.deadline),
            next_expiry: delay.next_expiry(at),
            is_forecastable: match &forecaster {
                Some(forecaster) => forecaster.is_forecastable(now),
                None => delay.has_forecast(),
            },
            has_forecaster: forecaster.is_some(),
            is_watched: self.slot.as_ref().is_some_and(QueueSlot::is_watched),
        }
    }

    /// The answer to a request that does not wait, or no longer, without having asked.
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
        Ok(WaitStep::End(end_denied(answer, &delay(task, rules, index), refused, now)))
    }
}

impl<C: Timer, S: Store> EngineInner<C, S> {
    /// Asks about all limits of the request.
    async fn ask(
        &self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        op: Op,
        at: Timestamp,
    ) -> Result<Answer, EngineError> {
        task.evaluation.restart(op, at);
        let step = task.run(self, rules)?;
        task.run_async(self, rules, step).await?;
        let mut answer = Answer::undecided(rules.clone());
        task.write_answer(&mut answer);
        Ok(answer)
    }

    /// Asks about all limits of the request, and what that means for it in the queue of one of them.
    pub(super) async fn attempt(
        &self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        at: Timestamp,
    ) -> Result<(Answer, RequestAttempt), EngineError> {
        // A request that waits makes one attempt, when it leaves: until then it only peeks.
        if counts_denied(task.evaluation.matched(), rules, at) {
            let answer = self.ask(task, rules, Op::Peek, at).await?;
            let judged = classify_attempt(&answer, task, rules, index);
            if let RequestAttempt::Wait(_) | RequestAttempt::WaitForLimit(_) = judged {
                return Ok((answer, judged));
            }
        }
        let answer = self.ask(task, rules, task.op, at).await?;
        let judged = classify_attempt(&answer, task, rules, index);
        Ok((answer, judged))
    }

    /// One of the limits that may hold a request for which another request waits that came earlier, but for the one whose queue it is
    /// in. A request does not overtake others where they wait, whatever it waits for itself.
    pub(super) fn queue_with_earlier_head(
        &self,
        task: &DecideTask,
        rules: &Ruleset,
        ticket: Option<Ticket>,
        waits_in: Option<usize>,
    ) -> Option<usize> {
        let came_earlier = |head: Ticket| ticket.is_none_or(|ticket| head < ticket);
        let all = delays(task, rules);
        let others = (0..all.len()).filter(|index| Some(*index) != waits_in);
        others.into_iter().find(|index| self.queues.head(&queue_key(&all[*index])).is_some_and(came_earlier))
    }
}

impl<C: Clock, S> EngineInner<C, S> {
    /// Wakes the requests that wait for the same keys: units may have come back.
    pub(super) fn wake_waiters(&self, matched: &MatchedLimits, rules: &Ruleset) {
        let now = self.clock.now();
        matched.queue_limits(rules).for_each(|delay| self.queue_group.wake(&queue_key(&delay), now));
    }
}

/// The end of a request that does not wait, or no longer, though it is not admitted.
fn end_denied(mut answer: Answer, delay: &DelayLimit<'_>, refused: TimedRefusal, now: Timestamp) -> WaitEnd {
    let retry_after = match refused.refusal {
        Refusal::Never => Wait::NEVER,
        Refusal::TooLong { wait: Some(wait) } => at_least_one_ns(elapsed(now, refused.entered_at.saturating_add(wait))),
        Refusal::TooLong { wait: None } | Refusal::QueueFull => at_least_one_ns(Nanos::ZERO),
    };
    // A request that is unavailable is not denied because too many wait.
    if answer.kind != AnswerKind::Unavailable {
        answer.deny(delay.index, retry_after);
    }
    WaitEnd { answer, at: now, refusal: Some(refused.refusal) }
}

pub(super) fn elapsed(from: Timestamp, to: Timestamp) -> Nanos {
    Nanos::new(u128::from(to.as_nanos().saturating_sub(from.as_nanos())))
}

/// Not at once, or it would not be a denial.
fn at_least_one_ns(wait: Nanos) -> Wait {
    Wait::of(wait.max(Nanos::new(1)))
}
