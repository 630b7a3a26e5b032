//! Plans that are counted in this process and in a shared store at the same time.
//!
//! A charge with [`Mode::Local`] is counted in this process's memory, any other in the shared store. The local part is decided
//! first, because that costs nothing. If it is denied, the shared store is asked to [deny](Op::Deny) its part, so that nothing
//! has to come back from there. If the shared store denies its part or does not answer, the local part is given back.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::{
    Algorithm, Charge, ChargedAt, LeaseToken, Mode, Nanos, Op, Outcome, Plan, Role, Timestamp, Verdict,
};

use super::owned_plan::{OwnedPlan, plan_of};
use super::split::{Part, Placement, SplitPlan, decide};
use super::{Ask, Later, LeaseReply, Reply, Response, Spawn, Store, StoreFailure};
use crate::memory::MemoryStore;
use crate::{Clock as _, Lease, Outcomes, SystemClock};

/// Where a charge is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Local,
    Shared,
}

/// The place of a charge.
#[inline]
fn place(charge: &Charge<'_>) -> Place {
    match charge.policy.mode {
        Mode::Local => Place::Local,
        _ => Place::Shared,
    }
}

/// Whether any charge of a plan is counted in this process.
#[inline]
pub(super) fn has_local(plan: &Plan<'_>) -> bool {
    plan.charges().iter().any(|charge| place(charge) == Place::Local)
}

/// The charges of a plan that are counted in the shared store.
pub(super) fn shared_part<'a>(plan: &Plan<'a>) -> Plan<'a> {
    part_of(plan, Place::Shared)
}

fn part_of<'a>(plan: &Plan<'a>, at: Place) -> Plan<'a> {
    plan_of(plan.charges().iter().filter(|charge| place(charge) == at).copied())
}

/// Asks about a plan with at least one local charge.
#[inline(never)]
pub(super) fn ask(memory: &Arc<MemoryStore>, shared: &impl Store, ask: &Ask<'_, '_>) -> Response {
    let charges = ask.plan.charges();
    let parts = match Placement::of(charges.iter().map(place)) {
        Some(Placement::Split(parts)) => parts,
        // The shared store has nothing to say.
        _ => return Response::Now(Ok(memory.ask_now(ask))),
    };
    let (local, rest) = (part_of(ask.plan, Place::Local), part_of(ask.plan, Place::Shared));
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
        return Response::Now(Err(StoreFailure::Refused(LEASES_APART.into())));
    }
    let own = ask_local(match ask.op {
        // A lease without an owner could not be given back.
        Op::Check if has_leases(&local) => Op::Acquire { ttl: None },
        op => op,
    });
    let shared_op = match fate(&local, &own.outcomes) {
        Verdict::Denied => Op::Deny { counted: !matches!(ask.op, Op::Peek | Op::Deny { counted: false }) },
        Verdict::Allowed => ask.op,
    };
    let response = ask_shared(shared_op);
    let split = MixedPlan {
        memory: memory.clone(),
        op: ask.op,
        now: ask.now,
        parts,
        local: OwnedPlan::of(&local),
        shared: OwnedPlan::of(&rest),
        stopwatch: matches!(response, Response::Later(_)).then(Stopwatch::start),
        is_failed: false,
    };
    match response {
        Response::Now(reply) => {
            let mut deciding: Later = Box::pin(split.decide(own, Box::pin(std::future::ready(reply))));
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
            Response::Later(Box::pin(ToTheEnd {
                work: Some(Box::pin(split.decide(own, later))),
                spawn,
                unclaimed: Some(Box::new(unclaimed)),
            }))
        }
    }
}

const LEASES_APART: &str = "a plan cannot hold leases in this process and in the shared store at the same time (hint: give \
                            all concurrency limits of a request the same mode)";

/// A plan in two places.
struct MixedPlan {
    memory: Arc<MemoryStore>,
    op: Op,
    now: Timestamp,
    parts: Vec<Part<Place>>,
    local: OwnedPlan,
    shared: OwnedPlan,
    /// How long the shared store takes, if it does not answer at once.
    stopwatch: Option<Stopwatch>,
    /// Whether the shared store did not answer. Then the plan is decided without it, and charged anew.
    is_failed: bool,
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

    fn passed(&self) -> Nanos {
        Nanos::new(self.clock.now().as_nanos().saturating_sub(self.started.as_nanos()).into())
    }
}

impl MixedPlan {
    async fn decide(mut self, own: Reply, shared: Later) -> Result<Reply, StoreFailure> {
        let mut own = Some(own);
        let shared = shared.await.and_then(|reply| {
            reply.checked(&Ask { op: self.op, plan: &self.shared.plan(), now: self.now, deadline: None })
        });
        self.is_failed = shared.is_err();
        let mut shared = Some(shared);
        let answer = |part: &Part<Place>| match part.place {
            Place::Local => own.take().map(Ok),
            Place::Shared => shared.take(),
        };
        let answers = self.parts.iter().filter_map(answer).collect();
        let reply = decide(&self, answers).await?;
        Ok(if self.op == Op::Check { reply.with_lease(LeaseReply::None) } else { reply })
    }

