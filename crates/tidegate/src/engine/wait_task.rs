//! One request that waits: it comes, enters a queue, asks when it is its turn, and ends with an answer. See `wait.rs`.

use smallvec::SmallVec;
use tidegate_core::rules::{Delay, Fate, MatchedLimits, Ruleset};
use tidegate_core::{Nanos, Op, Timestamp, Wait};

use super::decide::DecideTask;
use super::delay_queue::{forecaster_of, queue_key};
use super::judge::{Judged, counts_denied, delay, delays, judge, remaining, retry_after};
use super::{ActiveRules, Answer, EngineError, Inner};
use crate::store::Store;
use crate::waiting::{
    Admission, Company, Delayed, Forecaster, Newcomer, Observed, Postponement, QueueSlot, Ticket, Turn, Woken,
};
use crate::{Clock, Refusal, Timer};

/// A request that may have to wait.
pub(super) struct Waiting<'e, C: Timer, S: Store> {
    engine: &'e Inner<C, S>,
    pub arrived: Timestamp,
    /// When it gives up: the earliest that any limit says which it waited for, or the caller.
    pub deadline: Timestamp,
    /// Its position among all that wait, once it has one.
    ticket: Option<Ticket>,
    pub slot: Option<QueueSlot<'e, C>>,
    /// How often the rules had changed when they were last looked at.
    changes: u64,
}

/// What comes next. Limits are known by their positions among those that may hold the request.
enum Next<'e> {
    /// To enter the queue of this limit; or any.
    Arrive(Option<usize>),
    /// To wait for its turn in the queue of this limit.
    Stand(usize, Company),
    /// To ask, in the queue of this limit.
    Ask(usize, Turn),
    /// To wait for this limit, for as long as the answer says.
    Postpone(usize, Told<'e>),
    /// Nothing: it ended.
    End(End),
    /// To match the request again.
    Changed,
}

/// What a request was told that has to wait.
struct Told<'e> {
    answer: Answer,
    /// When it asked.
    at: Timestamp,
    /// The queue that it has to enter, as it was before it asked.
    observed: Option<Observed<'e>>,
}

/// How a request ended.
pub(super) struct End {
    pub answer: Answer,
    /// As of when.
    pub at: Timestamp,
    /// Why it was not held, or no longer, if it was denied for that.
    pub refusal: Option<Refusal>,
}

/// Why a request does not wait, and since when it asked to.
#[derive(Clone, Copy)]
struct Refused {
    refusal: Refusal,
    since: Timestamp,
}

impl<'e, C: Timer, S: Store> Waiting<'e, C, S> {
    pub fn new(engine: &'e Inner<C, S>, arrived: Timestamp) -> Self {
        Self {
            engine,
            arrived,
            deadline: Timestamp::from_nanos(u64::MAX),
            ticket: None,
            slot: None,
            changes: 0,
        }
    }

    /// Goes as far as it can by these rules; none if they have changed.
    pub async fn until_end(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        changes: u64,
    ) -> Result<Option<End>, EngineError> {
        if !task.evaluation.matched().may_wait() {
            // The rule is gone that it waited for.
            self.slot = None;
            let at = self.engine.clock.now();
            let answer = self.engine.ask(task, rules, task.op, at).await?;
            return Ok(Some(End { answer, at, refusal: None }));
        }
        self.changes = changes;
        let mut next = self.begin(task, rules);
        loop {
            next = match next {
                Next::Arrive(index) => self.arrive(task, rules, index).await?,
                Next::Stand(index, company) => self.stand(task, rules, index, company).await?,
                Next::Ask(index, turn) => self.ask(task, rules, index, turn).await?,
                Next::Postpone(index, told) => self.postpone(task, rules, index, told).await?,
                Next::End(end) => return Ok(Some(end)),
                Next::Changed => return Ok(None),
            };
        }
    }

