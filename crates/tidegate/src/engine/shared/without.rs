//! Without the shared store: what each rule says is to become of its limits.
//!
//! A limit that is enforced locally is divided by the number of processes that shared it, and counted in this process's
//! memory. Of a limit that is left out nothing is asked, and its answer is that of a key never seen. Where any rule
//! turns requests away, nothing is charged, since the request does not pass.

use std::num::NonZeroU32;

use tidegate_core::rules::{Answer, Drawn, LimitAnswer, OnStoreFailure, Touch, Touches};
use tidegate_core::{Charge, Counter, Limit, Nanos, Outcome, Plan, Verdict, Wait};

use super::Want;
use crate::engine::Engine;
use crate::{Clock, Lease, Outcomes};

/// When to come again for what only the shared store can admit: by then it may be back.
const TRY_AGAIN_AFTER: Wait = Wait::of(Nanos::new(1_000_000_000));

/// What this process alone says of all that a request touches.
pub(super) fn settle<C: Clock>(
    engine: &Engine<C>,
    nodes: NonZeroU32,
    touches: &Touches<'_>,
    drawn: &Drawn<'_>,
    want: Want,
) -> (Outcomes, Option<Lease>) {
    let is_turned_away = drawn.charged(touches).any(|(_, touch)| turns_away(touch));
    let want = if is_turned_away { Want::Look } else { want };
    // A charge that several limits share stays as long as any of them needs it, and one that is for none always.
    let is_left_out = |place: usize| {
        let mut mine =
            drawn.charged(touches).filter(|(at, _)| *at == place).map(|(_, touch)| touch).peekable();
        mine.peek().is_some() && mine.all(|touch| is_left_out(touch) || turns_away(touch))
    };
    settle_plan(engine, nodes, &drawn.plan, want, is_left_out)
}

/// What this process alone says of a plan, some charges of which are left out, by their places.
pub(in crate::engine) fn settle_plan<C: Clock>(
    engine: &Engine<C>,
    nodes: NonZeroU32,
    plan: &Plan<'_>,
    want: Want,
    is_left_out: impl Fn(usize) -> bool,
) -> (Outcomes, Option<Lease>) {
    let charges = plan.charges();
    let places: Vec<usize> = (0..charges.len()).filter(|place| !is_left_out(*place)).collect();
    let shares: Vec<Counter> = places.iter().map(|place| charges[*place].counter.share_of(nodes)).collect();
    let mut local = Plan::new();
    for (place, counter) in places.iter().zip(&shares) {
        // There are no more of them than there were.
        let _ = local.add(Charge { counter, ..charges[*place] });
    }
    let (said, lease) = stands_in_for(engine, &local, want);
    let mut outcomes: Outcomes = charges.iter().map(|charge| of_everything(charge.counter.limit())).collect();
    for (place, outcome) in places.into_iter().zip(said) {
        outcomes[place] = until_it_is_back(&charges[place], outcome);
    }
    (outcomes, lease)
}

/// A share may never admit what the whole limit would: then it is to be tried again when the store may be back.
fn until_it_is_back(charge: &Charge<'_>, outcome: Outcome) -> Outcome {
    let is_too_much = outcome.retry_after == Wait::NEVER && charge.cost <= charge.counter.limit().capacity();
    let retry_after = if is_too_much { TRY_AGAIN_AFTER } else { outcome.retry_after };
    Outcome { retry_after, ..outcome }
}

/// What the engine's own store says of a plan.
pub(in crate::engine) fn stands_in_for<C: Clock>(
    engine: &Engine<C>,
    plan: &Plan<'_>,
    want: Want,
) -> (Outcomes, Option<Lease>) {
    let now = engine.clock.now();
    match want {
        Want::Charge => (engine.store.check(plan, now), None),
        Want::Look => (engine.store.peek(plan, now), None),
        Want::Hold(ttl) => engine.store.acquire(plan, now, ttl),
    }
}

/// Marks an answer that was given without the shared store, and turns the request away where a rule says so.
pub(super) fn mark(answer: &mut Answer<'_>) {
    let turns_away = |limit: &LimitAnswer<'_>| {
        limit.rule.on_store_failure == OnStoreFailure::Deny && limit.limit.is_enforced()
    };
    answer.degraded = !answer.limits.is_empty();
    if answer.limits.iter().any(turns_away) {
        answer.turn_away(TRY_AGAIN_AFTER, turns_away);
    }
}

/// Whether nothing is limited by it.
pub(super) fn is_left_out(touch: &Touch<'_>) -> bool {
    touch.rule.on_store_failure == OnStoreFailure::Allow
}

/// Whether a request does not pass that touches it. A limit that denies nobody does not begin to.
fn turns_away(touch: &Touch<'_>) -> bool {
    touch.rule.on_store_failure == OnStoreFailure::Deny && touch.is_enforced()
}

/// The answer of a limit that nobody is asked about.
fn of_everything(limit: &Limit) -> Outcome {
    Outcome {
        verdict: Verdict::Allowed,
        remaining: limit.rate().limit(),
        retry_after: Wait::NONE,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
    }
}
