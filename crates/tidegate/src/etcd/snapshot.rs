//! The leases of a plan's keys as they were at one revision, and what the limits say about them.

use smallvec::SmallVec;
use tidegate_core::algorithm::LimitAlgorithm as _;
use tidegate_core::{
    ChargeDecision, FencingToken, Grant, LeaseEntry, Leases, Nanos, Outcome, OutcomeKind, Role, TimedCost,
    Timestamp, Wait,
};

use super::message::{FoundKeys, KeyValue, RANGE_KEYS_MAX, TxnReply};
use super::plan::{EtcdCharge, EtcdPlan, Owner};
use crate::{Outcomes, StoreError};

/// When to look again for a lease that lasts longer than it was granted for: it was renewed, or etcd has not ended it
/// yet.
const RETRY_AFTER: Nanos = Nanos::new(1_000_000_000);

/// The leases at a revision.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub revision: u64,
    pub fence_base: Option<FenceBase>,
    /// One for each charge.
    keys: SmallVec<[KeyLeases; 1]>,
}

/// What all fencing tokens are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FenceBase {
    number: u64,
    pub mod_revision: u64,
}

#[derive(Debug)]
struct KeyLeases {
    /// The leases of other owners.
    leases: Leases,
    /// How many leases there are.
    count: u64,
    /// The revision that created the owner's lease, if it is there.
    own: Option<u64>,
}

/// What is known about the decision of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decider {
    /// These limits decide.
    Limits,
    /// The request is denied in any case.
    Denied,
}

/// The value of a lease's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseValue {
    pub units: u64,
    /// When it ends, by the clock of the node that granted it, if it is not renewed. A hint for the time to retry.
    pub expires: Timestamp,
    pub ttl: Nanos,
}

impl Snapshot {
    /// Reads the reply of a transaction that got the base of fencing tokens and the leases of each charge.
    pub fn read(plan: &EtcdPlan, owner: Owner, reply: &TxnReply, now: Timestamp) -> Result<Self, StoreError> {
        let incomplete =
            || StoreError::Refused("etcd has answered for fewer keys than were asked for".into());
        let (base, keys) = reply.found.split_first().ok_or_else(incomplete)?;
        if keys.len() != plan.charges.len() {
            return Err(incomplete());
        }
        let fence_base = base.keys.first().map(FenceBase::read).transpose()?;
        let read = |(charge, found): (&EtcdCharge, &FoundKeys)| KeyLeases::read(charge, found, owner, now);
        let keys = plan.charges.iter().zip(keys).map(read).collect::<Result<_, _>>()?;
        Ok(Self { revision: reply.revision, fence_base, keys })
    }

    /// The revision that created the owner's own lease, if it is there. All its keys were created together.
    pub fn own_revision(&self) -> Option<u64> {
        self.keys.iter().find_map(|key| key.own)
    }

    /// Whether an enforced key has more leases than can be read.
    pub fn is_full(&self, plan: &EtcdPlan) -> bool {
        let is_full = |(charge, key): (&EtcdCharge, &KeyLeases)| {
            charge.role == Role::Enforced && charge.cost > 0 && key.count >= RANGE_KEYS_MAX
        };
        plan.charges.iter().zip(&self.keys).any(is_full)
    }

    /// Whether this charge can be counted. One that is only observed is not, if its key is full.
    pub fn has_room(&self, index: usize) -> bool {
        self.keys.get(index).is_some_and(|key| key.count < RANGE_KEYS_MAX)
    }

    /// The decision of the plan, and the outcome of each limit. If it is allowed, they are those after the charge.
    pub fn decide(&self, plan: &EtcdPlan, now: Timestamp, decider: Decider) -> (OutcomeKind, Outcomes) {
        let timed_cost = |charge: &EtcdCharge| TimedCost { now, cost: charge.cost };
        let keys = || plan.charges.iter().zip(&self.keys);
        let kinds: SmallVec<[OutcomeKind; 2]> = keys()
            .map(|(charge, key)| charge.algorithm.outcome_kind(&key.leases, timed_cost(charge)))
            .collect();
        let enforced = plan.charges.iter().zip(&kinds).filter(|(charge, _)| charge.role == Role::Enforced);
        let limits = enforced.map(|(_, kind)| *kind).max().unwrap_or(OutcomeKind::Allowed);
        let is_full = self.is_full(plan);
        let decision = if decider == Decider::Denied || is_full { OutcomeKind::Denied } else { limits };
        let is_any_over = decision == OutcomeKind::Denied || kinds.contains(&OutcomeKind::Denied);
        let grant = Grant {
            expires: now.saturating_add(plan.ttl),
            fencing_token: FencingToken::new(self.revision.saturating_add(1)),
        };
        let outcome = |((charge, key), kind): ((&EtcdCharge, &KeyLeases), &OutcomeKind)| {
            let (algorithm, timed_cost) = (&charge.algorithm, timed_cost(charge));
            let charge_decision = ChargeDecision { outcome: *kind, decision, role: charge.role, is_any_over };
            if !algorithm.is_charged(timed_cost, charge_decision) {
                return algorithm.outcome(&key.leases, timed_cost, charge_decision);
            }
            let mut after = key.leases.clone();
            after.acquire(grant, charge.cost, now);
            algorithm.outcome(&after, timed_cost, charge_decision)
        };
        let outcomes = keys().zip(&kinds).map(outcome);
        let outcomes = match is_full {
            true => outcomes.map(full_outcome).collect(),
            false => outcomes.collect(),
        };
        (decision, outcomes)
    }
}

