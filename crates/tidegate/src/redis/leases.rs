//! Leases of plans, whole or split.
//!
//! A plan has one lease in all its concurrency limits. The lease is identified by its owner and has one
//! fencing token. If the keys are in several slots or servers, each part gets its own fencing token, from the
//! time of its server. The lease takes the highest of them, and the other parts are raised to it before the
//! caller sees the lease. So every later lease on any of these keys has a higher fencing token.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Algorithm, FencingToken, Grant, Nanos, Op, Timestamp};
use tokio::task::JoinHandle;

use super::batcher::{PlanFailure, PossibleEffect, TimedReply};
use super::key_name::KeyName;
use super::lease_seal::OpenedToken;
use super::plan::{FenceChange, RedisCharge, RedisPlan};
use super::refunds::{PartRefund, RefundGuard, spawn_refund};
use super::script::{governing_key, new_owner};
use super::split::{RedisSplitPlan, all_replies};
use super::store::{PlanBudget, RedisInner, into_reply};
use super::topology::KeyLocation;
use crate::store::split::{Placement, SplitPart};
use crate::store::{LeaseReply, Reply, ReplyFuture};
use crate::{Clock as _, Lease, LeaseToken, StoreError};

impl RedisInner {
    /// Decides a plan, and acquires a lease if it has concurrency limits.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        mut plan: RedisPlan,
        ttl: Option<Nanos>,
        budget: PlanBudget,
    ) -> ReplyFuture {
        let Some(key) = governing_key(&plan.charges).cloned() else { return self.decide(plan, budget) };
        if let Some(owner) = new_owner(self.random_u64(), &plan.charges) {
            plan = RedisPlan { op: Op::Acquire { ttl }, ..plan.with_owner(owner) };
        }
        self.with_sealed_token(self.decide(plan, budget), key)
    }

    /// The reply for the caller, with the token of a lease on this key sealed.
    fn with_sealed_token(self: &Arc<Self>, reply: ReplyFuture, key: KeyName) -> ReplyFuture {
        let inner = Arc::clone(self);
        Box::pin(async move { reply.await.map(|reply| inner.lease_seal.seal_reply(reply, &key)) })
    }

    /// Acquires a lease whose keys are in one slot. It runs to completion even if the caller is gone: a lease
    /// that comes too late must be released, or it would be held until it expires.
    pub(crate) fn acquire_whole(
        self: &Arc<Self>,
        location: KeyLocation,
        plan: RedisPlan,
        budget: PlanBudget,
    ) -> JoinHandle<Result<(Reply, ReleaseOnDrop), StoreError>> {
        let charges = plan.charges.iter().filter(|charge| holds_leases(charge)).cloned().collect();
        let release = release_for(&plan, charges, location);
        let release_on_drop = ReleaseOnDrop::new(RefundGuard::new(self), release.into_iter().collect());
        let pending = self.enqueue(location, plan, budget);
        self.runtime.spawn(async move {
            let result = pending.await.unwrap_or(Err(PlanFailure::not_sent(StoreError::RuntimeGone)));
            match result {
                Ok(timed) if matches!(timed.reply.lease, LeaseReply::Held(_)) => {
                    Ok((into_reply(timed), release_on_drop))
                }
                Ok(timed) => Ok((into_reply(timed), release_on_drop.disarm())),
                // The effect is unknown, so the lease is released, perhaps without need.
                Err(PlanFailure { error, effect: PossibleEffect::Unknown }) => Err(error),
                Err(PlanFailure { error, effect: PossibleEffect::None }) => {
                    release_on_drop.disarm();
                    Err(error)
                }
            }
        })
    }

    /// Renews or releases a lease, as the plan's op says.
    pub(crate) fn change_lease(
        self: &Arc<Self>,
        mut plan: RedisPlan,
        token: &LeaseToken,
        budget: PlanBudget,
    ) -> ReplyFuture {
        plan.charges.retain(|charge| holds_leases(charge));
        let at = self.context.clock.now();
        // If the token is not genuine or belongs to another key, Redis is not called.
        let wrong_owner = || Reply::empty(at).with_lease(LeaseReply::WrongOwner);
        let Some(OpenedToken { token, key }) = self.lease_seal.open(token, &plan.charges) else {
            return Box::pin(std::future::ready(Ok(wrong_owner())));
        };
        let key = KeyName::from_slice(key);
        plan.op = match plan.op {
            Op::Renew { ttl, .. } => Op::Renew { token, ttl },
            _ => Op::Release { token },
        };
        let changed = match self.placement(&plan) {
            None => Box::pin(std::future::ready(Ok(wrong_owner()))),
            Some(Placement::Whole(location)) => {
                let pending = self.enqueue(location, plan, budget);
                self.await_reply(budget, pending, |result| {
                    result.map(into_reply).map_err(|failure| failure.error)
                })
            }
            Some(Placement::Split(parts)) => {
                let split = RedisSplitPlan { inner: self.clone(), plan, parts, budget };
                let changed = split.change_lease();
                self.await_reply(budget, changed, move |lease| {
                    lease.map(|lease| Reply::empty(at).with_lease(lease))
                })
            }
        };
        self.with_sealed_token(changed, key)
    }
}

