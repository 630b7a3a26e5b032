//! Plans whose keys are in several slots or servers: a call of the script needs all its keys in one slot of one server.
//!
//! All parts are asked at the same time. What becomes of the plan then is decided in [`split`](crate::store::split).

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Op, Outcome, Timestamp, OutcomeKind};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::deny_cache::DenialCaching;
use super::desk::{PlanResult, TimedReply, PossibleEffect, PlanFailure};
use super::refunds::{PartRefund, RefundGuard, spawn_refund};
use super::leasing::{ReleaseOnDrop, holds_leases};
use super::plan::{RedisPlan, RedisCharge};
use super::script::{PlanReply, counts_from, preview_outcomes};
use super::servers::KeyLocation;
use super::store::{PendingReply, RedisInner, PlanBudget};
use crate::store::split::{SplitPart, SplitPlan, all_ok, decide};
use crate::store::{LeaseReply, Reply};
use crate::{Outcomes, StoreError};

/// A plan in several slots or servers.
pub(super) struct RedisSplitPlan {
    pub inner: Arc<RedisInner>,
    pub plan: RedisPlan,
    pub parts: Vec<SplitPart<KeyLocation>>,
    pub budget: PlanBudget,
}

impl RedisSplitPlan {
    /// Decides the plan; changes nothing if it is only looked at.
    pub(super) fn decide(self) -> JoinHandle<Result<(Reply, ReleaseOnDrop), StoreError>> {
        let asked = self.send_parts();
        let under_way = RefundGuard::new(&self.inner);
        // It goes on whether or not anybody waits for it: what was charged for nothing has to be given back.
        self.inner.runtime.clone().spawn(async move {
            let reply = decide(&self, collect_results(asked).await).await?;
            // The lease is given back if the caller does not take it.
            let releases = match reply.lease {
                LeaseReply::Held(_) => self.parts.iter().filter_map(|part| self.part_release(part)).collect(),
                _ => Vec::new(),
            };
            Ok((reply, ReleaseOnDrop::new(under_way, releases)))
        })
    }

    /// Does to each part what can be done to each for itself.
    pub(super) fn apply(self) -> JoinHandle<Result<(), StoreError>> {
        let asked = self.send_parts();
        self.inner.runtime.spawn(async move { all_replies(asked).await.map(drop) })
    }

    /// Puts an order for each part, now.
    pub(super) fn send_parts(&self) -> Vec<PendingReply> {
        self.inner.context.counters.splits.add(1);
        // What is to be learned from a denial is known when all parts are.
        let patience = PlanBudget { denial_caching: DenialCaching::Disabled, ..self.budget };
        let ask = |part: &SplitPart<KeyLocation>| self.inner.enqueue(part.location, self.part_plan(part, self.plan.op), patience);
        self.parts.iter().map(ask).collect()
    }

    fn part_plan(&self, part: &SplitPart<KeyLocation>, op: Op) -> RedisPlan {
        // All may turn out to be denied because one part is, and then the states say what that means for each.
        RedisPlan::with_states(op, self.charges(part).cloned().collect()).with_owner(self.plan.owner)
    }

    pub(super) fn charges<'a>(&'a self, part: &'a SplitPart<KeyLocation>) -> impl Iterator<Item = &'a RedisCharge> {
        part.positions.iter().filter_map(|position| self.plan.charges.get(*position))
    }

    /// The charges of a part that was admitted, but for those that stay or are released. One that only looked on and did
    /// not fit took less than its cost, so it stays.
    fn refundable_charges(&self, part: &SplitPart<KeyLocation>, seen: &PlanReply) -> PartCharges {
        let states = seen.states.as_deref().unwrap_or(&[]);
        let charges = self.charges(part).zip(states).zip(&seen.outcomes);
        let is_refunded = |charge: &RedisCharge, outcome: &Outcome| {
            outcome.kind == OutcomeKind::Allowed && !charge.algorithm.counts_denied() && !holds_leases(charge)
        };
        charges
            .filter(|((charge, _), outcome)| is_refunded(charge, outcome))
            .map(|((charge, state), _)| RedisCharge {
                counts_from: Some(counts_from(charge, state, seen.at)),
                ..charge.clone()
            })
            .collect()
    }
}

