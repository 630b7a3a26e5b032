//! A plan with owned data, so that it can outlive its caller.

use smallvec::SmallVec;
use tidegate_core::algorithm::Concurrency;
use tidegate_core::{Algorithm, Nanos, Plan, Role};

use super::message::Prefix;
use crate::StoreError;
use crate::memory::{expiry_charges, lease_ttl};
use crate::store::key_name::key_name;

/// etcd allows 128 operations in a transaction by default. One of them is for the base of fencing tokens.
const CHARGES_MAX: usize = 100;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The concurrency limits of a plan.
#[derive(Clone, Debug)]
pub(super) struct EtcdPlan {
    /// At least one.
    pub charges: SmallVec<[EtcdCharge; 1]>,
    /// How long a lease of this plan lasts.
    pub ttl: Nanos,
    /// The index of the charge whose key a token is sealed for.
    pub sealed_for: usize,
}

#[derive(Clone, Debug)]
pub(super) struct EtcdCharge {
    /// The beginning of the names of all leases of its key.
    pub prefix: Box<[u8]>,
    pub algorithm: Concurrency,
    pub cost: u64,
    pub role: Role,
}

/// Identifies a lease among all leases of its key: random, and never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(pub u64);

impl EtcdPlan {
    /// None if the plan has no charges. An error if it has others than concurrency limits.
    pub fn new(namespace: &str, plan: &Plan<'_>, ttl: Option<Nanos>) -> Result<Option<Self>, StoreError> {
        if plan.charges().len() > CHARGES_MAX {
            let text = format!(
                "a request has more than {CHARGES_MAX} concurrency limits, which do not fit into a transaction of etcd"
            );
            return Err(StoreError::Refused(text.into()));
        }
        let mut charges = SmallVec::new();
        for charge in plan.charges() {
            let Algorithm::Leases(algorithm) = charge.counter.algorithm() else {
                let text = "etcd keeps leases only (hint: keep other limits in memory or in Redis, with `LeaseStore`)";
                return Err(StoreError::Refused(text.into()));
            };
            let mut prefix = key_name(namespace, charge).to_vec();
            prefix.push(b'/');
            let (algorithm, cost, role) = (algorithm.clone(), charge.cost, charge.role);
            charges.push(EtcdCharge { prefix: prefix.into(), algorithm, cost, role });
        }
        let sealed_for = expiry_charges(plan)
            .next()
            .and_then(|first| plan.charges().iter().position(|charge| std::ptr::eq(charge, first)));
        Ok(sealed_for.map(|sealed_for| Self { charges, ttl: lease_ttl(plan, ttl), sealed_for }))
    }

    /// The charges that take units.
    pub fn taken(&self) -> impl Iterator<Item = (usize, &EtcdCharge)> {
        self.charges.iter().enumerate().filter(|(_, charge)| charge.cost > 0)
    }

    /// The ttl of the etcd lease: in whole seconds, and not shorter than that of the lease.
    pub fn ttl_s(&self) -> u64 {
        u64::try_from(self.ttl.get().div_ceil(NANOS_PER_SECOND)).unwrap_or(u64::MAX).max(1)
    }
}

impl EtcdCharge {
    pub fn leases(&self) -> Prefix<'_> {
        Prefix(&self.prefix)
    }

    /// The key of an owner's lease.
    pub fn lease_key(&self, owner: Owner) -> Vec<u8> {
        let mut key = self.prefix.to_vec();
        key.extend_from_slice(format!("{:016x}", owner.0).as_bytes());
        key
    }
}

/// The key with the base of all fencing tokens.
pub(super) fn fence_base_key(namespace: &str) -> Vec<u8> {
    format!("{namespace}:fence-base").into_bytes()
}
