//! Leases in a store of their own, such as etcd, and all other counters in another store.
//!
//! A plan with both kinds of limits is charged in two steps. The counters are charged first. If they deny, the store of
//! leases is not asked, so a flood of requests that a rate limit denies does not reach it; the outcomes then report the
//! concurrency limits as unused. If the leases are denied or their store does not answer, the counters are refunded.
//! Until then they count, so another request may be denied meanwhile that would have been admitted, never the reverse.
//! `split.rs` says what this means for buckets, and what happens if the process ends before the refund.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::algorithm::CountDenied;
use tidegate_core::{Algorithm, Charge, ChargedAt, Nanos, Op, Outcome, OutcomeKind, Plan, Timestamp, Wait};

use super::mixed::{RunToCompletion, Stopwatch, plan_decision};
use super::owned_plan::{OwnedPlan, plan_from_charges};
use super::split::{Placement, SplitPart, in_plan_order};
use super::{Ask, PollChanged, Reply, ReplyFuture, Response, SpawnFn, Store, StoreError, Watch};
use crate::Outcomes;
use crate::memory::MemoryStore;

/// A store for leases, and a store for everything else. A clone shares both, if a clone of `S` does.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::MemoryStore;
/// use tidegate::store::{Fallback, LeaseStore, Store};
///
/// # fn node(etcd: Arc<dyn Store>) {
/// // Rates in this process, locks in etcd.
/// let memory = Arc::new(MemoryStore::bounded(1 << 20));
/// let store = Fallback::new(LeaseStore::new(Arc::clone(&memory), etcd), memory);
/// # }
/// ```
#[derive(Clone)]
pub struct LeaseStore<S> {
    counters: S,
    leases: Arc<dyn Store>,
}

/// Which of the stores a charge belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Lease,
}

impl Kind {
    fn of(charge: &Charge<'_>) -> Self {
        match charge.counter.algorithm() {
            Algorithm::Leases(_) => Self::Lease,
            _ => Self::Counter,
        }
    }
}

impl<S> LeaseStore<S> {
    /// Concurrency limits are in `leases`, and all others in `counters`.
    pub fn new(counters: S, leases: Arc<dyn Store>) -> Self {
        Self { counters, leases }
    }

    /// The store of everything but leases.
    pub fn counters(&self) -> &S {
        &self.counters
    }
}

impl<S: Store + Clone + 'static> Store for LeaseStore<S> {
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        match Placement::from_locations(ask.plan.charges().iter().map(Kind::of)) {
            None | Some(Placement::Whole(Kind::Counter)) => self.counters.ask(ask),
            Some(Placement::Whole(Kind::Lease)) => self.leases.ask(ask),
            Some(Placement::Split(parts)) => self.ask_both(ask, parts),
        }
    }

    /// A plan may take as long as both stores.
    fn timeout(&self) -> Option<Duration> {
        let timeouts = [self.counters.timeout(), self.leases.timeout()];
        timeouts.into_iter().flatten().reduce(Duration::saturating_add)
    }

    fn live_nodes(&self) -> NonZeroU32 {
        self.counters.live_nodes()
    }

    fn local(&self) -> Option<&Arc<MemoryStore>> {
        self.counters.local()
    }

    fn watch(&self, plan: &Plan<'_>) -> Option<Watch> {
        let counters = self.counters.watch(&part_of(plan, Kind::Counter));
        let leases = self.leases.watch(&part_of(plan, Kind::Lease));
        match (counters, leases) {
            (Some(counters), Some(leases)) => Some(Watch::new(BothWatches { counters, leases })),
            (one, other) => one.or(other),
        }
    }

    fn spawner(&self) -> Option<SpawnFn> {
        self.leases.spawner().or_else(|| self.counters.spawner())
    }

    fn tick(&self, now: Timestamp) {
        self.counters.tick(now);
        self.leases.tick(now);
    }
}

