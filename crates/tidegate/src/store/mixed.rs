//! Plans that are counted both in this process and in a shared store.
//!
//! Charges with [`Mode::Local`] are counted in the memory of this process, and all others in the shared store. The
//! local part is decided first, because that is cheap. If it is denied, the shared store is asked to [deny](Op::Deny)
//! its part, so the shared store never has to refund. If the shared store denies its part or does not answer, the local
//! part is refunded.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::algorithm::CountDenied;
use tidegate_core::{
    Algorithm, Charge, ChargedAt, LeaseToken, Mode, Nanos, Op, Outcome, OutcomeKind, Plan, Role, Timestamp,
};

use super::owned_plan::{OwnedPlan, plan_from_charges};
use super::split::{Placement, SplitPart, SplitPlan, decide};
use super::{Ask, LeaseReply, Reply, ReplyFuture, Response, SpawnFn, Store, StoreError};
use crate::memory::MemoryStore;
use crate::{Clock as _, Lease, Outcomes, SystemClock};

const LEASES_IN_TWO_STORES: &str = "a plan cannot hold leases in this process and in the shared store at the \
                                    same time (hint: give all concurrency limits of a request the same mode)";

/// Where a charge is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CounterLocation {
    Local,
    Shared,
}

/// The location of a charge.
#[inline]
fn location_of(charge: &Charge<'_>) -> CounterLocation {
    match charge.policy.mode {
        Mode::Local => CounterLocation::Local,
        _ => CounterLocation::Shared,
    }
}

/// Whether any charge of a plan is counted in this process.
#[inline]
pub(super) fn has_local(plan: &Plan<'_>) -> bool {
    plan.charges().iter().any(|charge| location_of(charge) == CounterLocation::Local)
}

/// The charges of a plan that are counted in the shared store.
pub(super) fn shared_part<'a>(plan: &Plan<'a>) -> Plan<'a> {
    part_of(plan, CounterLocation::Shared)
}

fn part_of<'a>(plan: &Plan<'a>, location: CounterLocation) -> Plan<'a> {
    plan_from_charges(plan.charges().iter().filter(|charge| location_of(charge) == location).copied())
}

/// Asks about a plan with at least one local charge.
#[inline(never)]
pub(super) fn ask(memory: &Arc<MemoryStore>, shared: &impl Store, ask: &Ask<'_, '_>) -> Response {
    let charges = ask.plan.charges();
    let parts = match Placement::from_locations(charges.iter().map(location_of)) {
        Some(Placement::Split(parts)) => parts,
        // No shared charges.
        _ => return Response::Now(Ok(memory.ask_now(ask))),
    };
    let (local_part, shared_part) =
        (part_of(ask.plan, CounterLocation::Local), part_of(ask.plan, CounterLocation::Shared));
    let ask_local = |op| memory.ask_now(&Ask { op, plan: &local_part, ..*ask });
    let ask_shared = |op| shared.ask(&Ask { op, plan: &shared_part, ..*ask });
    match ask.op {
        op if op.decides() => {}
        // A lease that was granted while the shared store did not answer is in memory. The seal of its token shows
        // that.
        Op::Renew { .. } | Op::Release { .. } => {
            let local_reply = memory.ask_now(ask);
            return match local_reply.lease {
                LeaseReply::WrongOwner => ask_shared(ask.op),
                _ => Response::Now(Ok(local_reply)),
            };
        }
        Op::Reset => {
            memory.reset(ask.plan);
            return ask_shared(ask.op);
        }
        op => {
            let _ = ask_local(op);
            return ask_shared(op);
        }
    }
    if matches!(ask.op, Op::Acquire { .. }) && has_leases(&local_part) && has_leases(&shared_part) {
        return Response::Now(Err(StoreError::Refused(LEASES_IN_TWO_STORES.into())));
    }
    let local_reply = ask_local(match ask.op {
        // A check takes a lease without a token, which could not be released. Acquire it, so that it can.
        Op::Check if has_leases(&local_part) => Op::Acquire { ttl: None },
        op => op,
    });
    let shared_op = match plan_decision(&local_part, &local_reply.outcomes) {
        OutcomeKind::Denied => {
            Op::Deny { counted: !matches!(ask.op, Op::Peek | Op::Deny { counted: false }) }
        }
        OutcomeKind::Allowed => ask.op,
    };
    let response = ask_shared(shared_op);
    let split = MixedPlan {
        memory: memory.clone(),
        op: ask.op,
        now: ask.now,
        parts,
        local: OwnedPlan::from_plan(&local_part),
        shared: OwnedPlan::from_plan(&shared_part),
        stopwatch: matches!(response, Response::Later(_)).then(Stopwatch::start),
        is_shared_failed: false,
    };
    match response {
        Response::Now(reply) => {
            let mut deciding: ReplyFuture =
                Box::pin(split.decide(local_reply, Box::pin(std::future::ready(reply))));
            match deciding.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
                Poll::Ready(reply) => Response::Now(reply),
                Poll::Pending => Response::Later(deciding),
            }
        }
        Response::Later(later) => {
            // If the reply is dropped, the shared store itself releases its lease.
            let is_released_by_store = matches!(shared_op, Op::Acquire { .. }) && has_leases(&shared_part);
            let spawn = if is_released_by_store { None } else { shared.spawner() };
            let (memory, local, now) = (memory.clone(), split.local.clone(), ask.now);
            let release_lease = move |lease: Lease| release(&memory, &local, &lease.token, now);
            let deciding = Box::pin(split.decide(local_reply, later));
            Response::Later(Box::pin(RunToCompletion::new(deciding, spawn, release_lease)))
        }
    }
}

