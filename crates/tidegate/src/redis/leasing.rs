//! Leases of plans, in one place or in several.
//!
//! A plan has one lease in all its concurrency limits, which is known by its owner and has one fence. Where their keys are
//! in several places each part is given a fence of its own, by the time of its server. The lease has the highest of them,
//! and the other parts are then told so, before anybody hears of the lease: a lease that any of these keys hands out
//! after it has a higher one.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Fence, Grant, Nanos, Op, Timestamp};
use tokio::task::JoinHandle;

use super::desk::{Answered, Effect, Unanswered};
use super::giving_back::{GivenBack, UnderWay, give_back};
use super::order::{FenceChange, Order, OrderCharge};
use super::script::{is_owner_of, owner_for};
use super::servers::Place;
use super::split::{Split, all_answered};
use super::store::{Inner, Patience, reply};
use crate::store::split::{Part, Placement};
use crate::store::{Later, LeaseReply, Reply};
use crate::{Clock as _, Lease, LeaseToken, StoreFailure};

impl Inner {
    /// Decides an order, and holds what it takes from concurrency limits.
    pub(super) fn acquire(
        self: &Arc<Self>,
        mut order: Order,
        ttl: Option<Nanos>,
        patience: Patience,
    ) -> Later {
        if let Some(owner) = owner_for(self.random(), &order.charges) {
            order = Order { op: Op::Acquire { ttl }, ..order.owned_by(owner) };
        }
        self.decide(order, patience)
    }

    /// Asks for a lease whose keys are in one place. It goes on whether or not anybody waits for it: a lease that is given
    /// too late has to be given back, or it would be held for all of its time.
    pub(super) fn acquire_at(
        self: &Arc<Self>,
        place: Place,
        order: Order,
        patience: Patience,
    ) -> JoinHandle<Result<(Reply, Unclaimed), StoreFailure>> {
        let charges = order.charges.iter().filter(|charge| holds_leases(charge)).cloned().collect();
        let release = release_of(&order, charges, place);
        let unclaimed = Unclaimed::new(UnderWay::begin(self), release.into_iter().collect());
        let asking = self.put(place, order, patience);
        self.runtime.spawn(async move {
            let answer = asking.await.unwrap_or(Err(Unanswered::unasked(StoreFailure::RuntimeGone)));
            match answer {
                Ok(answered) if matches!(answered.seen.lease, LeaseReply::Held(_)) => {
                    Ok((reply(answered), unclaimed))
                }
                Ok(answered) => Ok((reply(answered), unclaimed.none())),
                // It is given back where it is not known, which may be once too often.
                Err(Unanswered { why, effect: Effect::Unknown }) => Err(why),
                Err(Unanswered { why, effect: Effect::Nothing }) => {
                    unclaimed.none();
                    Err(why)
                }
            }
        })
    }

    /// Renews or releases a lease, as the order's op says.
    pub(super) fn change_lease(
        self: &Arc<Self>,
        mut order: Order,
        token: &LeaseToken,
        patience: Patience,
    ) -> Later {
        order.charges.retain(|charge| holds_leases(charge));
        // The token may belong to another key: then Redis is not asked.
        let placement = if is_owner_of(token, &order.charges) { self.placement(&order) } else { None };
        let at = self.office.clock.now();
        match placement {
            None => Box::pin(std::future::ready(Ok(Reply::done(at).with_lease(LeaseReply::WrongOwner)))),
            Some(Placement::Whole(place)) => {
                let asking = self.put(place, order, patience);
                self.later(patience, asking, |answer| answer.map(reply).map_err(|unanswered| unanswered.why))
            }
            Some(Placement::Split(parts)) => {
                let split = Split { inner: self.clone(), order, parts, patience };
                let changed = split.change_lease();
                self.later(patience, changed, move |lease| {
                    lease.map(|lease| Reply::done(at).with_lease(lease))
                })
            }
        }
    }
}

/// A lease that was given and that nobody has yet: if nobody takes it, it is given back.
pub(super) struct Unclaimed {
    under_way: UnderWay,
    /// One for each place that it is in.
    releases: Vec<GivenBack>,
}

impl Unclaimed {
    pub(super) fn new(under_way: UnderWay, releases: Vec<GivenBack>) -> Self {
        Self { under_way, releases }
    }

    /// Somebody has it.
    pub(super) fn claimed(self) {
        self.none();
    }

