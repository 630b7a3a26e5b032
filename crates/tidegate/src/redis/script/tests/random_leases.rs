//! Random leases on Redis and in memory: what is held until when, and replies to late owners.

use proptest::prelude::*;
use proptest::sample::Index;
use tidegate_core::{Charge, Nanos, Plan};

use super::*;
use crate::redis::plan::NO_OWNER;
use crate::{Lease, LeaseToken, MemoryStore};

const LIMITS: &[&str] = &[
    "{algorithm: concurrency, limit: 5, ttl: 1s}",
    "{algorithm: concurrency, limit: 8, ttl: 333333334ns}",
    "{algorithm: gcra, limit: 100, per: 1s, burst: 9}",
    "{algorithm: concurrency, limit: 2, ttl: 10ms}",
];

#[derive(Clone, Debug)]
struct LeaseStep {
    advance_us: u64,
    op: LeaseOp,
}

#[derive(Clone, Debug)]
enum LeaseOp {
    Acquire {
        cost: u64,
        ttl_us: Option<u64>,
        observed: u8,
    },
    Check {
        cost: u64,
    },
    Renew {
        which: Index,
        ttl_us: Option<u64>,
    },
    Release {
        which: Index,
    },
    /// With the random half of another owner.
    GuessOwner {
        which: Index,
    },
}

fn steps() -> impl Strategy<Value = Vec<LeaseStep>> {
    let ttl = || proptest::option::of(prop_oneof![Just(0), Just(142_857), 1..2_000_000_u64]);
    let op = prop_oneof![
        6 => (0..4_u64, ttl(), prop_oneof![3 => Just(0), 1 => any::<u8>()])
            .prop_map(|(cost, ttl_us, observed)| LeaseOp::Acquire { cost, ttl_us, observed }),
        1 => (0..3_u64).prop_map(|cost| LeaseOp::Check { cost }),
        3 => (any::<Index>(), ttl()).prop_map(|(which, ttl_us)| LeaseOp::Renew { which, ttl_us }),
        4 => any::<Index>().prop_map(|which| LeaseOp::Release { which }),
        1 => any::<Index>().prop_map(|which| LeaseOp::GuessOwner { which }),
    ];
    let advance = prop_oneof![3 => Just(0_u64), 3 => 1..20_000_u64, 2 => 1..1_000_000_u64];
    let step = (advance, op).prop_map(|(advance_us, op)| LeaseStep { advance_us, op });
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(40))]

    #[test]
    fn leases_in_redis_are_as_in_memory(
        limits in prop::sample::subsequence(LIMITS, 1..=4),
        steps in steps(),
        together in 1..5_usize,
    ) {
        SHARED.with_borrow_mut(|server| {
            server.flush();
            LeaseCase::new(&limits).run(server, &steps, together)
        })?;
    }
}

thread_local! {
    static SHARED: std::cell::RefCell<ScriptServer> = ScriptServer::new().into();
}

/// A lease in memory, and the same lease in Redis.
type LeasePair = (Lease, Lease);
/// The operation, its plan for Redis, and the lease that it is about.
type LeaseRequest = (LeaseOp, RedisPlan, Option<LeasePair>);

struct LeaseCase {
    counters: Vec<Counter>,
    memory: MemoryStore,
    now_us: u64,
    /// The leases that were handed out.
    leases: Vec<LeasePair>,
    owners_drawn: u64,
}

impl LeaseCase {
    fn new(limits: &[&str]) -> Self {
        let counter = |(index, text): (usize, &&str)| Counter::new("leases", index, limit(text));
        let counters = limits.iter().enumerate().map(counter).collect();
        Self {
            counters,
            memory: MemoryStore::unbounded(),
            now_us: START_US,
            leases: Vec::new(),
            owners_drawn: 0,
        }
    }

    /// Several steps share a call while time stands still.
    fn run(
        &mut self,
        server: &mut ScriptServer,
        steps: &[LeaseStep],
        together: usize,
    ) -> Result<(), TestCaseError> {
        for steps in steps.chunks(together) {
            self.now_us += steps[0].advance_us;
            let requests: Vec<LeaseRequest> =
                steps.iter().filter_map(|step| self.lease_request(&step.op)).collect();
            if requests.is_empty() {
                continue;
            }
            let replies =
                server.call_at(self.now_us, requests.iter().map(|(_, plan, _)| plan.clone()).collect());
            for ((op, plan, lease), reply) in requests.iter().zip(replies) {
                let reply = reply.map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
                self.compare(op, plan, *lease, &reply)?;
            }
        }
        Ok(())
    }