    /// The caller's instant by now.
    fn now(&self) -> Timestamp {
        self.now.saturating_add(self.stopwatch.as_ref().map_or(Nanos::ZERO, Stopwatch::passed))
    }

    fn plan(&self, place: Place) -> Plan<'_> {
        match place {
            Place::Local => self.local.plan(),
            Place::Shared => self.shared.plan(),
        }
    }

    /// Gives back what the local part was charged. A charge that only looked on and did not fit took less than its cost, so it
    /// stays, and so does one that counts denied attempts if the plan was denied.
    fn give_back_local(&self, own: &Reply) {
        let plan = self.local.plan();
        let charged = plan.charges().iter().zip(&own.outcomes).filter(|(charge, outcome)| {
            let stays = charge.counter.algorithm().counts_denied() && !self.is_failed;
            outcome.verdict == Verdict::Allowed && !stays
        });
        let (charges, outcomes): (Vec<Charge<'_>>, Vec<Outcome>) =
            charged.map(|(charge, outcome)| (*charge, *outcome)).unzip();
        let refunded = plan_of(charges.into_iter());
        let charged_at = ChargedAt::of(&refunded, &outcomes, own.at);
        self.memory.refund_as_of(&refunded, charged_at, self.now());
        if let LeaseReply::Held(lease) = own.lease {
            release(&self.memory, &self.local, &lease.token, self.now());
        }
    }
}

impl SplitPlan for MixedPlan {
    type Place = Place;
    type Answer = Reply;
    type Failure = StoreFailure;
    type GivingBack = ();

    fn parts(&self) -> &[Part<Place>] {
        &self.parts
    }

    fn decided(&self, part: &Part<Place>, reply: &Reply) -> (Verdict, Timestamp) {
        (fate(&self.plan(part.place), &reply.outcomes), reply.at)
    }

    fn outcomes(&self, part: &Part<Place>, reply: &Reply, plan_fate: Verdict) -> Outcomes {
        let plan = self.plan(part.place);
        match (part.place, fate(&plan, &reply.outcomes)) {
            (Place::Local, Verdict::Allowed) if plan_fate == Verdict::Denied => match self.op.charges() {
                true => self.memory.report_denied(&plan, &reply.outcomes, self.now),
                false => self.memory.deny(&plan, self.now, false),
            },
            _ => reply.outcomes.clone(),
        }
    }

    /// At most one of the parts has leases.
    async fn one_lease(&self, replies: &[Reply]) -> Result<LeaseReply, StoreFailure> {
        let held = replies.iter().map(|reply| reply.lease).find(|lease| matches!(lease, LeaseReply::Held(_)));
        Ok(held.unwrap_or(LeaseReply::None))
    }

    /// The shared store is asked last, so what it charged never has to come back.
    fn give_back(&self, part: &Part<Place>, reply: Result<&Reply, &StoreFailure>) {
        if let (Place::Local, Ok(own)) = (part.place, reply)
            && self.op.charges()
            && fate(&self.local.plan(), &own.outcomes) == Verdict::Allowed
        {
            self.give_back_local(own);
        }
    }

    async fn given_back(&self, _: Vec<()>) {}

    fn failure(&self, failure: &StoreFailure) -> StoreFailure {
        failure.clone()
    }
}

/// Work that goes on when nobody waits for it any more: a part that is charged for nothing has to be given back.
struct ToTheEnd {
    work: Option<Later>,
    /// Where it goes on. Without, the local part stays charged.
    spawn: Option<Spawn>,
    /// What is done with a lease that nobody takes.
    unclaimed: Option<Box<dyn FnOnce(Lease) + Send>>,
}

impl Future for ToTheEnd {
    type Output = Result<Reply, StoreFailure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else { return Poll::Ready(Err(StoreFailure::RuntimeGone)) };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl Drop for ToTheEnd {
    fn drop(&mut self) {
        let (Some(work), Some(spawn), Some(unclaimed)) =
            (self.work.take(), self.spawn.take(), self.unclaimed.take())
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
fn fate(plan: &Plan<'_>, outcomes: &[Outcome]) -> Verdict {
    let enforced = plan.charges().iter().zip(outcomes).filter(|(charge, _)| charge.role == Role::Enforced);
    enforced.map(|(_, outcome)| outcome.verdict).max().unwrap_or(Verdict::Allowed)
}

fn has_leases(plan: &Plan<'_>) -> bool {
    plan.charges()
        .iter()
        .any(|charge| matches!(charge.counter.algorithm(), Algorithm::Leases(_)) && charge.cost > 0)
}
