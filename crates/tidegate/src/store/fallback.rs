//! A layer over a shared store: how this process decides while that store does not answer.
//!
//! The `on_store_failure` of each charge decides:
//!
//! - `local`: the limit is divided by the number of nodes that share the store, and counted in the memory of this
//!   process.
//! - `allow`: the limit is ignored, and answers as for a key that was never seen.
//! - `deny`: the request is denied, and nothing is charged. A concurrency limit denies unless its rule says otherwise,
//!   because nodes that cannot see each other would grant the same lock.
//!
//! Charges with [`Mode::Local`] are always counted in the memory of this process.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{
    Charge, Counter, Limit, Mode, Nanos, OnStoreFailure, Op, Outcome, OutcomeKind, Plan, Timestamp, Wait,
};

use super::{Ask, LeaseReply, Reply, Response, SpawnFn, Store, StoreError, Watch, mixed};
use crate::Outcomes;
use crate::memory::MemoryStore;

/// A shared store, with the memory of this process for when it does not answer. A clone shares the store if a clone of
/// `S` does.
#[derive(Clone)]
pub struct Fallback<S> {
    shared: S,
    memory: Arc<MemoryStore>,
}

impl<S> Fallback<S> {
    /// When to retry what only the shared store can admit: it may be back by then.
    pub(crate) const RETRY_AFTER: Wait = Wait::of(Nanos::new(1_000_000_000));

    /// A layer over `shared` that counts in `memory` while `shared` does not answer.
    pub fn new(shared: S, memory: Arc<MemoryStore>) -> Self {
        Self { shared, memory }
    }

    /// The shared store.
    pub fn shared(&self) -> &S {
        &self.shared
    }

    /// The memory of this process.
    pub fn memory(&self) -> &Arc<MemoryStore> {
        &self.memory
    }
}

impl<S: Store> Store for Fallback<S> {
    #[inline]
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        if mixed::has_local(ask.plan) {
            return mixed::ask(&self.memory, &self.shared, ask);
        }
        match ask.op {
            // A lease that was granted while the shared store did not answer is in memory. The seal of its token shows
            // that.
            Op::Renew { .. } | Op::Release { .. } => {
                let reply = self.memory.ask_now(ask);
                match reply.lease {
                    LeaseReply::WrongOwner => self.shared.ask(ask),
                    _ => Response::Now(Ok(reply)),
                }
            }
            Op::Reset => {
                self.memory.reset(ask.plan);
                self.shared.ask(ask)
            }
            _ => self.shared.ask(ask),
        }
    }

    fn ask_fallback(&self, ask: &Ask<'_, '_>, _: &StoreError) -> Result<Reply, StoreError> {
        let charges = ask.plan.charges();
        let on_failure = |charge: &Charge<'_>| charge.policy.on_store_failure;
        let is_local = |charge: &Charge<'_>| charge.policy.mode == Mode::Local;
        let is_denied =
            charges.iter().any(|charge| !is_local(charge) && on_failure(charge) == OnStoreFailure::Deny);
        let op = if is_denied { Op::Peek } else { ask.op };
        let counted: Vec<usize> = (0..charges.len())
            .filter(|index| {
                is_local(&charges[*index]) || on_failure(&charges[*index]) == OnStoreFailure::Local
            })
            .collect();
        let nodes = self.shared.live_nodes();
        // A charge that is always counted here has its whole limit.
        let share = |charge: &Charge<'_>| match is_local(charge) {
            true => charge.counter.clone(),
            false => charge.counter.node_share(nodes),
        };
        let shares: Vec<Counter> = counted.iter().map(|index| share(&charges[*index])).collect();
        let mut plan = Plan::new();
        for (index, counter) in counted.iter().zip(&shares) {
            // Cannot fail: the plan has at most as many charges as the one that was asked about.
            let _ = plan.add(Charge { counter, ..charges[*index] });
        }
        let reply = self.memory.ask_now(&Ask { op, plan: &plan, ..*ask });
        let mut outcomes: Outcomes =
            charges.iter().map(|charge| unlimited_outcome(charge.counter.limit())).collect();
        for (index, outcome) in counted.into_iter().zip(reply.outcomes) {
            let charge = &charges[index];
            outcomes[index] =
                if is_local(charge) { outcome } else { retry_when_store_is_back(charge, outcome) };
        }
        Ok(Reply::new(reply.at, outcomes).with_lease(reply.lease))
    }

    fn timeout(&self) -> Option<Duration> {
        self.shared.timeout()
    }

    fn live_nodes(&self) -> NonZeroU32 {
        self.shared.live_nodes()
    }

    fn local(&self) -> Option<&Arc<MemoryStore>> {
        Some(&self.memory)
    }

    fn watch(&self, plan: &Plan<'_>) -> Option<Watch> {
        match mixed::has_local(plan) {
            true => self.shared.watch(&mixed::shared_part(plan)),
            false => self.shared.watch(plan),
        }
    }

    fn spawner(&self) -> Option<SpawnFn> {
        self.shared.spawner()
    }

    fn tick(&self, now: Timestamp) {
        self.shared.tick(now);
    }
}

impl<S> std::fmt::Debug for Fallback<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fallback").finish_non_exhaustive()
    }
}

/// A share may never admit a cost that the whole limit can. Then retry when the store may be back.
fn retry_when_store_is_back(charge: &Charge<'_>, outcome: Outcome) -> Outcome {
    let is_too_much = outcome.retry_after == Wait::NEVER && charge.cost <= charge.counter.limit().capacity();
    let retry_after = if is_too_much { Fallback::<()>::RETRY_AFTER } else { outcome.retry_after };
    Outcome { retry_after, ..outcome }
}

/// The outcome of a limit that is ignored.
fn unlimited_outcome(limit: &Limit) -> Outcome {
    Outcome {
        kind: OutcomeKind::Allowed,
        remaining: limit.rate().limit(),
        retry_after: Wait::NONE,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
        over: 0,
    }
}
