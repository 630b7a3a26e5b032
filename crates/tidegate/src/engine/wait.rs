//! Waiting for limits with the action `delay`, over any store. `queue/mod.rs` describes the protocol.
//!
//! While no request waits for its limits, a request asks immediately. If it has to wait, it enters the queue of the
//! limit with the longest wait, and sleeps until the time that the store gave. Later requests enter the queue behind
//! it. The head of a queue asks, sleeps, and asks again. A request keeps its position when it moves to another queue,
//! because tickets are numbered across all queues.
//!
//! The rules and signals may change while a request waits. A change is counted before the heads of all queues are
//! woken. Each request compares the count before it sleeps, and is matched again if the count has changed.
//!
//! Over the memory store, exact forecasts refuse a request immediately if it would wait too long. A request is decided
//! as of the instant at which it was due, if its timer was late by at most [`LATE_NS_MAX`], so that lateness does not
//! add up.

use std::time::Duration;

use tidegate_core::rules::{Evaluation, OnOverrideMiss, Request};
use tidegate_core::{Nanos, Op, Timestamp};

use super::admitted::RequestCopy;
use super::attempt::RequestAttempt;
use super::decide::{DecideTask, PendingDecision, WaitResult};
use super::operations::expect_ready;
use super::stages::StageTimer;
use super::wait_task::{WaitEnd, WaitTask, elapsed};
use super::{
    AcquireRequestFuture, ActiveRules, AdmittedRequest, DecideFuture, DecideOptions, DecideOutput, Engine,
    EngineError, RequestRefused,
};
use crate::Timer;
use crate::blocking::block_on;
use crate::overrides::LoadWait;
use crate::store::Store;

#[cfg(doc)]
use crate::LATE_NS_MAX;

