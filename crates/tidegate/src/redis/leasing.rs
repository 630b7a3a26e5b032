//! Leases of plans, in one place or in several.
//!
//! A plan has one lease in all its concurrency limits, which is known by its owner and has one fence. Where their keys are
//! in several places each part is given a fence of its own, by the time of its server. The lease has the highest of them,
//! and the other parts are then told so, before anybody hears of the lease: a lease that any of these keys hands out
//! after it has a higher one.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Algorithm, FencingToken, Grant, Nanos, Op, Timestamp};
use tokio::task::JoinHandle;

use super::desk::{TimedReply, PossibleEffect, PlanFailure};
use super::refunds::{PartRefund, RefundGuard, spawn_refund};
use super::plan::{FenceChange, RedisPlan, RedisCharge};
use super::script::{is_token_of, new_owner};
use super::servers::KeyLocation;
use super::split::{RedisSplitPlan, all_replies};
use super::store::{RedisInner, PlanBudget, into_reply};
use crate::store::split::{SplitPart, Placement};
use crate::store::{ReplyFuture, LeaseReply, Reply};
use crate::{Clock as _, Lease, LeaseToken, StoreError};

impl RedisInner {
    /// Decides an order, and holds what it takes from concurrency limits.
    pub(super) fn acquire(
        self: &Arc<Self>,
        mut order: RedisPlan,
        ttl: Option<Nanos>,
        patience: PlanBudget,
    ) -> ReplyFuture {
        if let Some(owner) = new_owner(self.random_u64(), &order.charges) {
            order = RedisPlan { op: Op::Acquire { ttl }, ..order.with_owner(owner) };
        }
        self.decide(order, patience)
    }

    /// Asks for a lease whose keys are in one place. It goes on whether or not anybody waits for it: a lease that is given
    /// too late has to be given back, or it would be held for all of its time.
    pub(super) fn acquire_whole(
        self: &Arc<Self>,
        place: KeyLocation,
        order: RedisPlan,
        patience: PlanBudget,
    ) -> JoinHandle<Result<(Reply, ReleaseOnDrop), StoreError>> {
        let charges = order.charges.iter().filter(|charge| holds_leases(charge)).cloned().collect();
        let release = release_for(&order, charges, place);
        let unclaimed = ReleaseOnDrop::new(RefundGuard::new(self), release.into_iter().collect());
        let asking = self.enqueue(place, order, patience);
        self.runtime.spawn(async move {
            let answer = asking.await.unwrap_or(Err(PlanFailure::not_sent(StoreError::RuntimeGone)));
            match answer {
                Ok(answered) if matches!(answered.reply.lease, LeaseReply::Held(_)) => {
                    Ok((into_reply(answered), unclaimed))
                }
                Ok(answered) => Ok((into_reply(answered), unclaimed.disarm())),
                // It is given back where it is not known, which may be once too often.
                Err(PlanFailure { error: why, effect: PossibleEffect::Unknown }) => Err(why),
                Err(PlanFailure { error: why, effect: PossibleEffect::None }) => {
                    unclaimed.disarm();
                    Err(why)
                }
            }
        })
    }

    /// Renews or releases a lease, as the order's op says.
    pub(super) fn change_lease(
        self: &Arc<Self>,
        mut order: RedisPlan,
        token: &LeaseToken,
        patience: PlanBudget,
    ) -> ReplyFuture {
        order.charges.retain(|charge| holds_leases(charge));
        // The token may belong to another key: then Redis is not asked.
        let placement = if is_token_of(token, &order.charges) { self.placement(&order) } else { None };
        let at = self.context.clock.now();
        match placement {
            None => Box::pin(std::future::ready(Ok(Reply::empty(at).with_lease(LeaseReply::WrongOwner)))),
            Some(Placement::Whole(place)) => {
                let asking = self.enqueue(place, order, patience);
                self.await_reply(patience, asking, |answer| answer.map(into_reply).map_err(|unanswered| unanswered.error))
            }
            Some(Placement::Split(parts)) => {
                let split = RedisSplitPlan { inner: self.clone(), plan: order, parts, budget: patience };
                let changed = split.change_lease();
                self.await_reply(patience, changed, move |lease| {
                    lease.map(|lease| Reply::empty(at).with_lease(lease))
                })
            }
        }
    }
}

/// A lease that was given and that nobody has yet: if nobody takes it, it is given back.
pub(super) struct ReleaseOnDrop {
    guard: RefundGuard,
    /// One for each place that it is in.
    releases: Vec<PartRefund>,
}

impl ReleaseOnDrop {
    pub(super) fn new(under_way: RefundGuard, releases: Vec<PartRefund>) -> Self {
        Self { guard: under_way, releases }
    }

