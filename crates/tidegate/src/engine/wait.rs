//! Waiting for limits with the action `delay`, over any store.
//!
//! While no request waits for its limits, a request asks at once. If it has to wait it enters the queue of the limit that it has to
//! wait for longest, and sleeps until the store said that it may fit. From then on newcomers enter the queue behind it. The head of a
//! queue asks, sleeps, and asks again. A request keeps its position when it moves to another queue: positions are by when a request
//! came.
//!
//! No lock is held while a store is asked. Units may come back meanwhile, so a refund or a release counts that in the queue, and a
//! request compares the count before it sleeps. A request that asks before it is in a queue observes the queues that it may have to enter.
//!
//! The rules and signals may change while a request waits. A change is counted before the heads of all queues are woken, and a
//! request looks at the count before it sleeps; then it is matched again.
//!
//! What the memory store can do besides: forecast exactly when a request will be admitted, so that one which would wait too long is
//! refused at once; and decide a request as of the instant it was due, if its timer was late by at most [`LATE_NS_MAX`], so that
//! lateness does not add up.

use std::time::Duration;

use tidegate_core::rules::{Evaluation, Request};
use tidegate_core::{Nanos, Op, Timestamp};

use super::admitted::RequestCopy;
use super::decide::{DecideTask, WaitResult};
use super::judge::RequestAttempt;
use super::stages::StageTimer;
use super::wait_task::{WaitEnd, WaitTask, elapsed};
use super::{
    AcquireRequestFuture, ActiveRules, AdmittedRequest, DecideOutput, DecideFuture, Engine, EngineError, RequestRefused,
};
#[cfg(doc)]
use crate::LATE_NS_MAX;
use crate::Timer;
use crate::blocking::block_on;
use crate::store::Store;

