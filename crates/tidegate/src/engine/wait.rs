//! Waiting for limits with the action `delay`, over any store.
//!
//! While no request waits for its limits, a request asks at once. If it has to wait it enters the queue of the limit that it has to
//! wait for longest, and sleeps until the store said that it may fit. From then on newcomers enter the queue behind it. The head of a
//! queue asks, sleeps, and asks again. A request keeps its position when it moves to another queue: positions are by when a request
//! came.
//!
//! No lock is held while a store is asked. Units may come back meanwhile, so a refund or a release counts that in the queue, and a
//! request compares the count before it sleeps. A request that asks before it is in a queue compares the count of all queues.
//!
//! The rules and signals may change while a request waits. A change is counted before the heads of all queues are woken, and a
//! request looks at the count before it sleeps; then it is matched again.
//!
//! What the memory store can do besides: forecast exactly when a request will be admitted, so that one which would wait too long is
//! refused at once; and decide a request as of the instant it was due, if its timer was late by at most [`LATE_NS_MAX`], so that
//! lateness does not add up.

use tidegate_core::rules::{Evaluation, Request};
use tidegate_core::{Nanos, Op, Timestamp};

use super::decide::{DecideTask, Waited};
use super::judge::Judged;
use super::stages::Stopwatch;
use super::wait_task::{End, Waiting, span};
use super::{ActiveRules, Decided, Deciding, Engine, EngineError};
#[cfg(doc)]
use crate::LATE_NS_MAX;
use crate::Timer;
use crate::rules::OwnedRequest;
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
    pub fn decide(&self, request: &Request<'_>) -> Deciding {
        self.decide_op(request, Op::Check, Stopwatch::OFF)
    }

    /// As [`decide`](Self::decide), with the [stages](Decided::stages) timed, which costs a few readings of the clock.
    pub fn decide_timed(&self, request: &Request<'_>) -> Deciding {
        self.decide_op(request, Op::Check, Stopwatch::on())
    }

    /// As [`decide`](Self::decide), with the [lease](Decided::lease) of what the request takes from concurrency limits, for no longer
    /// than `ttl`. A lease that is given back wakes the head of the queue.
    pub fn acquire(&self, request: &Request<'_>, ttl: Option<Nanos>) -> Deciding {
        self.decide_op(request, Op::Acquire { ttl }, Stopwatch::OFF)
    }

    /// As [`acquire`](Self::acquire), with the stages timed.
    pub fn acquire_timed(&self, request: &Request<'_>, ttl: Option<Nanos>) -> Deciding {
        self.decide_op(request, Op::Acquire { ttl }, Stopwatch::on())
    }

    #[inline]
    fn decide_op(&self, request: &Request<'_>, op: Op, stages: Stopwatch) -> Deciding {
        // Before the rules are read: a change that comes in between is noticed.
        let changes = self.inner.changes();
        let mut decided = Decided::undecided(self.rules());
        let clock = &self.inner.clock;
        let mut task = DecideTask::new(op, Timestamp::from_nanos(0), stages);
        task.match_request(decided.answer.rules(), request, clock);
        task.evaluation.decide_at(clock.now());
        if task.evaluation.matched().may_wait() {
            return self.decide_or_wait(request, task, decided.answer.into_rules(), changes);
        }
        match task.start(&self.inner, &mut decided) {
            Ok(None) => Deciding::now(decided),
            Ok(Some(unfinished)) => self.finish_later(unfinished, task, decided),
            Err(error) => Deciding::failed(error),
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
    ) -> Deciding {
        let engine = &*self.inner;
        let arrived = task.evaluation.now();
        if engine.store.is_local() && engine.earlier_in(&task, &rules, None, None).is_none() {
            match super::operations::done(engine.attempt(&mut task, &rules, 0, arrived)) {
                Err(error) => return Deciding::failed(error),
                Ok((mut answer, Judged::Passes | Judged::Denied)) => {
                    let candidates = task.ask_candidates(engine, &mut answer);
                    debug_assert!(candidates.is_empty(), "the memory store answers at once");
                    return Deciding::now(task.decided(answer, Waited::NOT));
                }
                // It asks again in a queue.
                Ok((_, Judged::Waits(_) | Judged::WaitsFor(_))) => {}
            }
        }
        let request = KeptRequest { domain: request.domain.into(), request: OwnedRequest::of(request) };
        Deciding::later(wait(self.clone(), request, task, rules.counted(), changes))
    }
}

/// A request that waits: it is matched again if the rules change.
struct KeptRequest {
    domain: Box<str>,
    request: OwnedRequest,
}

/// Decides a request that may have to wait.
async fn wait<C, S>(
    engine: Engine<C, S>,
    request: KeptRequest,
    mut task: DecideTask,
    mut rules: ActiveRules,
    mut changes: u64,
) -> Result<Decided, EngineError>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    let inner = &*engine.inner;
    let mut waiting = Waiting::new(inner, task.evaluation.now());
    let End { mut answer, at, refusal } = loop {
        if let Some(end) = waiting.until_end(&mut task, &rules, changes).await? {
            break end;
        }
        changes = inner.changes();
        rules = engine.rules().counted();
        task.evaluation = Evaluation::new(task.op, inner.clock.now());
        request.request.lend(&request.domain, |request| task.match_request(&rules, request, &inner.clock));
        task.evaluation.decide_at(inner.clock.now());
    };
    waiting.slot = None;
    // Once, not each time that the request asks.
    let candidates = task.ask_candidates(inner, &mut answer);
    task.finish_candidates(inner, &mut answer, candidates).await;
    Ok(task.decided(answer, Waited { waited: span(waiting.arrived, at), refusal }))
}