/// Decisions that wait where a rule says so.
impl<C, S> Engine<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    /// Decides a request. If only limits with the action `delay` deny it, it waits, first come first served, for at
    /// most their `max_wait`. It does not wait at all if the wait is known to be longer.
    ///
    /// It waits only for its turn in the queue. The `delay` of a leaky bucket is in the answer, for the caller to wait
    /// or to pass on. Nothing is charged before the request is admitted.
    ///
    /// Over a shared store, each node has its own queues, so units go to the node that asks first.
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
    /// assert!(decided.answer.kind.passes());
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn decide(&self, request: &Request<'_>) -> DecideFuture {
        self.decide_by(request, DecideOptions::default())
    }

    /// As [`decide`](Self::decide), for a server. A decision that is made immediately is passed to `then` by reference,
    /// because it is large and moving it costs time. Otherwise its future is returned.
    #[inline]
    #[allow(clippy::result_large_err, reason = "a box would be an allocation for each request that waits")]
    pub fn decide_with<R>(
        &self,
        request: &Request<'_>,
        options: DecideOptions,
        then: impl FnOnce(Result<&DecideOutput, &EngineError>) -> R,
    ) -> Result<R, DecideFuture> {
        let DecideOptions { at, is_timed } = options;
        let stages = if is_timed { StageTimer::on() } else { StageTimer::OFF };
        // Read the count before the rules, so that a change in between is noticed.
        let changes = self.inner.changes();
        let mut decided = DecideOutput::undecided(self.rules());
        let mut task = DecideTask::new(Op::Check, Timestamp::from_nanos(0), stages);
        match self.first_step(request, at, OnOverrideMiss::Wait, &mut task, &mut decided) {
            Ok(()) => Ok(then(Ok(&decided))),
            Err(Undecided::Failed(error)) => Ok(then(Err(&error))),
            Err(undecided) => Err(self.continue_later(request, undecided, task, decided, changes, None)),
        }
    }

    /// As [`decide_with`](Self::decide_with), for a request that memory can decide at once. None if the request may have to
    /// wait, or a shared store decides it: nothing was charged then.
    #[inline]
    pub fn decide_at_once<R>(
        &self,
        request: &Request<'_>,
        DecideOptions { at, is_timed }: DecideOptions,
        then: impl FnOnce(Result<&DecideOutput, &EngineError>) -> R,
    ) -> Option<R> {
        self.inner.memory()?;
        let stages = if is_timed { StageTimer::on() } else { StageTimer::OFF };
        let mut decided = DecideOutput::undecided(self.rules());
        let mut task = DecideTask::new(Op::Check, Timestamp::from_nanos(0), stages);
        match self.first_step(request, at, OnOverrideMiss::Wait, &mut task, &mut decided) {
            Ok(()) => Some(then(Ok(&decided))),
            Err(Undecided::Failed(error)) => Some(then(Err(&error))),
            // Memory never answers later.
            Err(Undecided::LoadOverrides(_) | Undecided::MayWait | Undecided::Pending(_)) => None,
        }
    }

    /// As [`decide`](Self::decide), with options.
    #[inline]
    pub fn decide_by(&self, request: &Request<'_>, options: DecideOptions) -> DecideFuture {
        let stages = if options.is_timed { StageTimer::on() } else { StageTimer::OFF };
        self.decide_op(request, Op::Check, options.at, None, stages)
    }

    /// As [`decide`](Self::decide), with the [stages](DecideOutput::stages) timed, which costs a few readings of the
    /// clock.
    pub fn decide_timed(&self, request: &Request<'_>) -> DecideFuture {
        self.decide_by(request, DecideOptions { at: None, is_timed: true })
    }

    /// As [`decide`](Self::decide). The returned guard holds the leases of concurrency limits until it is dropped.
    /// Waits where a rule says so, and is refused where the rules deny the request. A released lease wakes the head of
    /// the wait queue.
    pub fn acquire(&self, request: &Request<'_>) -> AcquireRequestFuture<C, S> {
        let deciding = self.decide_op(request, Op::Acquire { ttl: None }, None, None, StageTimer::OFF);
        AcquireRequestFuture::new(self, request, deciding)
    }

    /// As [`acquire`](Self::acquire), but waits at most `max_wait`, also where a rule allows a longer wait.
    pub fn acquire_within(&self, request: &Request<'_>, max_wait: Duration) -> AcquireRequestFuture<C, S> {
        let deciding =
            self.decide_op(request, Op::Acquire { ttl: None }, None, Some(max_wait), StageTimer::OFF);
        AcquireRequestFuture::new(self, request, deciding)
    }

    /// As [`acquire`](Self::acquire), blocking the current thread.
    pub fn acquire_blocking(&self, request: &Request<'_>) -> Result<AdmittedRequest<C, S>, RequestRefused> {
        block_on(self.acquire(request))
    }

    /// As [`acquire_within`](Self::acquire_within), blocking the current thread.
    pub fn acquire_within_blocking(
        &self,
        request: &Request<'_>,
        max_wait: Duration,
    ) -> Result<AdmittedRequest<C, S>, RequestRefused> {
        block_on(self.acquire_within(request, max_wait))
    }

    /// As [`decide`](Self::decide), and returns the [lease](DecideOutput::lease) of concurrency limits itself, for a
    /// holder in another place. It lasts at most `ttl`, and is not released automatically before it expires.
    pub fn lease(&self, request: &Request<'_>, ttl: Option<Nanos>) -> DecideFuture {
        self.decide_op(request, Op::Acquire { ttl }, None, None, StageTimer::OFF)
    }

    /// As [`lease`](Self::lease), with the stages timed.
    pub fn lease_timed(&self, request: &Request<'_>, ttl: Option<Nanos>) -> DecideFuture {
        self.decide_op(request, Op::Acquire { ttl }, None, None, StageTimer::on())
    }

    #[inline]
    fn decide_op(
        &self,
        request: &Request<'_>,
        op: Op,
        at: Option<Timestamp>,
        max_wait: Option<Duration>,
        stages: StageTimer,
    ) -> DecideFuture {
        self.decide_op_with(request, op, at, max_wait, stages, OverrideLoads::Waits)
    }

    #[inline]
    fn decide_op_with(
        &self,
        request: &Request<'_>,
        op: Op,
        at: Option<Timestamp>,
        max_wait: Option<Duration>,
        stages: StageTimer,
        loads: OverrideLoads,
    ) -> DecideFuture {
        // Read the count before the rules, so that a change in between is noticed.
        let changes = self.inner.changes();
        let mut decided = DecideOutput::undecided(self.rules());
        let mut task = DecideTask::new(op, Timestamp::from_nanos(0), stages);
        let on_miss = match loads {
            OverrideLoads::Waits => OnOverrideMiss::Wait,
            OverrideLoads::Waited { deadline } => {
                task.session.set_deadline(deadline);
                OnOverrideMiss::Default
            }
        };
        match self.first_step(request, at, on_miss, &mut task, &mut decided) {
            Ok(()) => DecideFuture::now(decided),
            Err(undecided) => self.continue_later(request, undecided, task, decided, changes, max_wait),
        }
    }

    /// Decides in place, as far as that is possible without waiting. `at` is the caller's reading of the clock.
    #[inline]
    #[allow(clippy::result_large_err, reason = "a box would be an allocation for each request that waits")]
    fn first_step(
        &self,
        request: &Request<'_>,
        at: Option<Timestamp>,
        on_miss: OnOverrideMiss,
        task: &mut DecideTask,
        decided: &mut DecideOutput,
    ) -> Result<(), Undecided> {
        let engine = &*self.inner;
        task.match_request(engine, decided.answer.rules(), request);
        let may_wait = task.evaluation.matched().may_wait();
        task.evaluation.set_now(match at {
            // A request that waits, or that another store decides, needs the current time.
            Some(at) if !may_wait && engine.store.is_local() => at,
            _ => engine.clock.now(),
        });
        if let Some(wait) = self.apply_overrides(task, decided, request, on_miss) {
            return Err(Undecided::LoadOverrides(wait));
        }
        // An override may have replaced the limit that could make the request wait.
        if task.evaluation.matched().may_wait() {
            return Err(Undecided::MayWait);
        }
        match task.start(engine, decided) {
            Ok(None) => Ok(()),
            Ok(Some(pending)) => Err(Undecided::Pending(pending)),
            Err(error) => Err(Undecided::Failed(error)),
        }
    }

    /// Continues after a first step that did not decide the request.
    #[inline(never)]
    fn continue_later(
        &self,
        request: &Request<'_>,
        undecided: Undecided,
        task: DecideTask,
        decided: DecideOutput,
        changes: u64,
        max_wait: Option<Duration>,
    ) -> DecideFuture {
        match undecided {
            Undecided::Failed(error) => DecideFuture::failed(error),
            Undecided::Pending(pending) => self.finish_later(pending, task, decided),
            Undecided::LoadOverrides(wait) => {
                let (engine, request) = (self.clone(), RequestCopy::from_request(request));
                let (op, mut session) = (task.op, task.session);
                let wait = session.bound_wait(&self.inner, wait);
                let loads = OverrideLoads::Waited { deadline: session.start_deadline(&self.inner) };
                let stages = session.stages;
                DecideFuture::later(async move {
                    wait.await;
                    request
                        .with_request(|request| {
                            engine.decide_op_with(request, op, None, max_wait, stages, loads)
                        })
                        .await
                })
            }
            Undecided::MayWait => {
                self.decide_or_wait(request, task, decided.answer.into_rules(), changes, max_wait)
            }
        }
    }

    /// Decides a request that may have to wait. Immediately, if the store answers immediately and the request need not
    /// wait.
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
            match expect_ready(engine.attempt(&mut task, &rules, 0, arrived)) {
                Err(error) => return DecideFuture::failed(error),
                Ok((mut answer, RequestAttempt::Admitted | RequestAttempt::Denied)) => {
                    let candidates = task.ask_candidates(engine, &mut answer);
                    debug_assert!(candidates.is_empty(), "the memory store answers immediately");
                    return DecideFuture::now(task.output(answer, WaitResult::NONE));
                }
                // It asks again from a queue.
                Ok((_, RequestAttempt::Wait(_) | RequestAttempt::WaitForLimit(_))) => {}
            }
        }
        let deadline = max_wait.map(|max_wait| arrived.saturating_add(Nanos::new(max_wait.as_nanos())));
        let request = RequestCopy::from_request(request);
        DecideFuture::later(wait(self.clone(), request, task, rules.into_owned(), changes, deadline))
    }
}

