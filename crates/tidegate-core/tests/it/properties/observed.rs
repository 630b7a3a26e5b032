//! Observed limits: what they are charged when they are over, and their outcomes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::{AlgorithmName, ChargeDecision, LimitSpec, Outcome, OutcomeKind, Role, TimedCost};

use crate::models::observed_bucket::ObservedBucket;
use crate::models::{ModelKey, predict};
use crate::properties::against_models::event;
use crate::properties::requests::{Requests, requests};
use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

/// Low enough that the counts of a sliding window do not saturate.
const COUNTED_MAX: u64 = 1 << 30;
const BUCKETS: [AlgorithmName; 3] =
    [AlgorithmName::Gcra, AlgorithmName::TokenBucket, AlgorithmName::LeakyBucket];

/// The role of a limit in a request, and the decision of the other limits.
#[derive(Clone, Copy, Debug)]
struct ChargePart {
    role: Role,
    other_limits: OutcomeKind,
}

fn parts() -> impl Strategy<Value = Vec<ChargePart>> {
    let one = (select(vec![Role::Observed, Role::Observed, Role::Enforced]), 0..8_u8);
    let part = one.prop_map(|(role, number)| ChargePart {
        role,
        other_limits: if number == 0 { OutcomeKind::Denied } else { OutcomeKind::Allowed },
    });
    vec(part, 48)
}

impl ChargePart {
    fn charge_decision(self, outcome: OutcomeKind) -> ChargeDecision {
        let decision = match self.role {
            Role::Enforced => outcome.max(self.other_limits),
            Role::Observed => self.other_limits,
        };
        let is_any_over = decision.max(outcome) == OutcomeKind::Denied;
        ChargeDecision { outcome, decision, role: self.role, is_any_over }
    }
}

/// Whether the outcome includes a retry time.
fn has_retry_after(charge_decision: ChargeDecision) -> bool {
    let kind = if charge_decision.role == Role::Observed {
        charge_decision.outcome
    } else {
        charge_decision.decision
    };
    kind == OutcomeKind::Denied
}

/// The steps of a store: the preview, which must equal the outcome, and the outcome.
fn decide_in_steps(
    subject: &mut Subject,
    request: TimedCost,
    part: ChargePart,
) -> Result<(ChargeDecision, Outcome), TestCaseError> {
    let charge_decision = part.charge_decision(subject.outcome_kind(request));
    let preview = subject.preview(request, charge_decision);
    subject.charge_if_due(request, charge_decision);
    let outcome = subject.outcome(request, charge_decision);
    prop_assert_eq!(preview, outcome, "preview of {:?} by {:?}", request, charge_decision);
    Ok((charge_decision, outcome))
}

fn outcome_kind_of(fits: bool) -> OutcomeKind {
    if fits { OutcomeKind::Allowed } else { OutcomeKind::Denied }
}

/// Compares buckets with a level that never goes below zero.
fn assert_empties(spec: &LimitSpec, requests: Requests, parts: Vec<ChargePart>) -> Result<(), TestCaseError> {
    let burst = match spec.algorithm {
        Some(AlgorithmName::LeakyBucket) => spec.queue.unwrap_or(spec.limit) + 1,
        _ => spec.burst.unwrap_or(spec.limit),
    };
    let (mut subject, mut bucket) =
        (Subject::from_spec(spec), ObservedBucket::new(spec.limit, spec.per_ns, burst));
    let mut driver = requests.driver(spec);
    for part in parts {
        let Some(request) = driver.next_request() else { break };
        let event = event(request);
        let kind = outcome_kind_of(bucket.fits(event));
        let (charge_decision, outcome) = decide_in_steps(&mut subject, request, part)?;
        prop_assert_eq!(charge_decision.outcome, kind, "{:?}", request);
        if charge_decision.decision == OutcomeKind::Allowed && request.cost > 0 {
            bucket.charge(event);
        }
        let expected = bucket.outcome(event, kind, has_retry_after(charge_decision));
        // Other tests check how long an admitted request is held. An observed limit never holds one.
        let delay = if part.role == Role::Enforced { outcome.delay } else { expected.delay };
        prop_assert_eq!(outcome, Outcome { delay, ..expected }, "{:?} by {:?}", request, charge_decision);
        driver.observe(outcome);
    }
    Ok(())
}

/// Compares windows, logs and leases with their models, which count everything that passes.
fn assert_counts(spec: &LimitSpec, requests: Requests, parts: Vec<ChargePart>) -> Result<(), TestCaseError> {
    let (mut subject, mut key) = (Subject::from_spec(spec), ModelKey::new(spec));
    let mut driver = requests.driver(spec);
    for part in parts {
        let Some(request) = driver.next_request() else { break };
        let request = match spec.algorithm {
            Some(AlgorithmName::SlidingWindow) => {
                TimedCost { cost: request.cost.min(COUNTED_MAX), ..request }
            }
            _ => request,
        };
        let event = event(request);
        let (charge_decision, outcome) = decide_in_steps(&mut subject, request, part)?;
        let after = key.after(event, charge_decision.decision == OutcomeKind::Allowed);
        let expected = predict::outcome(&key, &after, event, true);
        let retry_after = if has_retry_after(charge_decision) {
            predict::retry_after(&after, event)
        } else {
            expected.retry_after
        };
        prop_assert_eq!(
            outcome,
            Outcome { retry_after, ..expected },
            "{:?} by {:?}",
            request,
            charge_decision
        );
        key = after;
        driver.observe(outcome);
    }
    Ok(())
}

/// Limits whose model can be searched: the window is small enough to find every wait.
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
        assert_empties(&spec, requests, parts)?;
    }

    #[test]
    fn windows_logs_and_leases_count_whatever_passes(
        spec in counting(),
        requests in requests(),
        parts in parts(),
    ) {
        assert_counts(&spec, requests, parts)?;
    }
}
