//! Plans with charges in the modes `leased` and `eventual`.
//!
//! Charges that are decided in memory come first: eventual, then leased, then all others in the shared store. If one
//! denies the plan, those before it are given back, and the others report what is left without a charge.

use std::sync::Arc;
use std::task::Poll;

use smallvec::SmallVec;
use tidegate_core::algorithm::PackedAlgorithm;
use tidegate_core::{
    Algorithm, Charge, ChargedAt, Mode, Nanos, Op, Outcome, OutcomeKind, Plan, Role, Timestamp, Wait,
};

use super::eventual::EventualReply;
use super::leased::{DecisionTimes, LeaseStep, LeasedReply, lease_ns};
use super::quota_lease::Taken;
use super::{Inner, poll_once};
use crate::Lease;
use crate::store::mixed::{RunToCompletion, plan_decision};
use crate::store::owned_plan::{OwnedCharge, OwnedPlan, plan_from_charges};
use crate::store::{Ask, Reply, ReplyFuture, Response, Store, StoreError};

/// Buckets that reach further ahead are asked strictly: the script cannot count beyond its limit for them.
const BURST_SPAN_NS_MAX: u128 = (1 << 50) * 1_000;

/// Where a charge is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Leased,
    Eventual,
    Shared,
}

/// Whether a plan has charges that are decided in this layer.
#[inline]
pub(super) fn has_modes(plan: &Plan<'_>) -> bool {
    plan.charges().iter().any(|charge| place_of(charge) != Place::Shared)
}

#[inline]
fn place_of(charge: &Charge<'_>) -> Place {
    let place = match charge.policy.mode {
        Mode::Leased { .. } => Place::Leased,
        Mode::Eventual { .. } => Place::Eventual,
        _ => return Place::Shared,
    };
    // An observed charge is counted even if it does not fit. A lease cannot do that.
    match charge.role == Role::Enforced && is_supported(charge) {
        true => place,
        false => Place::Shared,
    }
}

/// Whether a limit can be leased or copied. Rules with other limits do not load with these modes.
fn is_supported(charge: &Charge<'_>) -> bool {
    let Algorithm::Packed(algorithm) = charge.counter.algorithm() else { return false };
    let is_counted = match algorithm {
        PackedAlgorithm::Gcra(gcra) => gcra.burst_span().whole_ns < BURST_SPAN_NS_MAX,
        PackedAlgorithm::TokenBucket(bucket) => bucket.as_gcra().burst_span().whole_ns < BURST_SPAN_NS_MAX,
        PackedAlgorithm::FixedWindow(_) | PackedAlgorithm::SlidingWindow(_) => true,
        PackedAlgorithm::LeakyBucket(_) => false,
    };
    is_counted && charge.counter.limit().rate().limit() > 0 && !charge.counter.algorithm().counts_denied()
}

/// Asks about a plan that [has such charges](has_modes).
pub(super) fn ask<S: Store + 'static>(inner: &Arc<Inner<S>>, ask: &Ask<'_, '_>) -> Response {
    match ask.op {
        Op::Check | Op::Acquire { .. } => check(inner, ask),
        Op::Peek | Op::Deny { .. } => report(inner, ask),
        Op::Refund { .. } => refund(inner, ask),
        Op::Reset => {
            for charge in ask.plan.charges() {
                inner.forget_leases(charge);
                inner.forget_replica(charge);
            }
            inner.shared.ask(ask)
        }
        // Leases of concurrency limits are in the shared store.
        _ => inner.shared.ask(&Ask { plan: &part(ask.plan, Place::Shared), ..*ask }),
    }
}

