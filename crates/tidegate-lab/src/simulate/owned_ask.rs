//! A question to the store, as it travels over the simulated network.

use tidegate::Timestamp;
use tidegate::store::{Ask, Charge, Counter, Op, Plan, Role, StorePolicy};

/// A question that borrows nothing.
#[derive(Clone, Debug)]
pub(super) struct OwnedAsk {
    pub(super) op: Op,
    pub(super) charges: Vec<OwnedCharge>,
}

#[derive(Clone, Debug)]
pub(super) struct OwnedCharge {
    pub(super) key: SimKey,
    pub(super) counter: Counter,
    pub(super) cost: u64,
    pub(super) role: Role,
    pub(super) policy: StorePolicy,
}

/// A key of the simulation: the rule and the entity that is limited. All keys of an entity are on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SimKey {
    pub(super) rule: u8,
    pub(super) entity: u32,
}

impl SimKey {
    pub(super) fn to_bytes(self) -> [u8; 5] {
        let [a, b, c, d] = self.entity.to_le_bytes();
        [self.rule, a, b, c, d]
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        match bytes {
            [rule, a, b, c, d] => Self { rule: *rule, entity: u32::from_le_bytes([*a, *b, *c, *d]) },
            _ => panic!("a key that the simulation did not make: {bytes:?}"),
        }
    }
}

impl OwnedAsk {
    pub(super) fn new(ask: &Ask<'_, '_>) -> Self {
        let owned = |charge: &Charge<'_>| OwnedCharge {
            key: SimKey::from_bytes(charge.key),
            counter: charge.counter.clone(),
            cost: charge.cost,
            role: charge.role,
            policy: charge.policy,
        };
        Self { op: ask.op, charges: ask.plan.charges().iter().map(owned).collect() }
    }

    /// Calls `f` with the question as of `now`.
    pub(super) fn with_ask<T>(&self, now_ns: u64, f: impl FnOnce(&Ask<'_, '_>) -> T) -> T {
        let keys: Vec<[u8; 5]> = self.charges.iter().map(|charge| charge.key.to_bytes()).collect();
        let mut plan = Plan::new();
        for (charge, key) in self.charges.iter().zip(&keys) {
            let OwnedCharge { counter, cost, role, policy, .. } = charge;
            let charge = Charge { key, counter, cost: *cost, role: *role, policy: *policy };
            plan.add(charge).expect("a plan of the simulation has few charges");
        }
        f(&Ask { op: self.op, plan: &plan, now: Timestamp::from_nanos(now_ns), deadline: None })
    }
}