/// Releases a lease when it is dropped, unless the caller took it.
pub(crate) struct ReleaseOnDrop {
    guard: RefundGuard,
    /// One release for each part of the lease.
    releases: Vec<PartRefund>,
}

impl ReleaseOnDrop {
    pub(crate) fn new(guard: RefundGuard, releases: Vec<PartRefund>) -> Self {
        Self { guard, releases }
    }

    /// The caller has the lease.
    pub(crate) fn keep(self) {
        self.disarm();
    }

    /// There is no lease to release.
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
        let pending = self.send_parts();
        self.inner.runtime.clone().spawn(async move {
            let replies = all_replies(pending).await?;
            let leases = replies.iter().map(|timed| timed.reply.lease);
            Ok(leases.reduce(merge_lease_replies).unwrap_or(LeaseReply::None))
        })
    }

    /// The lease of all parts that were just acquired; none if they take none. Returns an error if the parts
    /// cannot be merged into one lease.
    pub(crate) async fn merge_leases(&self, replies: &[TimedReply]) -> Result<Option<Lease>, StoreError> {
        let Op::Acquire { ttl, .. } = self.plan.op else { return Ok(None) };
        let leases = replies.iter().map(|timed| match timed.reply.lease {
            LeaseReply::Held(lease) => Some(lease),
            _ => None,
        });
        let held_parts =
            || self.parts.iter().zip(leases.clone()).filter_map(|(part, lease)| Some((part, lease?)));
        let Some(fence) = held_parts().map(|(_, lease)| lease.fence).max() else { return Ok(None) };
        let raise = |(part, lease): (&SplitPart<KeyLocation>, Lease)| {
            let op = Op::Renew { token: with_fence(lease, fence).token, ttl };
            let plan = RedisPlan::new(op, self.lease_charges(part));
            self.inner.enqueue(part.location, RedisPlan { fence: FenceChange::Raise, ..plan }, self.budget)
        };
        let raised = held_parts().filter(|(_, lease)| lease.fence < fence).map(raise).collect();
        let raised = all_replies(raised).await?;
        let highest =
            held_parts().map(|(_, lease)| lease).filter(|lease| lease.fence == fence).map(LeaseReply::Held);
        let merged = raised.iter().map(|timed| timed.reply.lease).chain(highest).reduce(merge_lease_replies);
        match merged {
            Some(LeaseReply::Held(lease)) => Ok(Some(with_fence(lease, fence))),
            _ => Err(StoreError::TimedOut),
        }
    }

    /// The release of a part's lease, whether or not it was acquired; none if it takes none.
    pub(crate) fn part_release(&self, part: &SplitPart<KeyLocation>) -> Option<PartRefund> {
        release_for(&self.plan, self.lease_charges(part), part.location)
    }

    fn lease_charges(&self, part: &SplitPart<KeyLocation>) -> SmallVec<[RedisCharge; 2]> {
        self.charges(part).filter(|charge| holds_leases(charge)).cloned().collect()
    }
}

pub(crate) fn holds_leases(charge: &RedisCharge) -> bool {
    matches!(charge.algorithm, Algorithm::Leases(_))
}

/// Merges the replies of two parts about one lease. It is held if one part holds it, and it ends with the
/// part that ends first. Their servers have different clocks, so that is the part with the shortest time
/// left.
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

/// The same lease with another fencing token.
fn with_fence(lease: Lease, fence: FencingToken) -> Lease {
    let token = LeaseToken::new(Grant { fencing_token: fence, ..lease.token.grant() }, lease.token.seal());
    Lease { token: token.with_ttl(lease.token.ttl()), fence, ..lease }
}

/// The release of the lease that a plan asked for at a location, whether or not it was acquired; none if it
/// asked for none.
fn release_for(
    plan: &RedisPlan,
    charges: SmallVec<[RedisCharge; 2]>,
    location: KeyLocation,
) -> Option<PartRefund> {
    let (Op::Acquire { .. }, owner) = (plan.op, plan.owner) else { return None };
    // The owner alone identifies the lease.
    let unknown = Grant { expires: Timestamp::from_nanos(0), fencing_token: FencingToken::new(0) };
    let token = LeaseToken::new(unknown, u128::from_be_bytes(owner));
    let plan = RedisPlan::new(Op::Release { token }, charges);
    (!plan.charges.is_empty()).then_some(PartRefund { location, plan, before: None })
}