    /// There is none after all.
    fn none(mut self) -> Self {
        self.releases.clear();
        self
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        for release in self.releases.drain(..) {
            drop(give_back(self.under_way.inner(), release));
        }
    }
}

impl Split {
    fn change_lease(self) -> JoinHandle<Result<LeaseReply, StoreFailure>> {
        let asked = self.ask();
        self.inner.runtime.clone().spawn(async move {
            let answers = all_answered(asked).await?;
            let seen = answers.iter().map(|answer| answer.seen.lease);
            Ok(seen.reduce(together).unwrap_or(LeaseReply::None))
        })
    }

    /// The lease of all parts that were just acquired, none if they take none. What cannot be made one is an error.
    pub(super) async fn lease_of(&self, answers: &[Answered]) -> Result<Option<Lease>, StoreFailure> {
        let Op::Acquire { ttl, .. } = self.order.op else { return Ok(None) };
        let leases = answers.iter().map(|answer| match answer.seen.lease {
            LeaseReply::Held(lease) => Some(lease),
            _ => None,
        });
        let held = || self.parts.iter().zip(leases.clone()).filter_map(|(part, lease)| Some((part, lease?)));
        let Some(fence) = held().map(|(_, lease)| lease.fence).max() else { return Ok(None) };
        let raise = |(part, lease): (&Part<Place>, Lease)| {
            let op = Op::Renew { token: with_fence(lease, fence).token, ttl };
            let order = Order::new(op, self.lease_charges(part));
            self.inner.put(part.place, Order { fence: FenceChange::Raised, ..order }, self.patience)
        };
        let raised = held().filter(|(_, lease)| lease.fence < fence).map(raise).collect();
        let raised = all_answered(raised).await?;
        let highest =
            held().map(|(_, lease)| lease).filter(|lease| lease.fence == fence).map(LeaseReply::Held);
        let seen = raised.iter().map(|answer| answer.seen.lease).chain(highest).reduce(together);
        match seen {
            Some(LeaseReply::Held(lease)) => Ok(Some(with_fence(lease, fence))),
            _ => Err(StoreFailure::TimedOut),
        }
    }

    /// What gives back the lease of a part, whether or not it was given; none if it takes none.
    pub(super) fn release(&self, part: &Part<Place>) -> Option<GivenBack> {
        release_of(&self.order, self.lease_charges(part), part.place)
    }

    fn lease_charges(&self, part: &Part<Place>) -> SmallVec<[OrderCharge; 2]> {
        self.charges(part).filter(|charge| holds_leases(charge)).cloned().collect()
    }
}

pub(super) fn holds_leases(charge: &OrderCharge) -> bool {
    matches!(charge.algorithm, Algorithm::Leases(_))
}

/// What two parts say of a lease: as long as one holds it, it is held, and it ends with the first that ends. Their servers
/// have clocks of their own, so that is the one which has the least left.
fn together(one: LeaseReply, other: LeaseReply) -> LeaseReply {
    match (one, other) {
        (LeaseReply::Held(one), LeaseReply::Held(other)) => {
            LeaseReply::Held(if other.lasts() < one.lasts() { other } else { one })
        }
        (held @ LeaseReply::Held(_), _) | (_, held @ LeaseReply::Held(_)) => held,
        (LeaseReply::Released, _) | (_, LeaseReply::Released) => LeaseReply::Released,
        (LeaseReply::Expired, _) | (_, LeaseReply::Expired) => LeaseReply::Expired,
        (one, _) => one,
    }
}

/// The same lease with another fence.
fn with_fence(lease: Lease, fence: Fence) -> Lease {
    let token = LeaseToken::new(Grant { fence, ..lease.token.grant() }, lease.token.seal());
    Lease { token, fence, ..lease }
}

/// What gives back the lease that an order asked for at a place, whether or not it was given; none if it asked for none.
fn release_of(order: &Order, charges: SmallVec<[OrderCharge; 2]>, place: Place) -> Option<GivenBack> {
    let (Op::Acquire { .. }, owner) = (order.op, order.owner) else { return None };
    // The owner alone says which it is.
    let nowhere = Grant { expires: Timestamp::from_nanos(0), fence: Fence::new(0) };
    let token = LeaseToken::new(nowhere, u128::from_be_bytes(owner));
    let order = Order::new(Op::Release { token }, charges);
    (!order.charges.is_empty()).then_some(GivenBack { place, order, before: None })
}
