//! Leases: units that are held until they are released or expire.
//!
//! No thread removes expired leases. They are ordered by expiry, and each operation on a key skips those that have
//! expired.
//!
//! Fencing tokens always grow. The store keeps the highest token of all states that it dropped and starts above it, so
//! tokens grow even over a reset or an eviction within the same microsecond.
//!
//! A lease token is the lease's expiry, fencing token and ttl with a seal: SipHash-2-4 under the store's seed, with the tag
//! of the key. So it can neither be guessed nor used for another key. The store keeps no list of released leases: if a
//! genuine token has no lease, the lease was released if its expiry is not over yet, and has expired otherwise.
//!
//! A `check` on a concurrency limit takes a lease whose token is not returned, so it ends with its ttl.
//!
//! A live lease is never evicted: its key would grant the units to a second holder. When the memory for leases is full,
//! a new lease is refused instead, before anything of its plan is charged. Otherwise a client that can invent keys
//! could free a lock that another client holds. `owners.rs` says how much one limit may take. An observed limit that has no room for its lease refuses nothing; it
//! just does not count the lease.

use tidegate_core::algorithm::{Concurrency, LimitAlgorithm};
use tidegate_core::{
    Algorithm, Charge, ChargeDecision, FencingToken, Grant, LeaseToken, Leases, Nanos, Outcome, OutcomeKind,
    Plan, Role, Timestamp, Wait,
};

use super::shards::{ShardEntry, ShardedState, shard_of};
use super::transaction::{
    ChargeState, PlanShards, PlanVec, WeighedPlan, is_lease, lock_shards, locked_at, locked_at_mut,
};
use super::{MemoryStore, Outcomes};
use crate::leases::grant::{GrantPart, at_least_min_ttl};
use crate::store::LeaseReply;

/// Held units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// What the holder presents to renew or release the lease.
    pub token: LeaseToken,
    /// The fencing token: what the holder presents to what the lease protects.
    pub fence: FencingToken,
    /// When the lease was granted or last renewed, by the clock by which it expires.
    pub since: Timestamp,
    /// The first instant at which the lease is over.
    pub expires: Timestamp,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Release {
    /// The units are free again.
    Released,
    /// The lease is not held any more, before its expiry: it was released or reset, or the store lost it.
    AlreadyReleased,
    /// The lease has expired, and another holder may have the units. Also the result for a lease that was released,
    /// once its expiry is over.
    Expired,
    /// The token belongs to another key or another store.
    WrongOwner,
}

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Renewal {
    /// The lease lasts a ttl from now, with the same fencing token. Earlier lease tokens stay valid.
    Renewed(Lease),
    /// The lease is not held any more, before its expiry: it was released or reset, or the store lost it.
    AlreadyReleased,
    /// The lease has expired, and another holder may have the units.
    Expired,
    /// The token belongs to another key or another store.
    WrongOwner,
}

impl Release {
    /// The name in metrics and replies.
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
    /// The name in metrics and replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Renewed(_) => "renewed",
            Self::AlreadyReleased => "already_released",
            Self::Expired => "expired",
            Self::WrongOwner => "wrong_owner",
        }
    }
}

/// Why a lease is missing.
enum MissingLease {
    Released,
    Expired,
    WrongOwner,
}

impl Lease {
    /// The lease of a token that was granted or renewed at `since`.
    pub(crate) fn new(token: LeaseToken, since: Timestamp) -> Self {
        let Grant { expires, fencing_token } = token.grant();
        Self { token, fence: fencing_token, since, expires }
    }

    /// How long the lease lasts from when it was granted or last renewed.
    pub fn ttl(&self) -> Nanos {
        Nanos::new(u128::from(self.expires.as_nanos().saturating_sub(self.since.as_nanos())))
    }
}

impl MemoryStore {
    /// Decides a plan as [`check`](Self::check) does, and grants the lease of its concurrency limits. There is
    /// [none](LeaseReply::None) if the plan is denied, has no concurrency limit, or has a cost of zero there. If there is
    /// [no memory](LeaseReply::MemoryFull) for it, the plan is denied and nothing is charged. The lease lasts for the shortest ttl of
    /// its limits, and at most for `ttl` (at least a millisecond). [Observed](tidegate_core::Role::Observed) limits
    /// hold it too, and shorten it only if there are no enforced ones.
    pub fn acquire(&self, plan: &Plan<'_>, now: Timestamp, ttl: Option<Nanos>) -> (Outcomes, LeaseReply) {
        let (outcomes, grant) = self.transact(plan, now, ttl);
        let Ok(grant) = grant else { return (outcomes, LeaseReply::MemoryFull) };
        let first = expiry_charges(plan).next();
        let lease = grant.zip(first).map(|(grant, charge)| {
            Lease::new(self.seal(grant, Some(lease_ttl(plan, ttl)), self.seed.tag_of_charge(charge)), now)
        });
        (outcomes, lease.map_or(LeaseReply::None, LeaseReply::Held))
    }