/// Deciding, with a wait where a rule says so.
impl<C, S> Engine<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    /// Decides a request, and holds it while nothing but limits with the action `delay` keep it from passing: first come first
    /// served, for no longer than their `max_wait`, and not at all if it is known that it would have to wait for longer.
    ///
    /// It waits for its turn and for nothing else: the `delay` that a leaky bucket asks for is in the answer, for the caller to wait
    /// for or to pass on. Nothing is charged before it is its turn.
    ///
    /// Over a shared store, requests of this node wait in queues as they do without it. Requests of other nodes are not in these
    /// queues, so units may go to whichever asks first.
    ///
    /// ```
    /// use tidegate::Engine;
    /// use tidegate::rules::{self, Descriptor, Entry, Request};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let file = "
    /// domain: api
    /// rules:
    ///   - { name: crawl, key: [host], limit: 2 per second, action: { delay: { max_wait: 5s } } }
    /// ";
    /// let engine = Engine::new(rules::parse("api.yaml", file)?.domains)?;
    ///
    /// let entries = [Entry { key: "host", value: "example.org" }];
    /// let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
    /// let decided = engine.decide(&request).await?;
    /// assert!(decided.answer.fate.passes());
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn decide(&self, request: &Request<'_>) -> DecideFuture {
        self.decide_op(request, Op::Check, None, StageTimer::OFF)
    }

    /// As [`decide`](Self::decide), with the [stages](Decided::stages) timed, which costs a few readings of the clock.
    pub fn decide_timed(&self, request: &Request<'_>) -> DecideFuture {
        self.decide_op(request, Op::Check, None, StageTimer::on())
    }

    /// As [`decide`](Self::decide), and holds what the request takes from concurrency limits until the answer is dropped. It waits
    /// where a rule says so, and is refused where the rules deny it. A lease that is given back wakes the head of the queue.
    pub fn acquire(&self, request: &Request<'_>) -> AcquireRequestFuture<C, S> {
        let deciding = self.decide_op(request, Op::Acquire { ttl: None }, None, StageTimer::OFF);
        AcquireRequestFuture::new(self, request, deciding)
    }

    /// As [`acquire`](Self::acquire), and waits no longer than `max_wait`, also where a rule would let it wait longer.
    pub fn acquire_within(&self, request: &Request<'_>, max_wait: Duration) -> AcquireRequestFuture<C, S> {
        let deciding = self.decide_op(request, Op::Acquire { ttl: None }, Some(max_wait), StageTimer::OFF);
        AcquireRequestFuture::new(self, request, deciding)
    }

    /// As [`acquire`](Self::acquire), with the thread at hand.
    pub fn acquire_blocking(&self, request: &Request<'_>) -> Result<AdmittedRequest<C, S>, RequestRefused> {
        block_on(self.acquire(request))
    }

    /// As [`acquire_within`](Self::acquire_within), with the thread at hand.
    pub fn acquire_within_blocking(
        &self,
        request: &Request<'_>,
        max_wait: Duration,
    ) -> Result<AdmittedRequest<C, S>, RequestRefused> {
        block_on(self.acquire_within(request, max_wait))
    }

    /// As [`decide`](Self::decide), with the [lease](Decided::lease) of what the request takes from concurrency limits, for no longer
    /// than `ttl`: for a holder that is somewhere else. It is not given back by itself before its time is over.
    pub fn lease(&self, request: &Request<'_>, ttl: Option<Nanos>) -> DecideFuture {
        self.decide_op(request, Op::Acquire { ttl }, None, StageTimer::OFF)
    }

    /// As [`lease`](Self::lease), with the stages timed.
    pub fn lease_timed(&self, request: &Request<'_>, ttl: Option<Nanos>) -> DecideFuture {
        self.decide_op(request, Op::Acquire { ttl }, None, StageTimer::on())
    }

    #[inline]
    fn decide_op(
        &self,
        request: &Request<'_>,
        op: Op,
        max_wait: Option<Duration>,
        stages: StageTimer,
    ) -> DecideFuture {
        // Before the rules are read: a change that comes in between is noticed.
        let changes = self.inner.changes();
        let mut decided = DecideOutput::undecided(self.rules());
        let clock = &self.inner.clock;
        let mut task = DecideTask::new(op, Timestamp::from_nanos(0), stages);
        task.match_request(decided.answer.rules(), request, clock);
        task.evaluation.set_now(clock.now());
        if task.evaluation.matched().may_wait() {
            return self.decide_or_wait(request, task, decided.answer.into_rules(), changes, max_wait);
        }
        match task.start(&self.inner, &mut decided) {
            Ok(None) => DecideFuture::now(decided),
            Ok(Some(unfinished)) => self.finish_later(unfinished, task, decided),
            Err(error) => DecideFuture::failed(error),
        }
    }

    /// Decides a request that may have to wait: at once, if the store answers at once and it does not have to.
    #[inline(never)]
    fn decide_or_wait(
        &self,
        request: &Request<'_>,
        mut task: DecideTask,
        rules: ActiveRules,
        changes: u64,
        max_wait: Option<Duration>,
    ) -> DecideFuture {
        let engine = &*self.inner;
        let arrived = task.evaluation.now();
        if engine.store.is_local() && engine.queue_with_earlier_head(&task, &rules, None, None).is_none() {
            match super::operations::expect_ready(engine.attempt(&mut task, &rules, 0, arrived)) {
                Err(error) => return DecideFuture::failed(error),
                Ok((mut answer, RequestAttempt::Admitted | RequestAttempt::Denied)) => {
                    let candidates = task.ask_candidates(engine, &mut answer);
                    debug_assert!(candidates.is_empty(), "the memory store answers at once");
                    return DecideFuture::now(task.output(answer, WaitResult::NONE));
                }
                // It asks again in a queue.
                Ok((_, RequestAttempt::Wait(_) | RequestAttempt::WaitForLimit(_))) => {}
            }
        }
        let deadline = max_wait.map(|max_wait| arrived.saturating_add(Nanos::new(max_wait.as_nanos())));
        let request = RequestCopy::from_request(request);
        DecideFuture::later(wait(self.clone(), request, task, rules.into_owned(), changes, deadline))
    }
}

/// Decides a request that may have to wait. It is matched again if the rules change.
async fn wait<C, S>(
    engine: Engine<C, S>,
    request: RequestCopy,
    mut task: DecideTask,
    mut rules: ActiveRules,
    mut changes: u64,
    deadline: Option<Timestamp>,
) -> Result<DecideOutput, EngineError>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    let inner = &*engine.inner;
    let mut waiting = WaitTask::new(inner, task.evaluation.now());
    if let Some(deadline) = deadline {
        waiting.deadline = deadline;
    }
    let WaitEnd { mut answer, at, refusal } = loop {
        if let Some(end) = waiting.run(&mut task, &rules, changes).await? {
            break end;
        }
        changes = inner.changes();
        rules = engine.rules().into_owned();
        // It has waited, so the store has a new deadline.
        task.session.reset();
        task.evaluation = Evaluation::new(task.op, inner.clock.now());
        request.with_request(|request| task.match_request(&rules, request, &inner.clock));
        task.evaluation.set_now(inner.clock.now());
    };
    waiting.slot = None;
    // Once, not each time that the request asks.
    let candidates = task.ask_candidates(inner, &mut answer);
    task.finish_candidates(inner, &mut answer, candidates).await;
    Ok(task.output(answer, WaitResult { waited: elapsed(waiting.arrived_at, at), refusal }))
}
