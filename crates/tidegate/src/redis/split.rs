//! Plans whose keys are in several slots or servers. A call of the script needs all its keys in one slot of
//! one server, so such a plan is split into parts.
//!
//! All parts are sent at the same time, and [`split`](crate::store::split) merges their decisions. If a part
//! is denied or gets no reply, the admitted parts are refunded. Meanwhile the limits may admit fewer requests,
//! but never more. One exception: if several such plans leave a bucket at the same time, it may gain what
//! refills in some milliseconds.
//!
//! Other requests may use a key between a charge and its refund. So a refund says when its charge started to
//! count, which follows from the state before it, and takes nothing that was used after it.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::algorithm::CountDenied;
use tidegate_core::{Op, Outcome, OutcomeKind, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::batcher::{PlanFailure, PlanResult, PossibleEffect, TimedReply};
use super::connection::Replication;
use super::deny_cache::DenialCaching;
use super::leases::{ReleaseOnDrop, holds_leases};
use super::plan::{RedisCharge, RedisPlan};
use super::refunds::{PartRefund, RefundGuard, spawn_refund};
use super::script::{PlanReply, counts_from, preview_outcomes};
use super::store::{PendingReply, PlanBudget, RedisInner};
use super::topology::KeyLocation;
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
    /// Decides the plan. A peek changes nothing.
    pub(super) fn decide(self) -> JoinHandle<Result<(Reply, ReleaseOnDrop), StoreError>> {
        let pending = self.send_parts();
        let guard = RefundGuard::new(&self.inner);
        // This runs to completion even if the caller is gone: charges of a plan that is not admitted must be
        // refunded.
        self.inner.runtime.clone().spawn(async move {
            let results = collect_results(pending).await;
            let is_short = |result: &PlanResult| {
                result.as_ref().is_ok_and(|timed| timed.replication == Replication::Short)
            };
            let is_unreplicated = results.iter().any(is_short);
            let reply = Reply { is_unreplicated, ..decide(&self, results).await? };
            // Released unless the caller takes the lease.
            let releases = match reply.lease {
                LeaseReply::Held(_) => self.parts.iter().filter_map(|part| self.part_release(part)).collect(),
                _ => Vec::new(),
            };
            Ok((reply, ReleaseOnDrop::new(guard, releases)))
        })
    }

    /// Applies the plan to each part, where parts do not depend on each other.
    pub(super) fn apply(self) -> JoinHandle<Result<(), StoreError>> {
        let pending = self.send_parts();
        self.inner.runtime.spawn(async move { all_replies(pending).await.map(drop) })
    }

    /// Queues a plan for each part now.
    pub(super) fn send_parts(&self) -> Vec<PendingReply> {
        self.inner.context.counters.splits.add(1);
        // A denial is cached only when the results of all parts are known.
        let budget = PlanBudget { denial_caching: DenialCaching::Disabled, ..self.budget };
        let send = |part: &SplitPart<KeyLocation>| {
            self.inner.enqueue(part.location, self.part_plan(part, self.plan.op), budget)
        };
        self.parts.iter().map(send).collect()
    }

    fn part_plan(&self, part: &SplitPart<KeyLocation>, op: Op) -> RedisPlan {
        // If another part is denied, the states say what that means for the outcomes of this one.
        RedisPlan::with_states(op, self.charges(part).cloned().collect()).with_owner(self.plan.owner)
    }

    pub(super) fn charges<'a>(
        &'a self,
        part: &'a SplitPart<KeyLocation>,
    ) -> impl Iterator<Item = &'a RedisCharge> {
        part.positions.iter().filter_map(|position| self.plan.charges.get(*position))
    }

    /// The charges of an admitted part to refund. An observed charge that did not fit took less than its
    /// cost, so it stays.
    fn refundable_charges(&self, part: &SplitPart<KeyLocation>, reply: &PlanReply) -> PartCharges {
        let states = reply.states.as_deref().unwrap_or(&[]);
        let charges = self.charges(part).zip(states).zip(&reply.outcomes);
        let is_refunded = |charge: &RedisCharge, outcome: &Outcome| {
            let stays = charge.algorithm.count_denied() == CountDenied::Always || holds_leases(charge);
            outcome.kind == OutcomeKind::Allowed && !stays
        };
        charges
            .filter(|((charge, _), outcome)| is_refunded(charge, outcome))
            .map(|((charge, state), _)| RedisCharge {
                counts_from: Some(counts_from(charge, state, reply.at)),
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

    fn part_decision(&self, _: &SplitPart<KeyLocation>, timed: &TimedReply) -> (OutcomeKind, Timestamp) {
        (timed.reply.admitted, timed.reply.at)
    }

    fn outcomes(&self, part: &SplitPart<KeyLocation>, timed: &TimedReply, decision: OutcomeKind) -> Outcomes {
        let reply = &timed.reply;
        if decision == OutcomeKind::Allowed {
            return reply.outcomes.clone();
        }
        let charges: PartCharges = self.charges(part).cloned().collect();
        let states = reply.states.as_deref().unwrap_or(&[]);
        match reply.admitted {
            OutcomeKind::Denied => {
                if self.budget.denial_caching == DenialCaching::Enabled {
                    self.inner.context.deny_cache.insert_denial(&charges, states, timed.time);
                }
                reply.outcomes.clone()
            }
            OutcomeKind::Allowed => preview_outcomes(&charges, states, reply.at, OutcomeKind::Denied),
        }
    }

    async fn merge_leases(&self, replies: &[TimedReply]) -> Result<LeaseReply, StoreError> {
        Ok(self.merge_leases(replies).await?.map_or(LeaseReply::None, LeaseReply::Held))
    }

    /// Refunds a part of a plan that was not admitted, except for limits that count denied attempts. A denied
    /// part was charged nothing. For a part without a reply only leases are released: a release without a
    /// lease does nothing.
    fn refund_part(
        &self,
        part: &SplitPart<KeyLocation>,
        result: Result<&TimedReply, &PlanFailure>,
    ) -> Vec<JoinHandle<()>> {
        let (refund, release) = match result {
            Ok(timed) if self.plan.op.charges() && timed.reply.admitted == OutcomeKind::Allowed => {
                let refund_plan = RedisPlan::new(
                    Op::Refund { charged_at: None },
                    self.refundable_charges(part, &timed.reply),
                );
                // The deny cache is enabled only if every charge is refundable, so there is a state for each.
                let states = timed
                    .reply
                    .states
                    .clone()
                    .filter(|_| self.budget.denial_caching == DenialCaching::Enabled);
                let before = states.map(|states| (states, timed.time));
                let refund = PartRefund { location: part.location, plan: refund_plan, before };
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

/// The result of each part.
async fn collect_results(pending: Vec<PendingReply>) -> Vec<PlanResult> {
    let mut results: Vec<PlanResult> = Vec::with_capacity(pending.len());
    for reply in pending {
        let lost = PlanFailure::not_sent(StoreError::RuntimeGone);
        results.push(reply.await.unwrap_or(Err(lost)));
    }
    results
}

/// The replies of all parts, or the error of one.
pub(super) async fn all_replies(pending: Vec<PendingReply>) -> Result<Vec<TimedReply>, StoreError> {
    all_ok(collect_results(pending).await).map_err(|results| {
        let failure = results.into_iter().find_map(Result::err);
        failure.map_or(StoreError::TimedOut, |failure| failure.error)
    })
}
