//! One request that waits: it comes, enters a queue, asks when it is its turn, and ends with an answer. See `wait.rs`.

use tidegate_core::rules::{Delay, Fate, MatchedLimits, Ruleset};
use tidegate_core::{Nanos, Op, Timestamp, Wait};

use super::decide::DecideTask;
use super::judge::{Judged, counts_denied, delay, delays, judge, remaining, retry_after};
use super::queue_slot::{Company, Newcomer, QueueSlot, Turn, Woken, forecaster_of, queue_key};
use super::{ActiveRules, Answer, EngineError, Inner};
use crate::store::Store;
use crate::waiting::{Admission, Forecaster, LATE_NS_MAX, PutOff, Stood, Ticket};
use crate::{Clock, Refusal, Timer};

/// How often the head of a queue asks a shared store for leases, whose release by other nodes is not announced.
const POLL_LEASES_EVERY_NS: u128 = 100_000_000;

/// A request that may have to wait.
pub(super) struct Waiting<'e, C: Timer, S: Store> {
    engine: &'e Inner<C, S>,
    pub arrived: Timestamp,
    /// When it gives up: the earliest that any limit says which it waited for.
    deadline: Timestamp,
    /// Its position among all that wait, once it has one.
    ticket: Option<Ticket>,
    pub slot: Option<QueueSlot<'e, C, S>>,
}

/// What comes next. Limits are known by their positions among those that may hold the request.
enum Next {
    /// To enter the queue of this limit; or any.
    Arrive(Option<usize>),
    /// To wait for its turn in the queue of this limit.
    Stand(usize, Company),
    /// To ask, in the queue of this limit.
    Ask(usize, Turn),
    /// To wait for this limit, for as long as the answer says.
    PutOff(usize, Told),
    /// Nothing: it ended.
    End(End),
    /// To match the request again.
    Changed,
}

/// What a request was told that has to wait.
struct Told {
    answer: Answer,
    /// When it asked.
    at: Timestamp,
    /// How often units may have come back before that, in all queues.
    wakes_of_all: u64,
}

/// How a request ended.
pub(super) struct End {
    pub answer: Answer,
    /// As of when.
    pub at: Timestamp,
    /// Why it was not held, or no longer, if it was denied for that.
    pub refusal: Option<Refusal>,
}

/// When a request asked.
#[derive(Clone, Copy)]
struct Asked {
    /// When it came to its queue.
    since: Timestamp,
    /// The instant that it was decided as of.
    at: Timestamp,
    now: Timestamp,
}

/// Why a request does not wait, and since when it asked to.
#[derive(Clone, Copy)]
struct Refused {
    refusal: Refusal,
    since: Timestamp,
}

impl<'e, C: Timer, S: Store> Waiting<'e, C, S> {
    pub fn new(engine: &'e Inner<C, S>, arrived: Timestamp) -> Self {
        Self { engine, arrived, deadline: Timestamp::from_nanos(u64::MAX), ticket: None, slot: None }
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
        let mut next = self.begin(task, rules, changes);
        loop {
            next = match next {
                Next::Arrive(index) => self.arrive(task, rules, changes, index).await?,
                Next::Stand(index, company) => self.stand(task, rules, index, company).await?,
                Next::Ask(index, turn) => self.ask(task, rules, index, turn).await?,
                Next::PutOff(index, told) => self.put_off(task, rules, changes, index, told).await?,
                Next::End(end) => return Ok(Some(end)),
                Next::Changed => return Ok(None),
            };
        }
    }