/// A plan with a local and a shared part.
struct MixedPlan {
    memory: Arc<MemoryStore>,
    op: Op,
    now: Timestamp,
    parts: Vec<SplitPart<CounterLocation>>,
    local: OwnedPlan,
    shared: OwnedPlan,
    /// Measures how long the shared store takes, if it does not answer immediately.
    stopwatch: Option<Stopwatch>,
    /// Whether the shared store did not answer. Then the plan is decided again without it, and charged again.
    is_shared_failed: bool,
}

/// Measures how long a store takes.
pub(super) struct Stopwatch {
    clock: SystemClock,
    started: Timestamp,
}

impl Stopwatch {
    pub fn start() -> Self {
        let clock = SystemClock::new();
        Self { started: clock.now(), clock }
    }

    pub fn elapsed(&self) -> Nanos {
        Nanos::new(self.clock.now().as_nanos().saturating_sub(self.started.as_nanos()).into())
    }
}

impl MixedPlan {
    async fn decide(mut self, local_reply: Reply, shared: ReplyFuture) -> Result<Reply, StoreError> {
        let is_memory_full = local_reply.lease == LeaseReply::MemoryFull;
        let mut local_reply = Some(local_reply);
        let shared = shared.await.and_then(|reply| {
            reply.require_complete(&Ask {
                op: self.op,
                plan: &self.shared.plan(),
                now: self.now,
                deadline: None,
            })
        });
        self.is_shared_failed = shared.is_err();
        let is_unreplicated = shared.as_ref().is_ok_and(|reply| reply.is_unreplicated);
        let mut shared = Some(shared);
        let reply_of = |part: &SplitPart<CounterLocation>| match part.location {
            CounterLocation::Local => local_reply.take().map(Ok),
            CounterLocation::Shared => shared.take(),
        };
        let replies = self.parts.iter().filter_map(reply_of).collect();
        let mut reply = Reply { is_unreplicated, ..decide(&self, replies).await? };
        if is_memory_full {
            reply.lease = LeaseReply::MemoryFull;
        } else if self.op == Op::Check {
            reply.lease = LeaseReply::None;
        }
        Ok(reply)
    }

    /// The caller's time now.
    fn now(&self) -> Timestamp {
        self.now.saturating_add(self.stopwatch.as_ref().map_or(Nanos::ZERO, Stopwatch::elapsed))
    }

    fn plan(&self, location: CounterLocation) -> Plan<'_> {
        match location {
            CounterLocation::Local => self.local.plan(),
            CounterLocation::Shared => self.shared.plan(),
        }
    }

    /// Refunds the local part. Two kinds of charges stay: an observed charge that did not fit, because it took less
    /// than its cost, and one that counts denied attempts, if the plan was denied.
    fn refund_local(&self, local_reply: &Reply) {
        let plan = self.local.plan();
        let charged = plan.charges().iter().zip(&local_reply.outcomes).filter(|(charge, outcome)| {
            let counts_all = charge.counter.algorithm().count_denied() == CountDenied::Always;
            let stays = counts_all && !self.is_shared_failed;
            outcome.kind == OutcomeKind::Allowed && !stays
        });
        let (charges, outcomes): (Vec<Charge<'_>>, Vec<Outcome>) =
            charged.map(|(charge, outcome)| (*charge, *outcome)).unzip();
        let refunded = plan_from_charges(charges.into_iter());
        let charged_at = ChargedAt::from_outcomes(&refunded, &outcomes, local_reply.at);
        self.memory.refund_charged_at(&refunded, charged_at, self.now());
        if let LeaseReply::Held(lease) = local_reply.lease {
            release(&self.memory, &self.local, &lease.token, self.now());
        }
    }
}

