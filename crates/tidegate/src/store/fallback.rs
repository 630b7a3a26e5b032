//! A layer over a shared store: what this process decides while that store does not answer.
//!
//! A limit that is enforced locally is divided by the number of nodes that share the store, and counted in this process's memory.
//! A limit with `on_store_failure: allow` is left out, and answers as for a key never seen. If any limit says `deny`, nothing is
//! charged, because the request does not pass.
//!
//! Charges with [`Mode::Local`] are counted in this process's memory in any case.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{
    Charge, Counter, Limit, Mode, Nanos, OnStoreFailure, Op, Outcome, Plan, Timestamp, OutcomeKind, Wait,
};

use super::{Ask, LeaseReply, Reply, Response, SpawnFn, Store, StoreError, Watch, mixed};
use crate::Outcomes;
use crate::memory::MemoryStore;

/// A shared store, and this process's memory for while it does not answer. A clone is the same if a clone of `S` is.
#[derive(Clone)]
pub struct Fallback<S> {
    shared: S,
    memory: Arc<MemoryStore>,
}

impl<S> Fallback<S> {
    /// When to try again what only the shared store can admit: it may be back by then.
    pub(crate) const RETRY_AFTER: Wait = Wait::of(Nanos::new(1_000_000_000));

    /// A layer over `shared` that counts in `memory` while `shared` does not answer.
    pub fn new(shared: S, memory: Arc<MemoryStore>) -> Self {
        Self { shared, memory }
    }

    /// The shared store.
    pub fn shared(&self) -> &S {
        &self.shared
    }

    /// This process's memory.
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
            // A lease that was handed out while the shared store was away is in memory, whose seal tells.
            Op::Renew { .. } | Op::Release { .. } => {
                let own = self.memory.ask_now(ask);
                match own.lease {
                    LeaseReply::WrongOwner => self.shared.ask(ask),
                    _ => Response::Now(Ok(own)),
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
        // A charge that is always counted here has all of its limit.
        let share = |charge: &Charge<'_>| match is_local(charge) {
            true => charge.counter.clone(),
            false => charge.counter.node_share(nodes),
        };
        let shares: Vec<Counter> = counted.iter().map(|index| share(&charges[*index])).collect();
        let mut plan = Plan::new();
        for (index, counter) in counted.iter().zip(&shares) {
            // The plan has no more charges than the one that was asked about.
            let _ = plan.add(Charge { counter, ..charges[*index] });
        }
        let own = self.memory.ask_now(&Ask { op, plan: &plan, ..*ask });
        let mut outcomes: Outcomes =
            charges.iter().map(|charge| unlimited_outcome(charge.counter.limit())).collect();
        for (index, outcome) in counted.into_iter().zip(own.outcomes) {
            let charge = &charges[index];
            outcomes[index] = if is_local(charge) { outcome } else { retry_when_store_is_back(charge, outcome) };
        }
        Ok(Reply::new(own.at, outcomes).with_lease(own.lease))
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

/// A share may never admit what the whole limit would: then the request is to be tried again when the store may be back.
fn retry_when_store_is_back(charge: &Charge<'_>, outcome: Outcome) -> Outcome {
    let is_too_much = outcome.retry_after == Wait::NEVER && charge.cost <= charge.counter.limit().capacity();
    let retry_after = if is_too_much { Fallback::<()>::RETRY_AFTER } else { outcome.retry_after };
    Outcome { retry_after, ..outcome }
}

/// The outcome of a limit that is left out.
fn unlimited_outcome(limit: &Limit) -> Outcome {
    Outcome {
        kind: OutcomeKind::Allowed,
        remaining: limit.rate().limit(),
        retry_after: Wait::NONE,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
    }
}
