//! Plans that are counted in this process and in a shared store at the same time.
//!
//! A charge with [`Mode::Local`] is counted in this process's memory, any other in the shared store. The local part is decided
//! first, because that costs nothing. If it is denied, the shared store is asked to [deny](Op::Deny) its part, so that nothing
//! has to come back from there. If the shared store denies its part or does not answer, the local part is given back.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::{
    Algorithm, Charge, ChargedAt, LeaseToken, Mode, Nanos, Op, Outcome, Plan, Role, Timestamp, OutcomeKind,
};

use super::owned_plan::{OwnedPlan, plan_from_charges};
use super::split::{SplitPart, Placement, SplitPlan, decide};
use super::{Ask, ReplyFuture, LeaseReply, Reply, Response, SpawnFn, Store, StoreError};
use crate::memory::MemoryStore;
use crate::{Clock as _, Lease, Outcomes, SystemClock};

/// Where a charge is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CounterLocation {
    Local,
    Shared,
}

/// The place of a charge.
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

fn part_of<'a>(plan: &Plan<'a>, at: CounterLocation) -> Plan<'a> {
    plan_from_charges(plan.charges().iter().filter(|charge| location_of(charge) == at).copied())
}

/// Asks about a plan with at least one local charge.
#[inline(never)]
pub(super) fn ask(memory: &Arc<MemoryStore>, shared: &impl Store, ask: &Ask<'_, '_>) -> Response {
    let charges = ask.plan.charges();
    let parts = match Placement::from_locations(charges.iter().map(location_of)) {
        Some(Placement::Split(parts)) => parts,
        // The shared store has nothing to say.
        _ => return Response::Now(Ok(memory.ask_now(ask))),
    };
    let (local, rest) = (part_of(ask.plan, CounterLocation::Local), part_of(ask.plan, CounterLocation::Shared));
    let ask_local = |op| memory.ask_now(&Ask { op, plan: &local, ..*ask });
    let ask_shared = |op| shared.ask(&Ask { op, plan: &rest, ..*ask });
    match ask.op {
        op if op.decides() => {}
        // A lease that was handed out while the shared store was away is in memory, whose seal tells.
        Op::Renew { .. } | Op::Release { .. } => {
            let own = memory.ask_now(ask);
            return match own.lease {
                LeaseReply::WrongOwner => ask_shared(ask.op),
                _ => Response::Now(Ok(own)),
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
    if matches!(ask.op, Op::Acquire { .. }) && has_leases(&local) && has_leases(&rest) {
        return Response::Now(Err(StoreError::Refused(LEASES_IN_TWO_STORES.into())));
    }
    let own = ask_local(match ask.op {
        // A lease without an owner could not be given back.
        Op::Check if has_leases(&local) => Op::Acquire { ttl: None },
        op => op,
    });
    let shared_op = match plan_decision(&local, &own.outcomes) {
        OutcomeKind::Denied => Op::Deny { counted: !matches!(ask.op, Op::Peek | Op::Deny { counted: false }) },
        OutcomeKind::Allowed => ask.op,
    };
    let response = ask_shared(shared_op);
    let split = MixedPlan {
        memory: memory.clone(),
        op: ask.op,
        now: ask.now,
        parts,
        local: OwnedPlan::from_plan(&local),
        shared: OwnedPlan::from_plan(&rest),
        stopwatch: matches!(response, Response::Later(_)).then(Stopwatch::start),
        is_shared_failed: false,
    };
    match response {
        Response::Now(reply) => {
            let mut deciding: ReplyFuture = Box::pin(split.decide(own, Box::pin(std::future::ready(reply))));
            match deciding.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
                Poll::Ready(reply) => Response::Now(reply),
                Poll::Pending => Response::Later(deciding),
            }
        }
        Response::Later(later) => {
            // A lease of the shared store that nobody takes is given back by that store, if its reply is dropped.
            let is_dropped = matches!(shared_op, Op::Acquire { .. }) && has_leases(&rest);
            let spawn = if is_dropped { None } else { shared.spawner() };
            let (memory, local, now) = (memory.clone(), split.local.clone(), ask.now);
            let unclaimed = move |lease: Lease| release(&memory, &local, &lease.token, now);
            Response::Later(Box::pin(RunToCompletion {
                future: Some(Box::pin(split.decide(own, later))),
                spawn,
                release_lease: Some(Box::new(unclaimed)),
            }))
        }
    }
}

const LEASES_IN_TWO_STORES: &str = "a plan cannot hold leases in this process and in the shared store at the same time (hint: give \
                            all concurrency limits of a request the same mode)";

/// A plan in two places.
struct MixedPlan {
    memory: Arc<MemoryStore>,
    op: Op,
    now: Timestamp,
    parts: Vec<SplitPart<CounterLocation>>,
    local: OwnedPlan,
    shared: OwnedPlan,
    /// How long the shared store takes, if it does not answer at once.
    stopwatch: Option<Stopwatch>,
    /// Whether the shared store did not answer. Then the plan is decided without it, and charged anew.
    is_shared_failed: bool,
}

struct Stopwatch {
    clock: SystemClock,
    started: Timestamp,
}

impl Stopwatch {
    fn start() -> Self {
        let clock = SystemClock::new();
        Self { started: clock.now(), clock }
    }

    fn elapsed(&self) -> Nanos {
        Nanos::new(self.clock.now().as_nanos().saturating_sub(self.started.as_nanos()).into())
    }
}

impl MixedPlan {
    async fn decide(mut self, own: Reply, shared: ReplyFuture) -> Result<Reply, StoreError> {
        let mut own = Some(own);
        let shared = shared.await.and_then(|reply| {
            reply.require_complete(&Ask { op: self.op, plan: &self.shared.plan(), now: self.now, deadline: None })
        });
        self.is_shared_failed = shared.is_err();
        let mut shared = Some(shared);
        let answer = |part: &SplitPart<CounterLocation>| match part.location {
            CounterLocation::Local => own.take().map(Ok),
            CounterLocation::Shared => shared.take(),
        };
        let answers = self.parts.iter().filter_map(answer).collect();
        let reply = decide(&self, answers).await?;
        Ok(if self.op == Op::Check { reply.with_lease(LeaseReply::None) } else { reply })
    }

    /// The caller's instant by now.
    fn now(&self) -> Timestamp {
        self.now.saturating_add(self.stopwatch.as_ref().map_or(Nanos::ZERO, Stopwatch::elapsed))
    }

    fn plan(&self, place: CounterLocation) -> Plan<'_> {
        match place {
            CounterLocation::Local => self.local.plan(),
            CounterLocation::Shared => self.shared.plan(),
        }
    }

    /// Gives back what the local part was charged. A charge that only looked on and did not fit took less than its cost, so it
    /// stays, and so does one that counts denied attempts if the plan was denied.
    fn refund_local(&self, own: &Reply) {
        let plan = self.local.plan();
        let charged = plan.charges().iter().zip(&own.outcomes).filter(|(charge, outcome)| {
            let stays = charge.counter.algorithm().counts_denied() && !self.is_shared_failed;
            outcome.kind == OutcomeKind::Allowed && !stays
        });
        let (charges, outcomes): (Vec<Charge<'_>>, Vec<Outcome>) =
            charged.map(|(charge, outcome)| (*charge, *outcome)).unzip();
        let refunded = plan_from_charges(charges.into_iter());
        let charged_at = ChargedAt::from_outcomes(&refunded, &outcomes, own.at);
        self.memory.refund_charged_at(&refunded, charged_at, self.now());
        if let LeaseReply::Held(lease) = own.lease {
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

    fn outcomes(&self, part: &SplitPart<CounterLocation>, reply: &Reply, plan_fate: OutcomeKind) -> Outcomes {
        let plan = self.plan(part.location);
        match (part.location, plan_decision(&plan, &reply.outcomes)) {
            (CounterLocation::Local, OutcomeKind::Allowed) if plan_fate == OutcomeKind::Denied => match self.op.charges() {
                true => self.memory.report_denied(&plan, &reply.outcomes, self.now),
                false => self.memory.deny(&plan, self.now, false),
            },
            _ => reply.outcomes.clone(),
        }
    }

    /// At most one of the parts has leases.
    async fn merge_leases(&self, replies: &[Reply]) -> Result<LeaseReply, StoreError> {
        let held = replies.iter().map(|reply| reply.lease).find(|lease| matches!(lease, LeaseReply::Held(_)));
        Ok(held.unwrap_or(LeaseReply::None))
    }

    /// The shared store is asked last, so what it charged never has to come back.
    fn refund_part(&self, part: &SplitPart<CounterLocation>, reply: Result<&Reply, &StoreError>) {
        if let (CounterLocation::Local, Ok(own)) = (part.location, reply)
            && self.op.charges()
            && plan_decision(&self.local.plan(), &own.outcomes) == OutcomeKind::Allowed
        {
            self.refund_local(own);
        }
    }

    async fn finish_refunds(&self, _: Vec<()>) {}

    fn store_error(&self, failure: &StoreError) -> StoreError {
        failure.clone()
    }
}

/// Work that goes on when nobody waits for it any more: a part that is charged for nothing has to be given back.
struct RunToCompletion {
    future: Option<ReplyFuture>,
    /// Where it goes on. Without, the local part stays charged.
    spawn: Option<SpawnFn>,
    /// What is done with a lease that nobody takes.
    release_lease: Option<Box<dyn FnOnce(Lease) + Send>>,
}

impl Future for RunToCompletion {
    type Output = Result<Reply, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.future else { return Poll::Ready(Err(StoreError::RuntimeGone)) };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl Drop for RunToCompletion {
    fn drop(&mut self) {
        let (Some(work), Some(spawn), Some(unclaimed)) =
            (self.future.take(), self.spawn.take(), self.release_lease.take())
        else {
            return;
        };
        spawn(Box::pin(async move {
            if let Ok(Reply { lease: LeaseReply::Held(lease), .. }) = work.await {
                unclaimed(lease);
            }
        }));
    }
}

fn release(memory: &MemoryStore, plan: &OwnedPlan, token: &LeaseToken, now: Timestamp) {
    // If its time is over there is nothing to release.
    let _ = memory.release(&plan.plan(), token, now);
}

/// What the enforced charges of a part say together.
fn plan_decision(plan: &Plan<'_>, outcomes: &[Outcome]) -> OutcomeKind {
    let enforced = plan.charges().iter().zip(outcomes).filter(|(charge, _)| charge.role == Role::Enforced);
    enforced.map(|(_, outcome)| outcome.kind).max().unwrap_or(OutcomeKind::Allowed)
}

fn has_leases(plan: &Plan<'_>) -> bool {
    plan.charges()
        .iter()
        .any(|charge| matches!(charge.counter.algorithm(), Algorithm::Leases(_)) && charge.cost > 0)
}