    /// Renews a lease: from `now` it lasts as long as if it was acquired now. The plan must be the one that acquired
    /// it. Costs do not matter.
    pub fn renew(&self, plan: &Plan<'_>, token: &LeaseToken, now: Timestamp, ttl: Option<Nanos>) -> Renewal {
        let ttl = lease_ttl(plan, ttl);
        let renewed = self.change_lease(plan, token, now, |leases, instant| {
            leases.renew(token.grant(), instant.saturating_add(ttl), now)
        });
        match renewed {
            Ok((grant, tag)) => Renewal::Renewed(Lease::new(self.seal(grant, Some(ttl), tag), now)),
            Err(MissingLease::Released) => Renewal::AlreadyReleased,
            Err(MissingLease::Expired) => Renewal::Expired,
            Err(MissingLease::WrongOwner) => Renewal::WrongOwner,
        }
    }

    /// Releases a lease. The plan must be the one that acquired it. Costs do not matter.
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

    /// Changes a lease in all states of a plan that hold it, atomically. `change` gets the latest instant that the
    /// states of the [`expiry_charges`] have seen. Returns the grant, and the tag that its token is sealed for.
    fn change_lease(
        &self,
        plan: &Plan<'_>,
        token: &LeaseToken,
        now: Timestamp,
        change: impl Fn(&mut Leases, Timestamp) -> Option<Grant>,
    ) -> Result<(Grant, u64), MissingLease> {
        let tags: PlanVec<u64> =
            plan.charges().iter().filter(is_lease).map(|charge| self.seed.tag_of_charge(charge)).collect();
        // Try every tag: a limit may have been added before the one that the lease was sealed for.
        let is_genuine = |tag: &&u64| self.seal(token.grant(), token.ttl(), **tag).seal() == token.seal();
        let sealed_for = tags.iter().find(is_genuine);
        let sealed_for = *sealed_for.ok_or(MissingLease::WrongOwner)?;
        let mut locked = lock_shards(&self.leases, tags.iter().map(|tag| shard_of(*tag)).collect());
        let effective_now = |charge: &Charge<'_>| {
            let tag = self.seed.tag_of_charge(charge);
            locked_at_mut(&mut locked, shard_of(tag))
                .with_state(tag, |leases: &Leases| leases.effective_now(now))
        };
        let instant = expiry_charges(plan).map(effective_now).max().unwrap_or(now);
        let mut changed: Option<Grant> = None;
        for (charge, tag) in plan.charges().iter().filter(is_lease).zip(tags) {
            let Some(algorithm) = concurrency_algorithm(charge) else { continue };
            let key = self.owned_tag(charge.counter, tag);
            let shard = locked_at_mut(&mut locked, shard_of(tag));
            if !shard.contains(tag) {
                continue;
            }
            let grant = self.update_sharded(ShardEntry { shards: &self.leases, shard, key }, now, |leases| {
                let grant = change(leases, instant);
                (grant, now.saturating_add(algorithm.reset_after(leases, now)))
            });
            changed = changed.into_iter().chain(grant).min();
        }
        match changed {
            Some(grant) => Ok((grant, sealed_for)),
            None if token.grant().expires <= instant => Err(MissingLease::Expired),
            None => Err(MissingLease::Released),
        }
    }

    /// The token of a lease. Tokens of earlier versions have no ttl.
    fn seal(&self, grant: Grant, ttl: Option<Nanos>, tag: u64) -> LeaseToken {
        let words = [grant.expires.as_nanos(), grant.fencing_token.get(), tag];
        let ttl_ns = ttl.map(|ttl| u64::try_from(ttl.get()).unwrap_or(u64::MAX));
        let seal = match ttl_ns {
            Some(ttl_ns) => self.seed.seal(&[words[0], words[1], words[2], ttl_ns]),
            None => self.seed.seal(&words),
        };
        LeaseToken::new(grant, seal).with_ttl(ttl)
    }
}

