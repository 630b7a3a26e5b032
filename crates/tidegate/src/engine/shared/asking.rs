//! Asking the shared store about all that a request touches.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::rules::{Answer, DenyCache, Drawn, LimitAnswer, Request, Ruleset, Touch, Touches};
use tidegate_core::{Nanos, Plan, PlanFull, Timestamp};

use super::{Shared, by_our_clock, without};
use crate::engine::{Engine, StageTimes};
use crate::{Cacheable, Clock, Later, Lease, Outcomes, Settled, SharedStore, StoreFailure};

/// What is wanted of a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Want {
    /// That it is charged.
    Charge,
    /// To know what charging it would be answered.
    Look,
    /// That it is charged, and that what concurrency limits give is to be given back; after this time at the latest.
    Hold(Option<Nanos>),
}

/// Asks about one request, and goes on without the store once that did not answer.
pub(in crate::engine) struct Asker<'e, C> {
    pub engine: &'e Engine<C>,
    shared: &'e Shared,
    /// When it was first asked: all that it is asked about one request has one budget.
    asked_since: Option<Timestamp>,
    /// Why the store did not answer, if it did not.
    pub failure: Option<StoreFailure>,
    /// What is held.
    pub lease: Option<Lease>,
    /// How long the stages took, if somebody wants to know.
    pub stages: Option<StageTimes>,
}

impl<'e, C: Clock> Asker<'e, C> {
    pub fn new(engine: &'e Engine<C>, shared: &'e Shared, stages: Option<StageTimes>) -> Self {
        Self { engine, shared, asked_since: None, failure: None, lease: None, stages }
    }

    /// The same for a request that was asked about before, and has spent so much of the budget.
    pub fn having_spent(mut self, spent: Duration) -> Self {
        let spent_ns = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        let since_ns = self.engine.clock.now().as_nanos().saturating_sub(spent_ns);
        self.asked_since = (spent_ns > 0).then(|| Timestamp::from_nanos(since_ns));
        self
    }

    /// Has the store asked again after a wait, with a new budget, also if it did not answer before.
    pub fn ask_anew(&mut self) {
        (self.failure, self.asked_since) = (None, None);
    }

    /// What a request touches by these rules.
    pub fn touched_by<'r>(&mut self, rules: &'r Ruleset, request: &Request<'_>) -> Touches<'r> {
        let from = self.began();
        let touches = rules.touched_by(request);
        self.took(from, |stages, ns| stages.matching_ns = stages.matching_ns.saturating_add(ns));
        touches
    }

