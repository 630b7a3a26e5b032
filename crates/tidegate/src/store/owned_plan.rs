//! A plan that outlives the request that it was made for.

use smallvec::SmallVec;
use tidegate_core::{Charge, Counter, Plan, Role, StorePolicy};

/// A plan that borrows nothing.
#[derive(Clone, Debug)]
pub(super) struct OwnedPlan {
    charges: SmallVec<[OwnedCharge; 2]>,
}

/// A charge that borrows nothing.
#[derive(Clone, Debug)]
pub(super) struct OwnedCharge {
    key: SmallVec<[u8; 40]>,
    counter: Counter,
    pub cost: u64,
    role: Role,
    policy: StorePolicy,
}

impl OwnedCharge {
    pub(super) fn new(charge: &Charge<'_>) -> Self {
        Self {
            key: SmallVec::from_slice(charge.key),
            counter: charge.counter.clone(),
            cost: charge.cost,
            role: charge.role,
            policy: charge.policy,
        }
    }

    pub(super) fn charge(&self) -> Charge<'_> {
        Charge {
            key: &self.key,
            counter: &self.counter,
            cost: self.cost,
            role: self.role,
            policy: self.policy,
        }
    }
}

impl OwnedPlan {
    pub(super) fn from_plan(plan: &Plan<'_>) -> Self {
        Self { charges: plan.charges().iter().map(OwnedCharge::new).collect() }
    }

    pub(super) fn plan(&self) -> Plan<'_> {
        plan_from_charges(self.charges.iter().map(OwnedCharge::charge))
    }
}

/// A plan of some charges of another plan.
pub(super) fn plan_from_charges<'a>(charges: impl Iterator<Item = Charge<'a>>) -> Plan<'a> {
    let mut plan = Plan::new();
    for charge in charges {
        // Cannot fail: the other plan has at least these charges, each on its own key.
        let _ = plan.add(charge);
    }
    plan
}