/// How long a lease of the plan lasts: the shortest ttl of its limits, and at most `ttl`.
pub(crate) fn lease_ttl(plan: &Plan<'_>, ttl: Option<Nanos>) -> Nanos {
    let limits = expiry_charges(plan).filter_map(concurrency_algorithm).map(Concurrency::ttl);
    limits.chain(ttl.map(at_least_min_ttl)).min().unwrap_or_default()
}

/// The charges that determine when a lease expires, and for which its token is sealed: the enforced ones. All charges
/// if none is enforced, because observed limits come and go.
pub(crate) fn expiry_charges<'a, 'p>(plan: &'a Plan<'p>) -> impl Iterator<Item = &'a Charge<'p>> {
    let role = plan.enforced().find(is_lease).map_or(Role::Observed, |charge| charge.role);
    plan.charges().iter().filter(is_lease).filter(move |charge| charge.role == role)
}

fn concurrency_algorithm<'p>(charge: &Charge<'p>) -> Option<&'p Concurrency> {
    match charge.counter.algorithm() {
        Algorithm::Leases(algorithm) => Some(algorithm),
        _ => None,
    }
}

/// There is no memory for a lease.
pub(super) struct LeaseMemoryFull;

/// When to retry if there is no memory for a lease: others may have expired by then.
const MEMORY_FULL_RETRY: Wait = Wait::of(Nanos::new(1_000_000_000));

/// The outcome of a concurrency limit that has no memory for a lease.
pub(super) fn memory_full_outcome() -> Outcome {
    Outcome {
        kind: OutcomeKind::Denied,
        remaining: 0,
        retry_after: MEMORY_FULL_RETRY,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
        over: 0,
    }
}

impl MemoryStore {
    /// Makes room for one more lease of a key. False if the memory for leases is full.
    pub(super) fn has_room_for_lease(&self, entry: &mut ShardEntry<'_, Leases>, now: Timestamp) -> bool {
        let heap_bytes = entry.shard.with_state(entry.key.tag, Leases::heap_bytes_to_add);
        self.make_room_for(entry, heap_bytes, now)
    }

    /// The grant for all leases of an allowed plan, with a fencing token above those of dropped states.
    pub(super) fn grant_for_plan(
        &self,
        charge_states: &[ChargeState<'_>],
        plan_shards: &PlanShards<'_>,
        weighed: &WeighedPlan,
        ttl: Option<Nanos>,
    ) -> Option<Grant> {
        let parts =
            charge_states.iter().zip(weighed.per_charge()).filter_map(|(charge_state, charge_decision)| {
                grant_part(charge_state, plan_shards, charge_decision)
            });
        Some(self.raise_above_lost_fence(parts.reduce(GrantPart::merge)?.grant(ttl)))
    }
}

/// What a limit contributes to the lease. None if the limit is not charged.
fn grant_part(
    charge_state: &ChargeState<'_>,
    plan_shards: &PlanShards<'_>,
    charge_decision: ChargeDecision,
) -> Option<GrantPart> {
    let ChargeState::Leases { algorithm, timed_cost, tag, has_room: true, .. } = charge_state else {
        return None;
    };
    let is_charged = algorithm.is_charged(*timed_cost, charge_decision);
    is_charged.then(|| {
        locked_at(&plan_shards.leases, shard_of(*tag)).with_state(*tag, |leases| {
            GrantPart::new(algorithm, leases, charge_decision.role, timed_cost.now)
        })
    })
}

#[cfg(test)]
mod tests {
    use tidegate_core::Counter;

    use super::*;

    #[test]
    fn a_token_of_an_earlier_version_is_valid_without_its_ttl() {
        let store = MemoryStore::bounded(1 << 20);
        let counter = Counter::new("lock", 0, "{algorithm: concurrency, limit: 1, ttl: 1m}".parse().unwrap());
        let plan = Plan::of_one(Charge::new(b"key", &counter, 1));
        let now = Timestamp::from_nanos(1_700_000_000_000_000_000);
        let lease = store.acquire(&plan, now, None).1.into_lease().unwrap();
        assert_eq!(store.release(&plan, &lease.token.with_ttl(None), now), Release::WrongOwner);
        let earlier = store.seal(lease.token.grant(), None, store.seed.tag_of_charge(&plan.charges()[0]));
        assert_eq!(earlier.to_string().len(), 64);
        assert_eq!(store.release(&plan, &earlier, now), Release::Released);
    }
}
