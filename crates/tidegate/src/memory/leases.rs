//! Leases: units that are held until they are given back or their time is over.
//!
//! A token needs no place in the store. It says which lease it is for and carries a seal over that, made with the
//! store's secret, so it can neither be guessed nor be used for another key; and a token that is genuine, names an
//! end that is not over, and whose lease is gone, was released before. So no list of released leases is kept.

use tidegate_core::algorithm::{Concurrency, LimitAlgorithm};
use tidegate_core::{Algorithm, Charge, FencingToken, Grant, LeaseToken, Leases, Nanos, Plan, Role, Timestamp};

use super::shards::shard_of;
use super::transaction::{PlanVec, locked_at_mut, is_lease, lock_shards};
use super::{MemoryStore, Outcomes, ShardEntry};
use crate::grant::at_least_min_ttl;

/// Units that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// What its holder shows to renew or release it.
    pub token: LeaseToken,
    /// What its holder shows to whatever the lease protects.
    pub fence: FencingToken,
    /// When it was handed out or last renewed, by the clock that it ends by.
    pub since: Timestamp,
    /// The first instant at which it is over.
    pub expires: Timestamp,
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Release {
    /// The units are free again.
    Released,
    /// It was released before its time was over; or reset, or given up because memory was full.
    AlreadyReleased,
    /// Its time is over, and somebody else may hold the units by now. So is that of one that was released before.
    Expired,
    /// The token is not one of this key's, or of another store's.
    WrongOwner,
}

/// How a renewal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Renewal {
    /// It lasts a ttl from now, with the same fence. Tokens from before the renewal stay good.
    Renewed(Lease),
    /// It was released before its time was over; or reset, or given up because memory was full.
    AlreadyReleased,
    /// Its time is over, and somebody else may hold the units by now.
    Expired,
    /// The token is not one of this key's, or of another store's.
    WrongOwner,
}

impl Release {
    /// As it is written in metrics and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::AlreadyReleased => "already_released",
            Self::Expired => "expired",
            Self::WrongOwner => "wrong_owner",
        }
    }
}

impl Renewal {
    /// As it is written in metrics and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Renewed(_) => "renewed",
            Self::AlreadyReleased => "already_released",
            Self::Expired => "expired",
            Self::WrongOwner => "wrong_owner",
        }
    }
}

/// Why a lease is not there.
enum MissingLease {
    Released,
    Expired,
    WrongOwner,
}

impl Lease {
    /// How long it lasts from when it was handed out or renewed.
    pub fn ttl(&self) -> Nanos {
        Nanos::new(u128::from(self.expires.as_nanos().saturating_sub(self.since.as_nanos())))
    }
}

impl MemoryStore {
    /// Decides a plan as [`check`](Self::check) does, and hands out the lease of what it takes from concurrency
    /// limits. There is none if the plan is denied, has no such limit, or takes nothing from it. It lasts as long as
    /// the shortest ttl of its limits, and no longer than `ttl`, of which a millisecond is the least. Limits that
    /// [look on](tidegate_core::Role::Observed) hold it too, and shorten it only if there are no others.
    pub fn acquire(&self, plan: &Plan<'_>, now: Timestamp, ttl: Option<Nanos>) -> (Outcomes, Option<Lease>) {
        let (outcomes, grant) = self.transact(plan, now, ttl);
        let first = expiry_charges(plan).next();
        let lease = grant.zip(first).map(|(grant, charge)| self.seal_lease(grant, self.seed.tag(charge), now));
        (outcomes, lease)
    }

    /// Lets a lease last from `now` on as long as it would if it was acquired now. The plan is the one that
    /// acquired it; costs do not matter.
    pub fn renew(&self, plan: &Plan<'_>, token: &LeaseToken, now: Timestamp, ttl: Option<Nanos>) -> Renewal {
        let ttl = ttl.map(at_least_min_ttl);
        let ttl = expiry_charges(plan)
            .filter_map(concurrency_algorithm)
            .map(Concurrency::ttl)
            .chain(ttl)
            .min()
            .unwrap_or_default();
        let renewed = self.change_lease(plan, token, now, |leases, instant| {
            leases.renew(token.grant(), instant.saturating_add(ttl), now)
        });
        match renewed {
            Ok(lease) => Renewal::Renewed(lease),
            Err(MissingLease::Released) => Renewal::AlreadyReleased,
            Err(MissingLease::Expired) => Renewal::Expired,
            Err(MissingLease::WrongOwner) => Renewal::WrongOwner,
        }
    }