fn check<S: Store + 'static>(inner: &Arc<Inner<S>>, ask: &Ask<'_, '_>) -> Response {
    let Ask { now, deadline, .. } = *ask;
    // The common case: one charge, decided in memory.
    if let [charge] = ask.plan.charges() {
        match place_of(charge) {
            Place::Leased => {
                let step = inner.lease_step(charge, now);
                match step {
                    LeaseStep::Taken(Taken { at, outcome, .. }) => {
                        return Response::Now(Ok(reply_of_one(at, outcome)));
                    }
                    LeaseStep::Pass => return inner.shared.ask(ask),
                    _ => {}
                }
                let times = DecisionTimes { started: now, now, deadline };
                let waiting = inner.clone().wait_for_units(OwnedCharge::new(charge), step, times);
                return now_or_later(Box::pin(async move {
                    let LeasedReply { at, outcome, is_unreplicated, .. } = waiting.await?;
                    Ok(Reply { is_unreplicated, ..reply_of_one(at, outcome) })
                }));
            }
            Place::Eventual => {
                if let Some(decided) = inner.decide_eventual(charge, now) {
                    let reply = |EventualReply { at, outcome }| reply_of_one(at, outcome);
                    return Response::Now(decided.map(reply));
                }
                let (inner, owned) = (inner.clone(), OwnedCharge::new(charge));
                let response = inner.shared.ask(ask);
                return now_or_later(Box::pin(async move {
                    let reply = response.reply().await?;
                    let note =
                        |outcome: &Outcome| inner.note_granted(&owned.charge(), outcome, reply.at, now);
                    reply.outcomes.iter().for_each(note);
                    Ok(reply)
                }));
            }
            Place::Shared => {}
        }
        return inner.shared.ask(ask);
    }
    let plan = OwnedPlan::from_plan(ask.plan);
    let check = MixedCheck { inner: inner.clone(), op: ask.op, plan: plan.clone(), now, deadline };
    match now_or_later(Box::pin(check.run())) {
        // What was taken must be given back if the plan is denied, even if its caller is gone.
        Response::Later(later) => {
            let holder = inner.clone();
            let release = move |lease: Lease| release(&holder, &plan.plan(), &lease);
            Response::Later(Box::pin(RunToCompletion::new(later, inner.shared.spawner(), release)))
        }
        now => now,
    }
}

/// Releases a lease of concurrency limits whose caller is gone.
fn release<S: Store + 'static>(inner: &Arc<Inner<S>>, plan: &Plan<'_>, lease: &Lease) {
    let op = Op::Release { token: lease.token };
    let plan = part(plan, Place::Shared);
    let response = inner.shared.ask(&Ask { op, plan: &plan, now: inner.clock.now(), deadline: None });
    // A lease that is not released expires.
    inner.when_answered(response, drop);
}

/// A plan of several charges.
struct MixedCheck<S> {
    inner: Arc<Inner<S>>,
    op: Op,
    plan: OwnedPlan,
    now: Timestamp,
    deadline: Option<Timestamp>,
}

/// What a charge of such a plan got in memory.
enum PartReply {
    Leased(LeasedReply),
    Eventual(EventualReply),
}

impl PartReply {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Leased(reply) => reply.outcome,
            Self::Eventual(reply) => reply.outcome,
        }
    }

    /// By the store's clock.
    fn at(&self) -> Timestamp {
        match self {
            Self::Leased(reply) => reply.at,
            Self::Eventual(reply) => reply.at,
        }
    }
}