    /// Where it begins by rules that it has not seen before: in its queue, unless that limit is gone.
    fn begin(&mut self, task: &DecideTask, rules: &Ruleset) -> Next<'e> {
        let Some(slot) = &self.slot else { return Next::Arrive(None) };
        match delays(task, rules).iter().position(|delay| *queue_key(delay) == *slot.key()) {
            Some(index) => Next::Stand(index, Company::Joins),
            None => {
                self.slot = None;
                Next::Arrive(None)
            }
        }
    }

    /// It comes, or comes from another queue.
    async fn arrive(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        to: Option<usize>,
    ) -> Result<Next<'e>, EngineError> {
        self.slot = None;
        let waits_in = to.or_else(|| self.engine.earlier_in(task, rules, self.ticket, None));
        let index = waits_in.unwrap_or(0);
        let now = self.engine.clock.now();
        let (is_possible, max_wait) = {
            let delay = delay(task, rules, index);
            (delay.is_possible(), delay.max_wait)
        };
        self.deadline = self.deadline.min(self.arrived.saturating_add(max_wait));
        if !is_possible {
            return self.refused(task, rules, index, Refused { refusal: Refusal::Never, since: now }).await;
        }
        if waits_in.is_none() {
            return self.ask_at_once(task, rules, index, now).await;
        }
        match self.enter(delay(task, rules, index), now).await {
            Err(refusal) => self.refused(task, rules, index, Refused { refusal, since: now }).await,
            Ok(slot) => {
                self.ticket = Some(slot.ticket());
                self.slot = Some(slot);
                Ok(Next::Stand(index, Company::Joins))
            }
        }
    }

    /// It asks without a queue, because no request waits that came earlier.
    async fn ask_at_once(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        at: Timestamp,
    ) -> Result<Next<'e>, EngineError> {
        // A request that has not asked yet asks once, however short its maximum wait is.
        if self.ticket.is_some() && self.deadline < at {
            let refused = Refused { refusal: Refusal::TooLong { wait: None }, since: at };
            return self.refused(task, rules, index, refused).await;
        }
        // Should it have to wait, it does so in front of all that come while it asks.
        self.ticket.get_or_insert_with(|| self.engine.queues.next_ticket());
        let observed = self.observe(task, rules);
        let (answer, judged) = self.engine.attempt(task, rules, index, at).await?;
        let index = match judged {
            Judged::Passes | Judged::Denied => return Ok(Next::End(End { answer, at, refusal: None })),
            Judged::Waits(_) => index,
            Judged::WaitsFor(other) => other,
        };
        let observed = observed.into_iter().nth(index);
        Ok(Next::Postpone(index, Told { answer, at, observed }))
    }

    /// It enters a queue because it was told to wait, without asking anew. If others are in front, they go first.
    async fn postpone(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        told: Told<'e>,
    ) -> Result<Next<'e>, EngineError> {
        let Told { answer, at, observed } = told;
        self.slot = None;
        let now = self.engine.clock.now();
        // A shared store decided when it was asked, by its own clock.
        let is_local = self.engine.store.is_local();
        let (since, asked) = if is_local { (now, at) } else { (at, now) };
        let delay = delay(task, rules, index);
        self.deadline = self.deadline.min(self.arrived.saturating_add(delay.max_wait));
        let wait = retry_after(&answer, &delay);
        let entered = match self.delayed(&delay, since, asked, now).due(wait) {
            Ok(due) => self.enter(delay, since).await.map(|slot| (due, slot)),
            Err(refusal) => Err(refusal),
        };
        let (due, slot) = match entered {
            Ok(entered) => entered,
            Err(refusal) if is_local => {
                return self.refused(task, rules, index, Refused { refusal, since }).await;
            }
            Err(refusal) => return Ok(Next::End(denied(answer, &delay, Refused { refusal, since }, now))),
        };
        self.ticket = Some(slot.ticket());
        let wakes = slot.wakes();
        self.slot = Some(slot);
        // Leases may have been released since it asked, which it hears of once it watches them.
        let is_told = is_local || delay.is_foreseeable();
        let woken = match is_told && observed.is_some_and(|observed| observed.wakes == wakes) {
            true => self.until_due(Postponement { due, pace: delay.pace(now), wakes }, delay).await,
            false => self.until_head(Company::Joins).await,
        };
        self.woken(task, rules, index, woken, since).await
    }

    /// It waits for its turn.
    async fn stand(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        company: Company,
    ) -> Result<Next<'e>, EngineError> {
        let Some(since) = self.slot.as_ref().map(|slot| slot.since) else { return Ok(Next::Arrive(None)) };
        let woken = self.until_head(company).await;
        self.woken(task, rules, index, woken, since).await
    }

    async fn woken(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        woken: Woken,
        since: Timestamp,
    ) -> Result<Next<'e>, EngineError> {
        match woken {
            Woken::Changed => Ok(Next::Changed),
            Woken::Refused(refusal) => {
                self.slot = None;
                self.refused(task, rules, index, Refused { refusal, since }).await
            }
            Woken::Head(turn) => Ok(match self.engine.earlier_in(task, rules, self.ticket, Some(index)) {
                Some(earlier) => Next::Arrive(Some(earlier)),
                None => {
                    self.watch(delay(task, rules, index));
                    Next::Ask(index, turn)
                }
            }),
            // Another request came earlier here as well, so it has no reason to go elsewhere yet.
            Woken::Joins(turn) => Ok(match self.engine.earlier_in(task, rules, self.ticket, Some(index)) {
                Some(_) => Next::Stand(index, Company::Alone),
                None => Next::Ask(index, turn),
            }),
        }
    }

    /// It asks, and leaves with the answer or waits.
    async fn ask(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        turn: Turn,
    ) -> Result<Next<'e>, EngineError> {
        let Some(slot) = &self.slot else { return Ok(Next::Arrive(None)) };
        let (since, mut now) = (slot.since, self.engine.clock.now());
        let is_local = self.engine.store.is_local();
        let mut at = now;
        if is_local {
            let forecaster = forecaster_of(self.engine, delay(task, rules, index));
            let earliest = forecaster.map_or(now, |forecaster| forecaster.earliest(now));
            at = since.max(turn.left).max(earliest).min(now);
            slot.begin_ask();
        }
        loop {
            if self.deadline < at {
                let refused = Refused { refusal: Refusal::TooLong { wait: None }, since };
                return self.refused(task, rules, index, refused).await;
            }
            // It has waited for its turn, so the store has a new deadline.
            task.asks.renew();
            // It may have to enter the queue of another limit.
            let observed = match delays(task, rules).len() {
                0 | 1 => SmallVec::new(),
                _ => self.observe(task, rules),
            };
            let (answer, judged) = self.engine.attempt(task, rules, index, at).await?;
            let delay = delay(task, rules, index);
            let wait = match judged {
                Judged::Passes => {
                    let left_units = if is_local { 0 } else { remaining(&answer, &delay) };
                    if let Some(slot) = self.slot.take() {
                        let forecaster = forecaster_of(self.engine, delay);
                        slot.leave(Admission { leaves: at, left_units }, forecaster.as_ref());
                    }
                    return Ok(Next::End(End { answer, at, refusal: None }));
                }
                Judged::Denied => return Ok(Next::End(End { answer, at, refusal: None })),
                Judged::WaitsFor(other) => {
                    let observed = observed.into_iter().nth(other);
                    return Ok(Next::Postpone(other, Told { answer, at, observed }));
                }
                Judged::Waits(wait) => wait,
            };
            if !is_local {
                now = self.engine.clock.now();
            }
            let asked = if is_local { at } else { now };
            let due = match self.delayed(&delay, since, asked, now).due(wait) {
                Ok(due) => due,
                Err(refusal) => {
                    return Ok(Next::End(denied(answer, &delay, Refused { refusal, since }, now)));
                }
            };
            if is_local && due <= now {
                at = due;
                continue;
            }
            let postponement = Postponement { due, pace: delay.pace(now), wakes: turn.wakes };
            let woken = self.until_due(postponement, delay).await;
            return self.woken(task, rules, index, woken, since).await;
        }
    }

    /// The queues that it may have to enter, before it asks.
    fn observe(&self, task: &DecideTask, rules: &Ruleset) -> SmallVec<[Observed<'e>; 1]> {
        delays(task, rules).iter().map(|delay| self.engine.queues.observe(&queue_key(delay))).collect()
    }

    async fn enter(&self, delay: Delay<'_>, since: Timestamp) -> Result<QueueSlot<'e, C>, Refusal> {
        let engine = self.engine;
        let newcomer = Newcomer {
            ticket: self.ticket,
            cost: delay.cost,
            since,
            deadline: Some(self.deadline),
            leaves: None,
        };
        let forecaster = forecaster_of(engine, delay);
        QueueSlot::enter(&engine.queues, &engine.clock, &queue_key(&delay), newcomer, forecaster.as_ref())
            .await
    }

    /// Lets a shared store tell when other nodes release leases.
    fn watch(&mut self, delay: Delay<'_>) {
        let store = &self.engine.store;
        if let Some(slot) = &mut self.slot
            && !store.is_local()
            && !delay.is_foreseeable()
        {
            slot.watch(|| store.watch(&delay.plan(self.engine.clock.now())));
        }
    }

    async fn until_head(&self, company: Company) -> Woken {
        match &self.slot {
            Some(slot) => slot.until_head(company, || self.is_changed()).await,
            None => Woken::Changed,
        }
    }

    async fn until_due(&mut self, postponement: Postponement, delay: Delay<'_>) -> Woken {
        let (engine, changes) = (self.engine, self.changes);
        let forecaster = forecaster_of(engine, delay);
        let is_changed = || engine.changes() != changes;
        match &mut self.slot {
            Some(slot) => slot.until_due(postponement, forecaster.as_ref(), is_changed).await,
            None => Woken::Changed,
        }
    }

    fn is_changed(&self) -> bool {
        self.engine.changes() != self.changes
    }

    fn delayed(&self, delay: &Delay<'_>, since: Timestamp, at: Timestamp, now: Timestamp) -> Delayed {
        let forecaster = forecaster_of(self.engine, *delay);
        Delayed {
            since,
            at,
            now,
            deadline: Some(self.deadline),
            retires: delay.retires(at),
            is_foreseeable: match &forecaster {
                Some(forecaster) => forecaster.is_foreseeable(now),
                None => delay.is_foreseeable(),
            },
            is_forecast: forecaster.is_some(),
            is_watched: self.slot.as_ref().is_some_and(QueueSlot::is_watched),
        }
    }

    /// The answer to a request that does not wait, or no longer, without having asked.
    async fn refused(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        refused: Refused,
    ) -> Result<Next<'e>, EngineError> {
        self.slot = None;
        task.asks.renew();
        let now = self.engine.clock.now();
        let answer = self.engine.ask(task, rules, Op::Peek, now).await?;
        Ok(Next::End(denied(answer, &delay(task, rules, index), refused, now)))
    }
}