/// The outcome of a plan with a key that is full of leases.
fn full_outcome(outcome: Outcome) -> Outcome {
    let retry_after = outcome.retry_after.max(Wait::of(RETRY_AFTER));
    Outcome { kind: OutcomeKind::Denied, remaining: 0, retry_after, ..outcome }
}

impl KeyLeases {
    fn read(
        charge: &EtcdCharge,
        found: &FoundKeys,
        owner: Owner,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let own_key = charge.lease_key(owner);
        let entry = |found: &KeyValue| {
            let value = LeaseValue::read(found)?;
            let fencing_token = FencingToken::new(found.create_revision);
            Ok(LeaseEntry {
                grant: Grant { expires: value.end_hint(now), fencing_token },
                units: value.units,
            })
        };
        let own = found.keys.iter().find(|found| found.key == own_key).map(|found| found.create_revision);
        let others = found.keys.iter().filter(|found| found.key != own_key);
        let mut entries: Vec<LeaseEntry> = others.map(entry).collect::<Result<_, StoreError>>()?;
        entries.sort_unstable_by_key(|entry| entry.grant);
        let last = entries.iter().map(|entry| entry.grant.fencing_token).max().unwrap_or_default();
        let leases = Leases::from_entries(now, last, entries)
            .map_err(|_| StoreError::Unreadable(String::from_utf8_lossy(&charge.prefix).into()))?;
        Ok(Self { leases, count: found.count, own })
    }
}

impl FenceBase {
    fn read(found: &KeyValue) -> Result<Self, StoreError> {
        let number = std::str::from_utf8(&found.value).ok().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| unreadable(found))?;
        Ok(Self { number, mod_revision: found.mod_revision })
    }

    /// The fencing token of a lease that was created at this revision.
    pub fn fencing_token(self, revision: u64) -> FencingToken {
        FencingToken::new(self.number.saturating_add(revision))
    }
}

impl LeaseValue {
    fn read(found: &KeyValue) -> Result<Self, StoreError> {
        let text = std::str::from_utf8(&found.value).map_err(|_| unreadable(found))?;
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(units)), Some(Ok(expires)), Some(Ok(ttl)), None) if units > 0 => {
                Ok(Self { units, expires: Timestamp::from_nanos(expires), ttl: Nanos::new(ttl.into()) })
            }
            _ => Err(unreadable(found)),
        }
    }

    pub fn text(self) -> String {
        let ttl_ns = u64::try_from(self.ttl.get()).unwrap_or(u64::MAX);
        format!("{} {} {ttl_ns}", self.units, self.expires.as_nanos())
    }

    /// When the lease will probably end, by the clock of this node. It is there, so it has not ended yet.
    fn end_hint(self, now: Timestamp) -> Timestamp {
        let soonest = if self.expires > now { self.expires } else { now.saturating_add(RETRY_AFTER) };
        soonest.min(now.saturating_add(self.ttl.max(Nanos::new(1))))
    }
}

fn unreadable(found: &KeyValue) -> StoreError {
    StoreError::Unreadable(String::from_utf8_lossy(&found.key).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_is_there_has_not_ended() {
        let value = LeaseValue {
            units: 2,
            expires: Timestamp::from_nanos(50_000_000_000),
            ttl: Nanos::new(30_000_000_000),
        };
        assert_eq!(value.text(), "2 50000000000 30000000000");
        let hint = |now_s: u64| {
            let now = Timestamp::from_nanos(now_s * 1_000_000_000);
            (value.end_hint(now).as_nanos() - now.as_nanos()) / 1_000_000_000
        };
        assert_eq!(hint(45), 5);
        assert_eq!(hint(10), 30, "the clock of the other node is ahead");
        assert_eq!(hint(60), 1, "it was renewed");
    }
}