impl<S: Store + 'static> MixedCheck<S> {
    async fn run(self) -> Result<Reply, StoreError> {
        let plan = self.plan.plan();
        let charges = plan.charges();
        let mut parts: Vec<Option<PartReply>> = std::iter::repeat_with(|| None).take(charges.len()).collect();
        match self.take(charges, &mut parts).await {
            Ok(OutcomeKind::Allowed) => {}
            Ok(OutcomeKind::Denied) => {
                self.put_back(charges, &parts);
                return self.finish(charges, &parts, Op::Deny { counted: true }).await;
            }
            Err(error) => {
                self.put_back(charges, &parts);
                return Err(error);
            }
        }
        let result = self.finish(charges, &parts, self.op).await;
        if let Ok(reply) = &result
            && plan_decision(&plan, &reply.outcomes) == OutcomeKind::Allowed
        {
            let asked = charges.iter().zip(&reply.outcomes).zip(&parts).filter(|(_, part)| part.is_none());
            asked.for_each(|((charge, outcome), _)| {
                self.inner.note_granted(charge, outcome, reply.at, self.now);
            });
        }
        let is_denied = |reply: &Reply| plan_decision(&plan, &reply.outcomes) == OutcomeKind::Denied;
        if result.as_ref().map_or(true, is_denied) {
            self.put_back(charges, &parts);
        }
        result
    }

    /// Takes units for all charges that are decided in memory, until one is denied.
    async fn take(
        &self,
        charges: &[Charge<'_>],
        parts: &mut [Option<PartReply>],
    ) -> Result<OutcomeKind, StoreError> {
        let Self { inner, now: started, deadline, .. } = self;
        let mut now = *started;
        for place in [Place::Eventual, Place::Leased] {
            for (charge, part) in
                charges.iter().zip(parts.iter_mut()).filter(|(one, _)| place_of(one) == place)
            {
                let reply = match place {
                    Place::Eventual => match inner.decide_eventual(charge, *started) {
                        Some(reply) => PartReply::Eventual(reply?),
                        // No room for a copy: the shared store decides it with the others.
                        None => continue,
                    },
                    _ => {
                        let step = inner.lease_step(charge, now);
                        let waits = !matches!(step, LeaseStep::Taken(_));
                        let times = DecisionTimes { started: *started, now, deadline: *deadline };
                        let waiting = inner.clone().wait_for_units(OwnedCharge::new(charge), step, times);
                        let reply = waiting.await?;
                        if waits {
                            now = inner.clock.now().max(now);
                        }
                        PartReply::Leased(reply)
                    }
                };
                let kind = reply.outcome().kind;
                *part = Some(reply);
                if kind == OutcomeKind::Denied {
                    return Ok(OutcomeKind::Denied);
                }
            }
        }
        Ok(OutcomeKind::Allowed)
    }

    /// Asks the shared store about all other charges, and puts all outcomes together.
    async fn finish(
        &self,
        charges: &[Charge<'_>],
        parts: &[Option<PartReply>],
        op: Op,
    ) -> Result<Reply, StoreError> {
        let Self { inner, now, deadline, .. } = self;
        let is_denied = matches!(op, Op::Deny { .. });
        // A leased or eventual charge that was not decided, because another one denied the plan, is not asked about.
        let is_asked = |charge: &Charge<'_>, part: &Option<PartReply>| {
            part.is_none() && (!is_denied || place_of(charge) == Place::Shared)
        };
        let asked = plan_from_charges(
            charges
                .iter()
                .zip(parts)
                .filter(|(charge, part)| is_asked(charge, part))
                .map(|(charge, _)| *charge),
        );
        // By the clock of the store, as that of a single charge. The earliest: then no refund reaches later units.
        let decided_at = parts.iter().flatten().map(PartReply::at).min();
        let mut reply = match asked.charges().is_empty() {
            true => Reply::empty(decided_at.unwrap_or(*now)),
            false => {
                let ask = Ask { op, plan: &asked, now: *now, deadline: *deadline };
                let response = inner.shared.ask(&ask);
                let reply = response.reply().await?;
                reply.require_complete(&ask)?
            }
        };
        reply.at = decided_at.map_or(reply.at, |decided_at| decided_at.min(reply.at));
        let mut shared = std::mem::take(&mut reply.outcomes).into_iter();
        for (charge, part) in charges.iter().zip(parts) {
            let outcome = match part {
                Some(part) => Some(part.outcome()),
                None if is_asked(charge, part) => shared.next(),
                None => Some(unasked_outcome(inner, charge, *now)),
            };
            reply.outcomes.extend(outcome);
        }
        Ok(reply)
    }

    fn put_back(&self, charges: &[Charge<'_>], parts: &[Option<PartReply>]) {
        let now = self.inner.clock.now();
        for (charge, part) in charges.iter().zip(parts) {
            match part {
                Some(PartReply::Leased(reply)) => self.inner.put_back_units(charge, reply, now),
                Some(PartReply::Eventual(reply)) => self.put_back_eventual(charge, reply, now),
                None => {}
            }
        }
    }

    fn put_back_eventual(&self, charge: &Charge<'_>, reply: &EventualReply, now: Timestamp) {
        let EventualReply { outcome, at } = reply;
        let is_charged = outcome.kind == OutcomeKind::Allowed && charge.cost > 0;
        if is_charged && !self.inner.refund_eventual(charge, *at, now) {
            self.inner.refund_in_store(charge, ChargedAt::new(*at), now);
        }
    }
}

/// Peeks, or reports what is left for a plan that is denied elsewhere.
fn report<S: Store + 'static>(inner: &Arc<Inner<S>>, ask: &Ask<'_, '_>) -> Response {
    let known = |charge: &Charge<'_>| match place_of(charge) {
        Place::Leased => leased_outcome(inner, charge, ask.now).filter(|_| ask.op == Op::Peek),
        Place::Eventual => inner.preview_eventual(charge, ask.now).map(|reply| reply.outcome),
        Place::Shared => None,
    };
    let known: Vec<Option<Outcome>> = ask.plan.charges().iter().map(known).collect();
    let unknown = ask.plan.charges().iter().zip(&known).filter(|(_, known)| known.is_none());
    let asked = plan_from_charges(unknown.map(|(charge, _)| *charge));
    if asked.charges().is_empty() {
        let outcomes = known.into_iter().flatten().collect();
        return Response::Now(Ok(Reply::new(ask.now, outcomes)));
    }
    let response = inner.shared.ask(&Ask { plan: &asked, ..*ask });
    now_or_later(Box::pin(async move {
        let mut reply = response.reply().await?;
        let mut shared = std::mem::take(&mut reply.outcomes).into_iter();
        reply.outcomes = known.into_iter().filter_map(|known| known.or_else(|| shared.next())).collect();
        Ok(reply)
    }))
}