/// Whether a decision waits for overrides that have to be loaded.
#[derive(Clone, Copy)]
enum OverrideLoads {
    Waits,
    /// It has waited. The store has to answer by the deadline that began before.
    Waited {
        deadline: Option<Timestamp>,
    },
}

/// Why a request is not decided immediately.
#[allow(clippy::large_enum_variant, reason = "it is never moved unless the request waits")]
enum Undecided {
    Failed(EngineError),
    /// The overrides of a key have to be loaded. Then the request is decided from the beginning.
    LoadOverrides(LoadWait),
    /// A limit with the action `delay` applies.
    MayWait,
    /// The store answers later.
    Pending(PendingDecision),
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
        // The request has waited, so the store gets a new deadline.
        task.session.reset();
        task.evaluation = Evaluation::new(task.op, inner.clock.now());
        let load = request.with_request(|request| {
            task.match_request(inner, &rules, request);
            task.evaluation.set_now(inner.clock.now());
            task.apply_overrides(inner, &rules, request)
        });
        if let Some(load) = load {
            task.session.bound_wait(inner, load).await;
            request.with_request(|request| task.apply_loaded_overrides(inner, &rules, request));
        }
    };
    waiting.slot = None;
    // Candidates are asked once, not each time that the request asks.
    let candidates = task.ask_candidates(inner, &mut answer);
    task.finish_candidates(inner, &mut answer, candidates).await;
    Ok(task.output(answer, WaitResult { waited: elapsed(waiting.arrived_at, at), refusal }))
}
