//! Limits that look on: what they are charged when they are over, and what they say of it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::{AlgorithmName, TimedCost, LimitSpec, Outcome, Role, ChargeDecision, OutcomeKind};

use crate::models::observed_bucket::ObservedBucket;
use crate::models::{Event, ModelKey, predict};
use crate::properties::against_models::event;
use crate::properties::requests::{Requests, requests};
use crate::properties::{proptest_config, limits};
use crate::subject::Subject;

/// Enough for the counts of a sliding window to stay below where they stop.
const COUNTED_MAX: u64 = 1 << 30;
const BUCKETS: [AlgorithmName; 3] =
    [AlgorithmName::Gcra, AlgorithmName::TokenBucket, AlgorithmName::LeakyBucket];

/// What part a limit has in a request, and what the others say of it.
#[derive(Clone, Copy, Debug)]
struct ChargePart {
    role: Role,
    others: OutcomeKind,
}

fn parts() -> impl Strategy<Value = Vec<ChargePart>> {
    let one = (select(vec![Role::Observed, Role::Observed, Role::Enforced]), 0..8_u8);
    let part = one.prop_map(|(role, others)| ChargePart {
        role,
        others: if others == 0 { OutcomeKind::Denied } else { OutcomeKind::Allowed },
    });
    vec(part, 48)
}

impl ChargePart {
    fn charge_decision(self, verdict: OutcomeKind) -> ChargeDecision {
        let fate = match self.role {
            Role::Enforced => verdict.max(self.others),
            Role::Observed => self.others,
        };
        ChargeDecision { outcome: verdict, decision: fate, role: self.role }
    }
}

/// Whether the answer says when to come again.
fn retries(ruling: ChargeDecision) -> bool {
    let said = if ruling.role == Role::Observed { ruling.outcome } else { ruling.decision };
    said == OutcomeKind::Denied
}

/// The steps that a store takes: the preview, which has to be the outcome, and the outcome.
fn stepped(subject: &mut Subject, ask: TimedCost, part: ChargePart) -> Result<(ChargeDecision, Outcome), TestCaseError> {
    let ruling = part.charge_decision(subject.outcome_kind(ask));
    let preview = subject.preview(ask, ruling);
    subject.charge_if_due(ask, ruling);
    let outcome = subject.outcome(ask, ruling);
    prop_assert_eq!(preview, outcome, "preview of {:?} by {:?}", ask, ruling);
    Ok((ruling, outcome))
}

fn outcome_kind_of(fits: bool) -> OutcomeKind {
    if fits { OutcomeKind::Allowed } else { OutcomeKind::Denied }
}

/// Buckets against a level that has a floor.
fn empties(spec: &LimitSpec, requests: Requests, parts: Vec<ChargePart>) -> Result<(), TestCaseError> {
    let burst = match spec.algorithm {
        Some(AlgorithmName::LeakyBucket) => spec.queue.unwrap_or(spec.limit) + 1,
        _ => spec.burst.unwrap_or(spec.limit),
    };
    let (mut subject, mut bucket) = (Subject::from_spec(spec), ObservedBucket::new(spec.limit, spec.per_ns, burst));
    let mut caller = requests.driver(spec);
    for part in parts {
        let Some(ask) = caller.next_cost() else { break };
        let asked = event(ask);
        let verdict = outcome_kind_of(bucket.fits(asked));
        let (ruling, outcome) = stepped(&mut subject, ask, part)?;
        prop_assert_eq!(ruling.outcome, verdict, "{:?}", ask);
        if ruling.decision == OutcomeKind::Allowed && ask.cost > 0 {
            bucket.charge(asked);
        }
        let expected = bucket.outcome(asked, verdict, retries(ruling));
        // How long an admitted request is held is for other tests; one that is only looked at never is.
        let delay = if part.role == Role::Enforced { outcome.delay } else { expected.delay };
        prop_assert_eq!(outcome, Outcome { delay, ..expected }, "{:?} by {:?}", ask, ruling);
        caller.observe(outcome);
    }
    Ok(())
}

/// Windows, logs and leases against their models, which count whatever passes.
fn counts(spec: &LimitSpec, requests: Requests, parts: Vec<ChargePart>) -> Result<(), TestCaseError> {
    let (mut subject, mut key) = (Subject::from_spec(spec), ModelKey::new(spec));
    let mut caller = requests.driver(spec);
    for part in parts {
        let Some(ask) = caller.next_cost() else { break };
        let ask = match spec.algorithm {
            Some(AlgorithmName::SlidingWindow) => TimedCost { cost: ask.cost.min(COUNTED_MAX), ..ask },
            _ => ask,
        };
        let asked: Event = event(ask);
        let (ruling, outcome) = stepped(&mut subject, ask, part)?;
        let after = key.after(asked, ruling.decision == OutcomeKind::Allowed);
        let told = predict::outcome(&key, &after, asked, true);
        let retry_after =
            if retries(ruling) { predict::retry_after(&after, asked) } else { told.retry_after };
        prop_assert_eq!(outcome, Outcome { retry_after, ..told }, "{:?} by {:?}", ask, ruling);
        key = after;
        caller.observe(outcome);
    }
    Ok(())
}

/// Limits whose model can be searched: small enough a window that every wait is found.
fn counting() -> impl Strategy<Value = LimitSpec> {
    let counts = |spec: &LimitSpec| match spec.algorithm {
        Some(AlgorithmName::SlidingWindow) => spec.limit < COUNTED_MAX,
        algorithm => algorithm.is_none_or(|algorithm| !BUCKETS.contains(&algorithm)),
    };
    limits::any_algorithm().prop_filter("a bucket, or counts that stop", counts)
}

proptest! {
    #![proptest_config(proptest_config(400))]

    #[test]
    fn buckets_are_emptied_and_no_further(
        spec in select(BUCKETS.to_vec()).prop_flat_map(limits::of),
        requests in requests(),
        parts in parts(),
    ) {
        empties(&spec, requests, parts)?;
    }

    #[test]
    fn windows_logs_and_leases_count_whatever_passes(
        spec in counting(),
        requests in requests(),
        parts in parts(),
    ) {
        counts(&spec, requests, parts)?;
    }
}