impl SplitPlan for MixedPlan {
    type Location = CounterLocation;
    type PartReply = Reply;
    type PartError = StoreError;
    type PendingRefund = ();

    fn parts(&self) -> &[SplitPart<CounterLocation>] {
        &self.parts
    }

    fn part_decision(&self, part: &SplitPart<CounterLocation>, reply: &Reply) -> (OutcomeKind, Timestamp) {
        (plan_decision(&self.plan(part.location), &reply.outcomes), reply.at)
    }

    fn outcomes(&self, part: &SplitPart<CounterLocation>, reply: &Reply, decision: OutcomeKind) -> Outcomes {
        let plan = self.plan(part.location);
        match (part.location, plan_decision(&plan, &reply.outcomes)) {
            (CounterLocation::Local, OutcomeKind::Allowed) if decision == OutcomeKind::Denied => {
                match self.op.charges() {
                    true => self.memory.report_denied(&plan, &reply.outcomes, self.now),
                    false => self.memory.deny(&plan, self.now, false),
                }
            }
            _ => reply.outcomes.clone(),
        }
    }

    /// At most one of the parts has leases.
    async fn merge_leases(&self, replies: &[Reply]) -> Result<LeaseReply, StoreError> {
        let lease =
            replies.iter().map(|reply| reply.lease).find(|lease| matches!(lease, LeaseReply::Held(_)));
        Ok(lease.unwrap_or(LeaseReply::None))
    }

    /// Refunds the local part only. The shared store is asked last, so it never has to refund.
    fn refund_part(&self, part: &SplitPart<CounterLocation>, reply: Result<&Reply, &StoreError>) {
        if let (CounterLocation::Local, Ok(local_reply)) = (part.location, reply)
            && self.op.charges()
            && plan_decision(&self.local.plan(), &local_reply.outcomes) == OutcomeKind::Allowed
        {
            self.refund_local(local_reply);
        }
    }

    async fn finish_refunds(&self, _: Vec<()>) {}

    fn store_error(&self, failure: &StoreError) -> StoreError {
        failure.clone()
    }
}

/// A future that runs to completion even if its caller drops it, because a part of its plan may have to be refunded.
pub(super) struct RunToCompletion {
    future: Option<ReplyFuture>,
    /// Runs the future after a drop. Without it, what was charged stays charged.
    spawn: Option<SpawnFn>,
    /// Releases a lease whose caller is gone.
    release_lease: Option<Box<dyn FnOnce(Lease) + Send>>,
}

impl RunToCompletion {
    /// `spawn` runs the future after a drop, and then `release_lease` releases its lease.
    pub fn new(
        future: ReplyFuture,
        spawn: Option<SpawnFn>,
        release_lease: impl FnOnce(Lease) + Send + 'static,
    ) -> Self {
        Self { future: Some(future), spawn, release_lease: Some(Box::new(release_lease)) }
    }
}

impl Future for RunToCompletion {
    type Output = Result<Reply, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else { return Poll::Ready(Err(StoreError::RuntimeGone)) };
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl Drop for RunToCompletion {
    fn drop(&mut self) {
        let (Some(future), Some(spawn), Some(release_lease)) =
            (self.future.take(), self.spawn.take(), self.release_lease.take())
        else {
            return;
        };
        spawn(Box::pin(async move {
            if let Ok(Reply { lease: LeaseReply::Held(lease), .. }) = future.await {
                release_lease(lease);
            }
        }));
    }
}

fn release(memory: &MemoryStore, plan: &OwnedPlan, token: &LeaseToken, now: Timestamp) {
    // An expired lease needs no release.
    let _ = memory.release(&plan.plan(), token, now);
}

/// The decision of the enforced charges of a part.
pub(super) fn plan_decision(plan: &Plan<'_>, outcomes: &[Outcome]) -> OutcomeKind {
    let enforced = plan.charges().iter().zip(outcomes).filter(|(charge, _)| charge.role == Role::Enforced);
    enforced.map(|(_, outcome)| outcome.kind).max().unwrap_or(OutcomeKind::Allowed)
}

fn has_leases(plan: &Plan<'_>) -> bool {
    plan.charges()
        .iter()
        .any(|charge| matches!(charge.counter.algorithm(), Algorithm::Leases(_)) && charge.cost > 0)
}