    /// Gives back what a lease holds. The plan is the one that acquired it; costs do not matter.
    pub fn release(&self, plan: &Plan<'_>, token: &LeaseToken, now: Timestamp) -> Release {
        let released = self.change_lease(plan, token, now, |leases, _| {
            leases.release(token.grant(), now).map(|_| token.grant())
        });
        match released {
            Ok(_) => Release::Released,
            Err(MissingLease::Released) => Release::AlreadyReleased,
            Err(MissingLease::Expired) => Release::Expired,
            Err(MissingLease::WrongOwner) => Release::WrongOwner,
        }
    }

    /// Changes a lease in all the states of a plan that hold it, atomically. `change` is told the latest instant that
    /// any of those has seen which say when the lease ends.
    fn change_lease(
        &self,
        plan: &Plan<'_>,
        token: &LeaseToken,
        now: Timestamp,
        change: impl Fn(&mut Leases, Timestamp) -> Option<Grant>,
    ) -> Result<Lease, MissingLease> {
        let tags: PlanVec<u64> =
            plan.charges().iter().filter(is_lease).map(|charge| self.seed.tag(charge)).collect();
        // Any of them: a limit may have been added beside the one that the lease was sealed for.
        let sealed_for = tags.iter().find(|tag| self.seal_lease(token.grant(), **tag, now).token == *token);
        let sealed_for = *sealed_for.ok_or(MissingLease::WrongOwner)?;
        let mut locked = lock_shards(&self.leases, tags.iter().map(|tag| shard_of(*tag)).collect());
        let seen = |charge: &Charge<'_>| {
            let tag = self.seed.tag(charge);
            locked_at_mut(&mut locked, shard_of(tag)).with_state(tag, |leases: &Leases| leases.effective_now(now))
        };
        let instant = expiry_charges(plan).map(seen).max().unwrap_or(now);
        let mut changed: Option<Grant> = None;
        for (algorithm, tag) in plan.charges().iter().filter_map(concurrency_algorithm).zip(tags) {
            let shard = locked_at_mut(&mut locked, shard_of(tag));
            if !shard.contains(tag) {
                continue;
            }
            let grant = self.update_sharded(ShardEntry { shards: &self.leases, shard, tag }, now, |leases| {
                let grant = change(leases, instant);
                (grant, now.saturating_add(algorithm.reset_after(leases, now)))
            });
            changed = changed.into_iter().chain(grant).min();
        }
        match changed {
            Some(grant) => Ok(self.seal_lease(grant, sealed_for, now)),
            None if token.grant().expires <= instant => Err(MissingLease::Expired),
            None => Err(MissingLease::Released),
        }
    }

    fn seal_lease(&self, grant: Grant, tag: u64, since: Timestamp) -> Lease {
        let seal = self.seed.seal([grant.expires.as_nanos(), grant.fencing_token.get(), tag]);
        Lease { token: LeaseToken::new(grant, seal), fence: grant.fencing_token, since, expires: grant.expires }
    }
}

/// The charges that say when a lease ends and that it is sealed for: those that are enforced; all if none is, for
/// those that look on come and go.
fn expiry_charges<'a, 'p>(plan: &'a Plan<'p>) -> impl Iterator<Item = &'a Charge<'p>> {
    let role = plan.enforced().find(is_lease).map_or(Role::Observed, |charge| charge.role);
    plan.charges().iter().filter(is_lease).filter(move |charge| charge.role == role)
}

fn concurrency_algorithm<'p>(charge: &Charge<'p>) -> Option<&'p Concurrency> {
    match charge.counter.algorithm() {
        Algorithm::Leases(algorithm) => Some(algorithm),
        _ => None,
    }
}