    /// Somebody has it.
    pub(super) fn keep(self) {
        self.disarm();
    }

    /// There is none after all.
    fn disarm(mut self) -> Self {
        self.releases.clear();
        self
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        for release in self.releases.drain(..) {
            drop(spawn_refund(self.guard.store(), release));
        }
    }
}

impl RedisSplitPlan {
    fn change_lease(self) -> JoinHandle<Result<LeaseReply, StoreError>> {
        let asked = self.send_parts();
        self.inner.runtime.clone().spawn(async move {
            let answers = all_replies(asked).await?;
            let seen = answers.iter().map(|answer| answer.reply.lease);
            Ok(seen.reduce(merge_lease_replies).unwrap_or(LeaseReply::None))
        })
    }

    /// The lease of all parts that were just acquired, none if they take none. What cannot be made one is an error.
    pub(super) async fn merge_leases(&self, answers: &[TimedReply]) -> Result<Option<Lease>, StoreError> {
        let Op::Acquire { ttl, .. } = self.plan.op else { return Ok(None) };
        let leases = answers.iter().map(|answer| match answer.reply.lease {
            LeaseReply::Held(lease) => Some(lease),
            _ => None,
        });
        let held = || self.parts.iter().zip(leases.clone()).filter_map(|(part, lease)| Some((part, lease?)));
        let Some(fence) = held().map(|(_, lease)| lease.fence).max() else { return Ok(None) };
        let raise = |(part, lease): (&SplitPart<KeyLocation>, Lease)| {
            let op = Op::Renew { token: with_fence(lease, fence).token, ttl };
            let order = RedisPlan::new(op, self.lease_charges(part));
            self.inner.enqueue(part.location, RedisPlan { fence: FenceChange::Raise, ..order }, self.budget)
        };
        let raised = held().filter(|(_, lease)| lease.fence < fence).map(raise).collect();
        let raised = all_replies(raised).await?;
        let highest =
            held().map(|(_, lease)| lease).filter(|lease| lease.fence == fence).map(LeaseReply::Held);
        let seen = raised.iter().map(|answer| answer.reply.lease).chain(highest).reduce(merge_lease_replies);
        match seen {
            Some(LeaseReply::Held(lease)) => Ok(Some(with_fence(lease, fence))),
            _ => Err(StoreError::TimedOut),
        }
    }

    /// What gives back the lease of a part, whether or not it was given; none if it takes none.
    pub(super) fn part_release(&self, part: &SplitPart<KeyLocation>) -> Option<PartRefund> {
        release_for(&self.plan, self.lease_charges(part), part.location)
    }

    fn lease_charges(&self, part: &SplitPart<KeyLocation>) -> SmallVec<[RedisCharge; 2]> {
        self.charges(part).filter(|charge| holds_leases(charge)).cloned().collect()
    }
}

pub(super) fn holds_leases(charge: &RedisCharge) -> bool {
    matches!(charge.algorithm, Algorithm::Leases(_))
}

/// What two parts say of a lease: as long as one holds it, it is held, and it ends with the first that ends. Their servers
/// have clocks of their own, so that is the one which has the least left.
fn merge_lease_replies(one: LeaseReply, other: LeaseReply) -> LeaseReply {
    match (one, other) {
        (LeaseReply::Held(one), LeaseReply::Held(other)) => {
            LeaseReply::Held(if other.ttl() < one.ttl() { other } else { one })
        }
        (held @ LeaseReply::Held(_), _) | (_, held @ LeaseReply::Held(_)) => held,
        (LeaseReply::Released, _) | (_, LeaseReply::Released) => LeaseReply::Released,
        (LeaseReply::Expired, _) | (_, LeaseReply::Expired) => LeaseReply::Expired,
        (one, _) => one,
    }
}

/// The same lease with another fence.
fn with_fence(lease: Lease, fence: FencingToken) -> Lease {
    let token = LeaseToken::new(Grant { fencing_token: fence, ..lease.token.grant() }, lease.token.seal());
    Lease { token, fence, ..lease }
}

/// What gives back the lease that an order asked for at a place, whether or not it was given; none if it asked for none.
fn release_for(order: &RedisPlan, charges: SmallVec<[RedisCharge; 2]>, place: KeyLocation) -> Option<PartRefund> {
    let (Op::Acquire { .. }, owner) = (order.op, order.owner) else { return None };
    // The owner alone says which it is.
    let nowhere = Grant { expires: Timestamp::from_nanos(0), fencing_token: FencingToken::new(0) };
    let token = LeaseToken::new(nowhere, u128::from_be_bytes(owner));
    let order = RedisPlan::new(Op::Release { token }, charges);
    (!order.charges.is_empty()).then_some(PartRefund { location: place, plan: order, before: None })
}