    fn lease_request(&mut self, op: &LeaseOp) -> Option<LeaseRequest> {
        let lease = match op {
            LeaseOp::Renew { which, .. } | LeaseOp::Release { which } | LeaseOp::GuessOwner { which } => {
                (!self.leases.is_empty()).then(|| *which.get(&self.leases))
            }
            _ => None,
        };
        let (cost, observed) = match op {
            LeaseOp::Acquire { cost, observed, .. } => (*cost, *observed),
            LeaseOp::Check { cost } => (*cost, 0),
            _ => (1, 0),
        };
        let charges: Vec<RedisCharge> = (self.counters.iter().enumerate())
            .map(|(index, counter)| RedisCharge {
                role: if observed >> index & 1 == 1 { Role::Observed } else { Role::Enforced },
                ..charge(&format!("key:{index}"), counter.limit(), cost)
            })
            .collect();
        let mut owner = NO_OWNER;
        let redis_op = match (op, lease) {
            (LeaseOp::Acquire { ttl_us, .. }, _) => {
                self.owners_drawn += 1;
                owner = new_owner(self.owners_drawn, &charges).unwrap_or([1; 16]);
                Op::Acquire { ttl: nanos(*ttl_us) }
            }
            (LeaseOp::Check { .. }, _) => Op::Check,
            (LeaseOp::Renew { ttl_us, .. }, Some((_, lease))) => {
                Op::Renew { token: lease.token, ttl: nanos(*ttl_us) }
            }
            (LeaseOp::Release { .. }, Some((_, lease))) => Op::Release { token: lease.token },
            (LeaseOp::GuessOwner { .. }, Some((_, lease))) => {
                let guessed = new_owner(u64::MAX, &charges)?;
                Op::Release { token: LeaseToken::new(lease.token.grant(), u128::from_be_bytes(guessed)) }
            }
            _ => return None,
        };
        Some((op.clone(), redis_plan(redis_op, charges).with_owner(owner), lease))
    }

    fn compare(
        &mut self,
        op: &LeaseOp,
        redis_plan: &RedisPlan,
        lease: Option<LeasePair>,
        reply: &PlanReply,
    ) -> Result<(), TestCaseError> {
        let now = Timestamp::from_nanos(self.now_us * 1_000);
        let keys: Vec<String> = (0..self.counters.len()).map(|index| format!("key:{index}")).collect();
        let mut plan = Plan::new();
        for ((counter, key), charge) in self.counters.iter().zip(&keys).zip(&redis_plan.charges) {
            let charge = Charge { role: charge.role, ..Charge::new(key.as_bytes(), counter, charge.cost) };
            plan.add(charge).expect("there is room");
        }
        match (op, lease) {
            (LeaseOp::Acquire { ttl_us, .. }, _) => {
                let (outcomes, lease) = self.memory.acquire(&plan, now, nanos(*ttl_us));
                let lease = lease.into_lease();
                prop_assert_eq!(&reply.outcomes, &outcomes);
                prop_assert_eq!(fence_and_expiry(lease), fence_and_expiry(reply.lease.into_lease()));
                self.leases.extend(lease.zip(reply.lease.into_lease()));
            }
            (LeaseOp::Check { .. }, _) => {
                prop_assert_eq!(&reply.outcomes, &self.memory.check(&plan, now));
                prop_assert_eq!(reply.lease, LeaseReply::None);
            }
            (LeaseOp::Renew { ttl_us, .. }, Some((in_memory, _))) => {
                let renewal = self.memory.renew(&plan, &in_memory.token, now, nanos(*ttl_us));
                match (renewal, crate::Renewal::from(reply.lease)) {
                    (crate::Renewal::Renewed(in_memory), crate::Renewal::Renewed(in_redis)) => {
                        prop_assert_eq!(fence_and_expiry(Some(in_memory)), fence_and_expiry(Some(in_redis)));
                        // Half of the leases are never renewed or released.
                        if self.owners_drawn.is_multiple_of(2) {
                            self.leases.push((in_memory, in_redis));
                        }
                    }
                    (in_memory, in_redis) => prop_assert_eq!(in_memory, in_redis),
                }
            }
            (LeaseOp::Release { .. }, Some((in_memory, _))) => {
                let release = self.memory.release(&plan, &in_memory.token, now);
                prop_assert_eq!(release, crate::Release::from(reply.lease));
            }
            (LeaseOp::GuessOwner { .. }, _) => {
                prop_assert_eq!(reply.admitted, tidegate_core::OutcomeKind::Denied);
            }
            _ => {}
        }
        Ok(())
    }
}

fn nanos(us: Option<u64>) -> Option<Nanos> {
    us.map(|us| Nanos::new(u128::from(us) * 1_000))
}

/// What must be equal in both stores. The tokens differ.
fn fence_and_expiry(lease: Option<Lease>) -> Option<(u64, u64)> {
    lease.map(|lease| (lease.fence.get(), lease.expires.as_nanos()))
}