impl SplitPlan for RedisSplitPlan {
    type Location = KeyLocation;
    type PartReply = TimedReply;
    type PartError = PlanFailure;
    type PendingRefund = Vec<JoinHandle<()>>;

    fn parts(&self) -> &[SplitPart<KeyLocation>] {
        &self.parts
    }

    fn part_decision(&self, _: &SplitPart<KeyLocation>, answer: &TimedReply) -> (OutcomeKind, Timestamp) {
        (answer.reply.admitted, answer.reply.at)
    }

    fn outcomes(&self, part: &SplitPart<KeyLocation>, answer: &TimedReply, fate: OutcomeKind) -> Outcomes {
        let seen = &answer.reply;
        if fate == OutcomeKind::Allowed {
            return seen.outcomes.clone();
        }
        let charges: PartCharges = self.charges(part).cloned().collect();
        let states = seen.states.as_deref().unwrap_or(&[]);
        match seen.admitted {
            OutcomeKind::Denied => {
                if self.budget.denial_caching == DenialCaching::Enabled {
                    self.inner.context.deny_cache.insert_denial(&charges, states, answer.time);
                }
                seen.outcomes.clone()
            }
            OutcomeKind::Allowed => preview_outcomes(&charges, states, seen.at, OutcomeKind::Denied),
        }
    }

    async fn merge_leases(&self, answers: &[TimedReply]) -> Result<LeaseReply, StoreError> {
        Ok(self.merge_leases(answers).await?.map_or(LeaseReply::None, LeaseReply::Held))
    }

    /// Gives back what a part was charged for nothing, but for what counts denied attempts. A part that was denied was charged
    /// nothing. Of a part that did not answer only leases are given back: a release does nothing where there is none.
    fn refund_part(&self, part: &SplitPart<KeyLocation>, answer: Result<&TimedReply, &PlanFailure>) -> Vec<JoinHandle<()>> {
        let (refund, release) = match answer {
            Ok(answer) if self.plan.op.charges() && answer.reply.admitted == OutcomeKind::Allowed => {
                let order = RedisPlan::new(Op::Refund { charged_at: None }, self.refundable_charges(part, &answer.reply));
                // Denials are kept only of plans of which every charge is refunded, so there is a state for each.
                let states = answer.reply.states.clone().filter(|_| self.budget.denial_caching == DenialCaching::Enabled);
                let before = states.map(|states| (states, answer.time));
                let refund = PartRefund { location: part.location, plan: order, before };
                (Some(refund).filter(|refund| !refund.plan.charges.is_empty()), self.part_release(part))
            }
            Err(PlanFailure { effect: PossibleEffect::Unknown, .. }) => (None, self.part_release(part)),
            _ => (None, None),
        };
        [refund, release].into_iter().flatten().map(|part| spawn_refund(&self.inner, part)).collect()
    }

    async fn finish_refunds(&self, parts: Vec<Vec<JoinHandle<()>>>) {
        let _ = timeout_at(self.budget.before_deadline(Instant::now()), async {
            for part in parts.into_iter().flatten() {
                let _ = part.await;
            }
        })
        .await;
    }

    fn store_error(&self, failure: &PlanFailure) -> StoreError {
        failure.error.clone()
    }
}

type PartCharges = SmallVec<[RedisCharge; 2]>;

/// What each part was answered.
async fn collect_results(asked: Vec<PendingReply>) -> Vec<PlanResult> {
    let mut answers: Vec<PlanResult> = Vec::with_capacity(asked.len());
    for asking in asked {
        let lost = PlanFailure::not_sent(StoreError::RuntimeGone);
        answers.push(asking.await.unwrap_or(Err(lost)));
    }
    answers
}

/// What all parts were answered, or why one was not.
pub(super) async fn all_replies(asked: Vec<PendingReply>) -> Result<Vec<TimedReply>, StoreError> {
    all_ok(collect_results(asked).await).map_err(|answers| {
        let unanswered = answers.into_iter().find_map(Result::err);
        unanswered.map_or(StoreError::TimedOut, |unanswered| unanswered.error)
    })
}
