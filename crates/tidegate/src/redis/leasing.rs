//! Leases of plans, in one place or in several.
//!
//! A plan has one lease in all its concurrency limits, which is known by its owner and has one fence. Where their keys are
//! in several places each part is given a fence of its own, by the time of its server. The lease has the highest of them,
//! and the other parts are then told so, before anybody hears of the lease: a lease that any of these keys hands out
//! after it has a higher one.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Fence, Grant, Nanos, Timestamp};
use tokio::task::JoinHandle;

use super::desk::Answered;
use super::order::{Op, Order, OrderCharge};
use super::parts::{Part, Parted};
use super::script::{LeaseSeen, is_owner_of, owner_for};
use super::split::{Split, all};
use super::store::{Inner, Patience};
use crate::{Later, Lease, LeaseToken, Settled, StoreFailure};

impl Inner {
    /// Decides an order, and holds what it takes from concurrency limits.
    pub(super) fn acquire(
        self: &Arc<Self>,
        mut order: Order,
        ttl: Option<Nanos>,
        patience: Patience,
    ) -> Later<Result<Settled, StoreFailure>> {
        if let Some(owner) = owner_for(self.random(), &order.charges) {
            order.op = Op::Acquire { owner, ttl };
        }
        self.decide(order, patience)
    }

    /// Renews or releases a lease, as the order's op says.
    pub(super) fn change_lease(
        self: &Arc<Self>,
        mut order: Order,
        token: &LeaseToken,
        patience: Patience,
    ) -> Later<Result<Changed, StoreFailure>> {
        order.charges.retain(|charge| holds_leases(charge));
        if !is_owner_of(token, &order.charges) {
            return Box::pin(std::future::ready(Ok(Changed::WrongOwner)));
        }
        match self.parted(&order) {
            None => Box::pin(std::future::ready(Ok(Changed::WrongOwner))),
            Some(Parted::Whole(place)) => {
                let asking = self.put(place, order, patience);
                self.later(patience, asking, |answer| match answer {
                    Ok(answered) => Ok(Changed::Seen(answered.seen.lease)),
                    Err(unanswered) => Err(unanswered.why),
                })
            }
            Some(Parted::Split(parts)) => {
                let split = Split { inner: self.clone(), order, parts, patience };
                self.later(patience, split.change_lease(), |seen| seen.map(Changed::Seen))
            }
        }
    }
}

/// How it ended that a lease was to be renewed or released.
#[derive(Clone, Copy, Debug)]
pub(super) enum Changed {
    Seen(LeaseSeen),
    /// The token is of another key. Redis was not asked.
    WrongOwner,
}

impl Split {
    fn change_lease(self) -> JoinHandle<Result<LeaseSeen, StoreFailure>> {
        let asked = self.ask();
        self.inner.runtime.clone().spawn(async move {
            let answers = all(asked).await.map_err(|(_, why)| why)?;
            let seen = answers.iter().map(|answer| answer.seen.lease);
            Ok(seen.reduce(together).unwrap_or(LeaseSeen::None))
        })
    }

    /// The lease of all parts that were just acquired, none if they take none. What cannot be made one is an error.
    pub(super) async fn one_lease(&self, answers: &[Answered]) -> Result<Option<Lease>, StoreFailure> {
        let Op::Acquire { ttl, .. } = self.order.op else { return Ok(None) };
        let leases = answers.iter().map(|answer| match answer.seen.lease {
            LeaseSeen::Held(lease) => Some(lease),
            _ => None,
        });
        let held = || self.parts.iter().zip(leases.clone()).filter_map(|(part, lease)| Some((part, lease?)));
        let Some(fence) = held().map(|(_, lease)| lease.fence).max() else { return Ok(None) };
        let raise = |(part, lease): (&Part, Lease)| {
            let op = Op::Raise { token: with(lease, lease.expires, fence).token, ttl };
            let charges = self.lease_charges(part);
            self.inner.put(part.place, Order::new(op, charges), self.patience)
        };
        let raised = held().filter(|(_, lease)| lease.fence < fence).map(raise).collect();
        let raised = all(raised).await.map_err(|(_, why)| why)?;
        let highest =
            held().map(|(_, lease)| lease).filter(|lease| lease.fence == fence).map(LeaseSeen::Held);
        let seen = raised.iter().map(|answer| answer.seen.lease).chain(highest).reduce(together);
        match seen {
            Some(LeaseSeen::Held(lease)) => Ok(Some(with(lease, lease.expires, fence))),
            _ => Err(StoreFailure::TimedOut),
        }
    }

    pub(super) fn lease_charges(&self, part: &Part) -> SmallVec<[OrderCharge; 2]> {
        part.charges_of(&self.order).filter(|charge| holds_leases(charge)).cloned().collect()
    }
}

pub(super) fn holds_leases(charge: &OrderCharge) -> bool {
    matches!(charge.algorithm, Algorithm::Leases(_))
}

/// What two parts say of a lease: as long as one holds it, it is held, and it ends with the first that ends. Their servers
/// have clocks of their own, so that is the one which has the least left.
fn together(one: LeaseSeen, other: LeaseSeen) -> LeaseSeen {
    match (one, other) {
        (LeaseSeen::Held(one), LeaseSeen::Held(other)) => {
            LeaseSeen::Held(if other.lasts() < one.lasts() { other } else { one })
        }
        (held @ LeaseSeen::Held(_), _) | (_, held @ LeaseSeen::Held(_)) => held,
        (LeaseSeen::Released, _) | (_, LeaseSeen::Released) => LeaseSeen::Released,
        (LeaseSeen::Expired, _) | (_, LeaseSeen::Expired) => LeaseSeen::Expired,
        (one, _) => one,
    }
}

fn with(lease: Lease, expires: Timestamp, fence: Fence) -> Lease {
    let token = LeaseToken::new(Grant { expires, fence }, lease.token.seal());
    Lease { token, fence, expires, ..lease }
}