impl<C: Timer, S: Store> Inner<C, S> {
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
        task.run_later(self, rules, step).await?;
        let mut answer = Answer::undecided(rules.clone());
        task.answer(&mut answer);
        Ok(answer)
    }

    /// Asks about all limits of the request, and what that means for it in the queue of one of them.
    pub(super) async fn attempt(
        &self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        at: Timestamp,
    ) -> Result<(Answer, Judged), EngineError> {
        // A request that waits makes one attempt, when it leaves: until then it only peeks.
        if counts_denied(task.evaluation.matched(), rules, at) {
            let answer = self.ask(task, rules, Op::Peek, at).await?;
            let judged = judge(&answer, task, rules, index);
            if let Judged::Waits(_) | Judged::WaitsFor(_) = judged {
                return Ok((answer, judged));
            }
        }
        let answer = self.ask(task, rules, task.op, at).await?;
        let judged = judge(&answer, task, rules, index);
        Ok((answer, judged))
    }

    /// One of the limits that may hold a request for which another request waits that came earlier, but for the one whose queue it is
    /// in. A request does not overtake others where they wait, whatever it waits for itself.
    pub(super) fn earlier_in(
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

impl<C: Clock, S> Inner<C, S> {
    /// Wakes the requests that wait for the same keys: units may have come back.
    pub(super) fn wake_waiters(&self, matched: &MatchedLimits, rules: &Ruleset) {
        let now = self.clock.now();
        matched.queues(rules).for_each(|delay| self.queue_group.wake(&queue_key(&delay), now));
    }
}

/// The end of a request that does not wait, or no longer, though it is not admitted.
fn denied(mut answer: Answer, delay: &Delay<'_>, refused: Refused, now: Timestamp) -> End {
    let retry_after = match refused.refusal {
        Refusal::Never => Wait::NEVER,
        Refusal::TooLong { wait: Some(wait) } => at_least(span(now, refused.since.saturating_add(wait))),
        Refusal::TooLong { wait: None } | Refusal::QueueFull => at_least(Nanos::ZERO),
    };
    // A request that is unavailable is not denied because too many wait.
    if answer.fate != Fate::Unavailable {
        answer.deny(delay.place, retry_after);
    }
    End { answer, at: now, refusal: Some(refused.refusal) }
}

pub(super) fn span(from: Timestamp, to: Timestamp) -> Nanos {
    Nanos::new(u128::from(to.as_nanos().saturating_sub(from.as_nanos())))
}

/// Not at once, or it would not be a denial.
fn at_least(wait: Nanos) -> Wait {
    Wait::of(wait.max(Nanos::new(1)))
}