fn part_of<'a>(plan: &Plan<'a>, kind: Kind) -> Plan<'a> {
    plan_from_charges(plan.charges().iter().filter(|charge| Kind::of(charge) == kind).copied())
}

impl<S: Store + Clone + 'static> LeaseStore<S> {
    fn ask_both(&self, ask: &Ask<'_, '_>, parts: Vec<SplitPart<Kind>>) -> Response {
        let (counters, leases) = (part_of(ask.plan, Kind::Counter), part_of(ask.plan, Kind::Lease));
        let ask_counters = |op| self.counters.ask(&Ask { op, plan: &counters, ..*ask });
        let ask_leases = |op| self.leases.ask(&Ask { op, plan: &leases, ..*ask });
        match ask.op {
            op if op.decides() => {}
            Op::Renew { .. } | Op::Release { .. } => return ask_leases(ask.op),
            // A lease is released, not refunded.
            Op::Refund { .. } => return ask_counters(ask.op),
            op => {
                let (first, second) = (ask_counters(op), ask_leases(op));
                return Response::Later(Box::pin(async move {
                    let (first, second) = (first.reply().await, second.reply().await);
                    first.and(second)
                }));
            }
        }
        // The counters take no lease.
        let counters_op = if ask.op.charges() { Op::Check } else { ask.op };
        let counters_reply = ask_counters(counters_op);
        let split = SplitDecision {
            store: self.clone(),
            op: ask.op,
            now: ask.now,
            deadline: ask.deadline,
            stopwatch: Stopwatch::start(),
            counters: OwnedPlan::from_plan(&counters),
            leases: OwnedPlan::from_plan(&leases),
            parts,
        };
        let owned_leases = split.leases.clone();
        let mut deciding: ReplyFuture = Box::pin(split.decide(counters_reply));
        // The store of leases is asked now, if the counters have answered.
        if let Poll::Ready(reply) = deciding.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()))
        {
            return Response::Now(reply);
        }
        let (store, now) = (Arc::clone(&self.leases), ask.now);
        Response::Later(Box::pin(RunToCompletion::new(deciding, self.spawner(), move |lease| {
            let op = Op::Release { token: lease.token };
            // It runs without its reply being waited for.
            drop(store.ask(&Ask { op, plan: &owned_leases.plan(), now, deadline: None }));
        })))
    }
}

/// The decision of a plan with charges in both stores.
struct SplitDecision<S> {
    store: LeaseStore<S>,
    op: Op,
    now: Timestamp,
    deadline: Option<Timestamp>,
    stopwatch: Stopwatch,
    counters: OwnedPlan,
    leases: OwnedPlan,
    parts: Vec<SplitPart<Kind>>,
}

impl<S: Store> SplitDecision<S> {
    async fn decide(self, counters_reply: Response) -> Result<Reply, StoreError> {
        let counters =
            counters_reply.reply().await?.require_complete(&self.ask(self.op, &self.counters.plan()))?;
        if self.counters_decision(&counters) == OutcomeKind::Denied {
            let plan = self.leases.plan();
            let leases = match self.op {
                // Nothing is charged by these, and their caller wants to know.
                Op::Peek | Op::Deny { .. } => self.ask_leases(Op::Deny { counted: false }).await?.outcomes,
                _ => plan.charges().iter().map(unused_outcome).collect(),
            };
            return Ok(self.merged(counters.at, counters.outcomes, leases));
        }
        let leases = match self.ask_leases(self.op).await {
            Ok(leases) => leases,
            Err(error) => {
                self.refund(&counters, RefundOf::Everything).await;
                return Err(error);
            }
        };
        if plan_decision(&self.leases.plan(), &leases.outcomes) == OutcomeKind::Allowed {
            let merged = self.merged(counters.at.min(leases.at), counters.outcomes, leases.outcomes);
            return Ok(Reply {
                is_unreplicated: counters.is_unreplicated,
                ..merged.with_lease(leases.lease)
            });
        }
        if self.op.charges() {
            self.refund(&counters, RefundOf::WhatCountsIfAllowed).await;
        }
        let denied = self.ask_counters(Op::Deny { counted: false }, &self.counters.plan()).await;
        // If they do not answer now, the outcomes from before the refund are better than none.
        let outcomes = denied.map_or(counters.outcomes, |denied| denied.outcomes);
        Ok(self.merged(counters.at.min(leases.at), outcomes, leases.outcomes).with_lease(leases.lease))
    }