/// Refunds what is known here, and all other charges in the shared store.
fn refund<S: Store + 'static>(inner: &Arc<Inner<S>>, ask: &Ask<'_, '_>) -> Response {
    let Op::Refund { charged_at } = ask.op else { return Response::Now(Ok(Reply::empty(ask.now))) };
    let is_refunded_here = |charge: &Charge<'_>| match (place_of(charge), charged_at) {
        (Place::Leased, Some(charged_at)) => inner.refund_leased(charge, charged_at.at, ask.now),
        (Place::Eventual, Some(charged_at)) => {
            let from = charged_at.counted_from(charge.counter.algorithm());
            inner.refund_eventual(charge, from, ask.now)
        }
        _ => false,
    };
    let mut responses: SmallVec<[Response; 2]> = SmallVec::new();
    let mut others = Plan::new();
    for charge in ask.plan.charges().iter().filter(|charge| !is_refunded_here(charge)) {
        match lease_ns(charge).zip(charged_at).filter(|_| place_of(charge) == Place::Leased) {
            // Its units may have been debited this much earlier.
            Some((lease_ns, used_at)) => {
                let op = Op::Refund { charged_at: Some(debited_at(charge, used_at.at, lease_ns)) };
                responses.push(inner.shared.ask(&Ask { op, plan: &Plan::of_one(*charge), ..*ask }));
            }
            // Cannot fail: the other plan has at least these charges.
            None => drop(others.add(*charge)),
        }
    }
    if !others.charges().is_empty() {
        responses.push(inner.shared.ask(&Ask { plan: &others, ..*ask }));
    }
    if responses.len() == 1
        && let Some(response) = responses.pop()
    {
        return response;
    }
    let empty = Reply::empty(ask.now);
    now_or_later(Box::pin(async move {
        for response in responses {
            response.reply().await?;
        }
        Ok(empty)
    }))
}

/// When units of a lease that were used at `used_at` were debited, at the earliest. A fixed window debits and uses them in the
/// same window.
fn debited_at(charge: &Charge<'_>, used_at: Timestamp, lease_ns: u64) -> ChargedAt {
    ChargedAt::new(match charge.counter.algorithm() {
        Algorithm::Packed(PackedAlgorithm::FixedWindow(_)) => used_at,
        _ => Timestamp::from_nanos(used_at.as_nanos().saturating_sub(lease_ns)),
    })
}

/// The outcome of a charge that a lease would serve now. None if no lease would.
fn leased_outcome<S: Store + 'static>(
    inner: &Arc<Inner<S>>,
    charge: &Charge<'_>,
    now: Timestamp,
) -> Option<Outcome> {
    let units = inner.leased.units(charge, now);
    (units >= charge.cost && units > 0).then(|| allowed(units - charge.cost))
}

/// The outcome of a charge that was not asked about because another one denied the plan.
fn unasked_outcome<S: Store + 'static>(
    inner: &Arc<Inner<S>>,
    charge: &Charge<'_>,
    now: Timestamp,
) -> Outcome {
    match inner.preview_eventual(charge, now) {
        Some(reply) => reply.outcome,
        None => allowed(inner.leased.units(charge, now)),
    }
}

fn allowed(remaining: u64) -> Outcome {
    Outcome {
        kind: OutcomeKind::Allowed,
        remaining,
        retry_after: Wait::NONE,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
        over: 0,
    }
}

fn part<'a>(plan: &Plan<'a>, place: Place) -> Plan<'a> {
    plan_from_charges(plan.charges().iter().filter(|charge| place_of(charge) == place).copied())
}

fn reply_of_one(at: Timestamp, outcome: Outcome) -> Reply {
    Reply::new(at, std::iter::once(outcome).collect())
}

/// Polls a future once. Most are ready at once.
fn now_or_later(mut future: ReplyFuture) -> Response {
    match poll_once(&mut future) {
        Poll::Ready(reply) => Response::Now(reply),
        Poll::Pending => Response::Later(future),
    }
}