    /// Where it begins by rules that it has not seen before: in its queue, unless that limit is gone.
    fn begin(&mut self, task: &DecideTask, rules: &Ruleset, changes: u64) -> Next {
        let Some(slot) = &mut self.slot else { return Next::Arrive(None) };
        slot.looked_at(changes);
        match delays(task, rules).iter().position(|delay| slot.is_of(delay)) {
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
        changes: u64,
        to: Option<usize>,
    ) -> Result<Next, EngineError> {
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
        let newcomer = Newcomer { ticket: self.ticket, since: now, deadline: self.deadline };
        let entered = QueueSlot::enter(self.engine, delay(task, rules, index), newcomer, changes).await;
        match entered {
            Err(refusal) => self.refused(task, rules, index, Refused { refusal, since: now }).await,
            Ok(slot) => {
                self.ticket = Some(slot.stood.ticket);
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
    ) -> Result<Next, EngineError> {
        if self.deadline < at {
            let refused = Refused { refusal: Refusal::TooLong { wait: None }, since: at };
            return self.refused(task, rules, index, refused).await;
        }
        // Should it have to wait, it does so in front of all that come while it asks.
        self.ticket.get_or_insert_with(|| self.engine.queues.next_ticket());
        let wakes_of_all = self.engine.queues.nudges();
        let (answer, judged) = self.engine.attempt(task, rules, index, at).await?;
        Ok(match judged {
            Judged::Passes | Judged::Denied => Next::End(End { answer, at, refusal: None }),
            Judged::Waits(_) => Next::PutOff(index, Told { answer, at, wakes_of_all }),
            Judged::WaitsFor(other) => Next::PutOff(other, Told { answer, at, wakes_of_all }),
        })
    }

    /// It enters a queue because it was told to wait, without asking anew. If others are in front, they go first.
    async fn put_off(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        changes: u64,
        index: usize,
        told: Told,
    ) -> Result<Next, EngineError> {
        let Told { answer, at, wakes_of_all } = told;
        self.slot = None;
        let now = self.engine.clock.now();
        // A shared store decided when it was asked, by its own clock.
        let is_local = self.engine.store.is_local();
        let (since, asked) = if is_local { (now, at) } else { (at, now) };
        let delay = delay(task, rules, index);
        self.deadline = self.deadline.min(self.arrived.saturating_add(delay.max_wait));
        let wait = retry_after(&answer, &delay);
        let newcomer = Newcomer { ticket: self.ticket, since, deadline: self.deadline };
        let entered = match self.due(&delay, Asked { since, at: asked, now }, wait) {
            Ok(due) => QueueSlot::enter(self.engine, delay, newcomer, changes).await.map(|slot| (due, slot)),
            Err(refusal) => Err(refusal),
        };
        let (due, slot) = match entered {
            Ok(entered) => entered,
            Err(refusal) if is_local => {
                return self.refused(task, rules, index, Refused { refusal, since }).await;
            }
            Err(refusal) => return Ok(Next::End(denied(answer, &delay, Refused { refusal, since }, now))),
        };
        self.ticket = Some(slot.stood.ticket);
        let slot = self.slot.insert(slot);
        let woken = match slot.stood {
            Stood { nudges, nudges_of_all: of_all, .. } if of_all == wakes_of_all => {
                slot.until_due(PutOff { due, pace: delay.pace(now), nudges }, delay).await
            }
            _ => slot.until_head(Company::Joins).await,
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
    ) -> Result<Next, EngineError> {
        let Some(slot) = &self.slot else { return Ok(Next::Arrive(None)) };
        let (woken, since) = (slot.until_head(company).await, slot.since);
        self.woken(task, rules, index, woken, since).await
    }

    async fn woken(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        woken: Woken,
        since: Timestamp,
    ) -> Result<Next, EngineError> {
        match woken {
            Woken::Changed => Ok(Next::Changed),
            Woken::Refused(refusal) => {
                self.slot = None;
                self.refused(task, rules, index, Refused { refusal, since }).await
            }
            Woken::Head(turn) => Ok(match self.engine.earlier_in(task, rules, self.ticket, Some(index)) {
                Some(earlier) => Next::Arrive(Some(earlier)),
                None => Next::Ask(index, turn),
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
    ) -> Result<Next, EngineError> {
        let Some(slot) = &self.slot else { return Ok(Next::Arrive(None)) };
        let (since, mut now) = (slot.since, self.engine.clock.now());
        let is_local = self.engine.store.is_local();
        let mut at = now;
        if is_local {
            at = since.max(turn.left).max(earliest(self.engine, delay(task, rules, index), now)).min(now);
            slot.begin_ask();
        }
        loop {
            if self.deadline < at {
                let refused = Refused { refusal: Refusal::TooLong { wait: None }, since };
                return self.refused(task, rules, index, refused).await;
            }
            // It has waited for its turn, so the store has a new deadline.
            task.asks.renew();
            let wakes_of_all = self.engine.queues.nudges();
            let (answer, judged) = self.engine.attempt(task, rules, index, at).await?;
            let delay = delay(task, rules, index);
            let wait = match judged {
                Judged::Passes => {
                    let left_units = if is_local { 0 } else { remaining(&answer, &delay) };
                    if let Some(slot) = self.slot.take() {
                        slot.leave(Admission { at, left_units }, delay);
                    }
                    return Ok(Next::End(End { answer, at, refusal: None }));
                }
                Judged::Denied => return Ok(Next::End(End { answer, at, refusal: None })),
                Judged::WaitsFor(other) => {
                    return Ok(Next::PutOff(other, Told { answer, at, wakes_of_all }));
                }
                Judged::Waits(wait) => wait,
            };
            if !is_local {
                now = self.engine.clock.now();
            }
            let asked = Asked { since, at: if is_local { at } else { now }, now };
            let due = match self.due(&delay, asked, wait) {
                Ok(due) => due,
                Err(refusal) => {
                    return Ok(Next::End(denied(answer, &delay, Refused { refusal, since }, now)));
                }
            };
            if is_local && due <= now {
                at = due;
                continue;
            }
            let put_off = PutOff { due, pace: delay.pace(now), nudges: turn.wakes };
            let woken = slot.until_due(put_off, delay).await;
            return self.woken(task, rules, index, woken, since).await;
        }
    }

    /// When to ask again if it has to wait this long from when it asked: no later than when a superseded counter is gone, which may
    /// be the one that it waits for.
    fn due(&self, delay: &Delay<'_>, asked: Asked, wait: Wait) -> Result<Timestamp, Refusal> {
        let Asked { since, at, now } = asked;
        let due = wait.span().map(|wait| at.saturating_add(wait.max(Nanos::new(1))));
        let due = due.into_iter().chain(delay.retires(at)).min().filter(|due| *due > at);
        let Some(due) = due else { return Err(Refusal::Never) };
        let forecaster = forecaster_of(self.engine, *delay);
        let is_foreseeable = match &forecaster {
            Some(forecaster) => forecaster.is_foreseeable(now),
            None => delay.is_foreseeable(),
        };
        match (is_foreseeable, &forecaster) {
            // The forecast says whether it is too late.
            (true, Some(_)) => Ok(due),
            (true, None) if due > self.deadline => Err(Refusal::TooLong { wait: Some(span(since, due)) }),
            (true, None) => Ok(due),
            (false, _) if self.deadline <= now => Err(Refusal::TooLong { wait: None }),
            (false, Some(_)) => Ok(due.min(self.deadline)),
            (false, None) => {
                Ok(due.min(self.deadline).min(now.saturating_add(Nanos::new(POLL_LEASES_EVERY_NS))))
            }
        }
    }

    /// The answer to a request that does not wait, or no longer, without having asked.
    async fn refused(
        &mut self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        refused: Refused,
    ) -> Result<Next, EngineError> {
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
        others.into_iter().find(|index| self.queues.front(&queue_key(&all[*index])).is_some_and(came_earlier))
    }
}

impl<C: Clock, S> Inner<C, S> {
    /// Wakes the requests that wait for the same keys: units may have come back.
    pub(super) fn wake_waiters(&self, matched: &MatchedLimits, rules: &Ruleset) {
        let now = self.clock.now();
        matched.queues(rules).for_each(|delay| self.kin.nudge(&queue_key(&delay), now));
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

/// The instant as of which a request may be decided: when it was due, if its timer is a little late. A request that waits for leases
/// was not due before they were released.
fn earliest<C, S: Store>(engine: &Inner<C, S>, delay: Delay<'_>, now: Timestamp) -> Timestamp {
    let is_foreseeable =
        forecaster_of(engine, delay).is_some_and(|forecaster| forecaster.is_foreseeable(now));
    let late_ns_max = if is_foreseeable { LATE_NS_MAX } else { 0 };
    Timestamp::from_nanos(now.as_nanos().saturating_sub(late_ns_max))
}

pub(super) fn span(from: Timestamp, to: Timestamp) -> Nanos {
    Nanos::new(u128::from(to.as_nanos().saturating_sub(from.as_nanos())))
}

/// Not at once, or it would not be a denial.
fn at_least(wait: Nanos) -> Wait {
    Wait::of(wait.max(Nanos::new(1)))
}