    fn counters_decision(&self, reply: &Reply) -> OutcomeKind {
        match self.op {
            Op::Deny { .. } => OutcomeKind::Denied,
            _ => plan_decision(&self.counters.plan(), &reply.outcomes),
        }
    }

    /// Refunds the counters, and waits until that is done. Two kinds of charges stay: an observed charge that did not
    /// fit, because it took less than its cost, and one that counts denied attempts, if the plan was denied.
    async fn refund(&self, reply: &Reply, what: RefundOf) {
        let plan = self.counters.plan();
        let charged = plan.charges().iter().zip(&reply.outcomes).filter(|(charge, outcome)| {
            let counts_all = charge.counter.algorithm().count_denied() == CountDenied::Always;
            outcome.kind == OutcomeKind::Allowed && (what == RefundOf::Everything || !counts_all)
        });
        let (charges, outcomes): (Vec<Charge<'_>>, Vec<Outcome>) =
            charged.map(|(charge, outcome)| (*charge, *outcome)).unzip();
        if charges.is_empty() {
            return;
        }
        let refunded = plan_from_charges(charges.into_iter());
        let charged_at = Some(ChargedAt::from_outcomes(&refunded, &outcomes, reply.at));
        // If it fails, the charges count until their windows are over.
        let _ = self.ask_counters(Op::Refund { charged_at }, &refunded).await;
    }

    async fn ask_leases(&self, op: Op) -> Result<Reply, StoreError> {
        let plan = self.leases.plan();
        let ask = self.ask(op, &plan);
        let response = self.store.leases.ask(&ask);
        response.reply().await?.require_complete(&ask)
    }

    async fn ask_counters(&self, op: Op, plan: &Plan<'_>) -> Result<Reply, StoreError> {
        let ask = self.ask(op, plan);
        let response = self.store.counters.ask(&ask);
        response.reply().await?.require_complete(&ask)
    }

    /// A call now, by the caller's clock, with what is left of its time.
    fn ask<'a, 'p>(&self, op: Op, plan: &'a Plan<'p>) -> Ask<'a, 'p> {
        let now = self.now.saturating_add(self.stopwatch.elapsed());
        Ask { op, plan, now, deadline: self.deadline }
    }

    fn merged(&self, at: Timestamp, counters: Outcomes, leases: Outcomes) -> Reply {
        let (mut counters, mut leases) = (Some(counters), Some(leases));
        let outcomes_of = |part: &SplitPart<Kind>| match part.location {
            Kind::Counter => counters.take(),
            Kind::Lease => leases.take(),
        };
        let outcomes: Vec<Outcomes> = self.parts.iter().filter_map(outcomes_of).collect();
        Reply::new(at, in_plan_order(self.parts.iter().zip(outcomes)))
    }
}

/// Which charges to refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefundOf {
    /// The plan is decided again, and charged again.
    Everything,
    /// The plan is denied.
    WhatCountsIfAllowed,
}

/// The outcome of a concurrency limit that was not asked, because another limit denies the request.
fn unused_outcome(charge: &Charge<'_>) -> Outcome {
    Outcome {
        kind: OutcomeKind::Allowed,
        remaining: charge.counter.limit().rate().limit(),
        retry_after: Wait::NONE,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
        over: 0,
    }
}

struct BothWatches {
    counters: Watch,
    leases: Watch,
}

impl PollChanged for BothWatches {
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Both are polled, so that both wake this task.
        match (self.counters.poll_changed(context), self.leases.poll_changed(context)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}

impl<S> std::fmt::Debug for LeaseStore<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseStore").finish_non_exhaustive()
    }
}