    /// What all limits that are in force say. Nothing is charged that is only tried out.
    pub async fn settle<'r>(
        &mut self,
        touches: &Touches<'r>,
        now: Timestamp,
        want: Want,
    ) -> Result<Answer<'r>, PlanFull> {
        // Boxed, for hardly any request does, and all of this is part of a future.
        let mut turned: Option<Box<Touches<'r>>> = None;
        // Once, and once more for each limit that turns to a pool.
        loop {
            let touches = turned.as_deref().unwrap_or(touches);
            let drawn = touches.plan(now)?;
            let foresees = want != Want::Look && drawn.is_to_be_foreseen(touches);
            let first = if foresees { Want::Look } else { want };
            let mut outcomes = self.ask(touches, &drawn, first).await;
            let mut turning = drawn.turning(touches, &outcomes, now);
            if foresees && turning.is_empty() {
                outcomes = self.ask(touches, &drawn, want).await;
                turning = drawn.turning(touches, &outcomes, now);
            }
            if turning.is_empty() {
                let mut answer = Answer::merge_apart(touches, &drawn, &outcomes, now);
                if self.failure.is_some() {
                    without::mark(&mut answer);
                }
                return Ok(answer);
            }
            drop(drawn);
            let mut turn = Box::new(touches.clone());
            turn.turn_to_pools(&turning);
            turned = Some(turn);
        }
    }

    /// Asks the limits that are only tried out what they would have said in place of their rule's own, all at once.
    pub async fn try_candidates<'r>(&mut self, touches: &Touches<'r>, answer: &mut Answer<'r>, want: Want) {
        let want = if let Want::Hold(_) = want { Want::Charge } else { want };
        if touches.candidates().is_empty() {
            return;
        }
        let (_, spent) = self.asks();
        let put = |candidate| self.put_candidate(touches, answer, candidate, want, spent);
        let tried: Vec<Tried<'_, 'r>> = touches.candidates().iter().map(put).collect();
        for Tried { candidate, plan, want, later } in tried {
            let outcomes = match (&plan, later) {
                (None, _) => None,
                (Some(plan), None) => Some(self.without_candidate(candidate, plan, want)),
                (Some(plan), Some(later)) => match self.wait_for(plan, later).await {
                    Ok(settled) => Some(settled.outcomes),
                    // Nothing that the request is told depends on it, so its answer is none without the store.
                    Err(_) => Some(self.without_candidate(candidate, plan, want)),
                },
            };
            let outcome = outcomes.map(|outcomes| outcomes[0]);
            answer.candidates.push(LimitAnswer::of_candidate(candidate, outcome));
        }
    }

    /// Asks the store about a plan, and without it if it does not answer.
    async fn ask(&mut self, touches: &Touches<'_>, drawn: &Drawn<'_>, want: Want) -> Outcomes {
        let plan = &drawn.plan;
        // Nobody has to be asked about nothing, so that nothing is degraded.
        if plan.charges().is_empty() {
            return Outcomes::new();
        }
        let want = if drawn.is_denied_without_trace() { Want::Look } else { want };
        if self.failure.is_none() {
            let (asked, spent) = self.asks();
            let later = self.shared.put(plan, cacheable(touches, drawn), want, spent);
            match self.wait_for(plan, later).await {
                Ok(settled) => {
                    self.lease = settled.lease.map(|lease| by_our_clock(lease, asked));
                    return settled.outcomes;
                }
                Err(failure) => self.failure = Some(failure),
            }
        }
        let nodes = self.shared.store.live_nodes();
        let (outcomes, lease) = without::settle(self.engine, nodes, touches, drawn, want);
        self.lease = lease;
        outcomes
    }

    /// What the store says of a plan, if it answers.
    async fn wait_for(
        &mut self,
        plan: &Plan<'_>,
        later: Later<Result<Settled, StoreFailure>>,
    ) -> Result<Settled, StoreFailure> {
        let from = self.began();
        let settled = later.await;
        self.took(from, |stages, ns| stages.store_ns = stages.store_ns.saturating_add(ns));
        settled.and_then(|settled| whole(plan, settled))
    }

    fn put_candidate<'t, 'r>(
        &self,
        touches: &'t Touches<'r>,
        answer: &Answer<'r>,
        candidate: &'t Touch<'r>,
        want: Want,
        spent: Duration,
    ) -> Tried<'t, 'r> {
        let is_other = |limit: &&LimitAnswer<'_>| !std::ptr::eq(limit.rule, candidate.rule);
        let blocked = answer.limits.iter().filter(is_other).any(|limit| !limit.fate.passes());
        let want = if blocked { Want::Look } else { want };
        let plan = touches.candidate_charge(candidate).map(|charge| {
            let mut plan = Plan::new();
            // An empty plan has room for one.
            let _ = plan.add(charge);
            plan
        });
        let is_cacheable = candidate.rule.deny_cache == DenyCache::On;
        let cacheable = if is_cacheable { Cacheable::ALL } else { Cacheable::NONE };
        let asked = plan.as_ref().filter(|_| self.failure.is_none());
        let later = asked.map(|plan| self.shared.put(plan, cacheable, want, spent));
        Tried { candidate, plan, want, later }
    }

    fn without_candidate(&self, candidate: &Touch<'_>, plan: &Plan<'_>, want: Want) -> Outcomes {
        let nodes = self.shared.store.live_nodes();
        let is_left_out = |_| without::is_left_out(candidate);
        without::settle_plan(self.engine, nodes, plan, want, is_left_out).0
    }

    /// When it asks, which is now, and what this request has taken of the store's budget until then.
    fn asks(&mut self) -> (Timestamp, Duration) {
        let now = self.engine.clock.now();
        let since = *self.asked_since.get_or_insert(now);
        (now, Duration::from_nanos(now.as_nanos().saturating_sub(since.as_nanos())))
    }

    fn began(&self) -> Option<Timestamp> {
        self.stages.is_some().then(|| self.engine.clock.now())
    }

    fn took(&mut self, from: Option<Timestamp>, add: impl FnOnce(&mut StageTimes, u64)) {
        if let (Some(stages), Some(from)) = (&mut self.stages, from) {
            add(stages, self.engine.clock.now().as_nanos().saturating_sub(from.as_nanos()));
        }
    }
}

/// A candidate that was asked.
struct Tried<'t, 'r> {
    candidate: &'t Touch<'r>,
    /// None if its key cannot be made.
    plan: Option<Plan<'t>>,
    want: Want,
    /// None if the store is not asked, because it did not answer before.
    later: Option<Later<Result<Settled, StoreFailure>>>,
}

impl Shared {
    /// The store for a request that has spent so much of the budget already.
    pub fn having_spent(&self, spent: Duration) -> Cow<'_, Arc<dyn SharedStore>> {
        match spent.is_zero() {
            // Most requests are one question.
            true => Cow::Borrowed(&self.store),
            false => Cow::Owned(self.store.having_spent(spent)),
        }
    }

    /// Puts a question about a request that has spent so much of the budget already.
    pub fn put(
        &self,
        plan: &Plan<'_>,
        cacheable: Cacheable,
        want: Want,
        spent: Duration,
    ) -> Later<Result<Settled, StoreFailure>> {
        let store = self.having_spent(spent);
        match want {
            Want::Charge => store.check(plan, cacheable),
            Want::Look => store.peek(plan),
            Want::Hold(ttl) => store.acquire(plan, ttl),
        }
    }
}

/// An answer to all of the plan: one for less than that is none.
pub(in crate::engine) fn whole(plan: &Plan<'_>, settled: Settled) -> Result<Settled, StoreFailure> {
    match settled.outcomes.len() == plan.charges().len() {
        true => Ok(settled),
        false => Err(StoreFailure::Refused("it answered for fewer limits than it was asked about".into())),
    }
}

/// The charges that may be denied from memory: those of rules that all say so.
fn cacheable(touches: &Touches<'_>, drawn: &Drawn<'_>) -> Cacheable {
    let is_off = |touch: &Touch<'_>| touch.rule.deny_cache == DenyCache::Off;
    if !drawn.charged(touches).any(|(_, touch)| is_off(touch)) {
        return Cacheable::ALL;
    }
    let may_be = |place: &usize| !drawn.charged(touches).any(|(at, touch)| at == *place && is_off(touch));
    (0..drawn.plan.charges().len()).filter(may_be).fold(Cacheable::NONE, Cacheable::with)
}
