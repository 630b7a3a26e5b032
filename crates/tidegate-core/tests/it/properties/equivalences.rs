//! Pairs of ways to decide that must agree.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::algorithm::CountDenied;
use tidegate_core::{AlgorithmName, ChargeDecision, LimitSpec, Nanos, Outcome, OutcomeKind, Role, UNITS_MAX};

use crate::properties::requests::{Requests, requests};
use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

/// Makes the same requests of both limits and compares the outcomes, without delays: only a queue has delays.
fn assert_same_outcomes(one: &LimitSpec, other: &LimitSpec, requests: Requests) -> Result<(), TestCaseError> {
    let (mut first, mut second) = (Subject::from_spec(one), Subject::from_spec(other));
    let mut driver = requests.driver(one);
    while let Some(request) = driver.next_request() {
        let outcome = first.decide(request);
        let undelayed = Outcome { delay: Nanos::ZERO, ..outcome };
        prop_assert_eq!(undelayed, second.decide(request), "{:?}", request);
        driver.observe(outcome);
    }
    Ok(())
}

proptest! {
    #![proptest_config(proptest_config(400))]

    #[test]
    fn a_token_bucket_is_gcra(gcra in limits::of(AlgorithmName::Gcra), requests in requests()) {
        let bucket = LimitSpec { algorithm: Some(AlgorithmName::TokenBucket), ..gcra.clone() };
        assert_same_outcomes(&gcra, &bucket, requests)?;
    }

    #[test]
    fn a_queue_is_gcra_with_a_burst_of_one_more(
        leaky in limits::of(AlgorithmName::LeakyBucket),
        requests in requests(),
    ) {
        let queue = leaky.queue.unwrap_or(leaky.limit).min(UNITS_MAX - 1);
        let leaky = LimitSpec { queue: Some(queue.max(1)), ..leaky };
        let gcra = LimitSpec {
            algorithm: Some(AlgorithmName::Gcra),
            queue: None,
            burst: Some(queue.max(1) + 1),
            ..leaky.clone()
        };
        assert_same_outcomes(&leaky, &gcra, requests)?;
    }

    /// A store takes the steps one by one, for all limits of a plan. For one limit they equal `decide`. A preview
    /// returns the same in advance.
    #[test]
    fn a_decision_in_steps_equals_decide(spec in limits::any_algorithm(), requests in requests()) {
        let mut whole = Subject::from_spec(&spec);
        let mut stepwise = whole.clone();
        let mut driver = requests.driver(&spec);
        while let Some(request) = driver.next_request() {
            let outcome = whole.decide(request);
            let charge_decision = ChargeDecision::of_one(stepwise.outcome_kind(request));
            prop_assert_eq!(stepwise.preview(request, charge_decision), outcome, "preview of {:?}", request);
            stepwise.charge_if_due(request, charge_decision);
            prop_assert_eq!(stepwise.outcome(request, charge_decision), outcome, "outcome of {:?}", request);
            driver.observe(outcome);
        }
    }

    /// In a plan, another limit may deny what this one admits, and observed limits are charged what they deny.
    #[test]
    fn a_preview_equals_the_later_outcome(
        spec in limits::any_algorithm(),
        requests in requests(),
        decisions in vec((select(vec![OutcomeKind::Allowed, OutcomeKind::Denied]), select(vec![Role::Enforced, Role::Observed])), 48),
    ) {
        let mut subject = Subject::from_spec(&spec);
        let mut driver = requests.driver(&spec);
        for (decision, role) in decisions {
            let Some(request) = driver.next_request() else { break };
            let outcome = subject.outcome_kind(request);
            let is_any_over = decision.max(outcome) == OutcomeKind::Denied;
            let charge_decision = ChargeDecision { outcome, decision, role, is_any_over };
            let preview = subject.preview(request, charge_decision);
            subject.charge_if_due(request, charge_decision);
            let outcome = subject.outcome(request, charge_decision);
            prop_assert_eq!(preview, outcome, "{:?}", request);
            driver.observe(outcome);
        }
    }

    /// Cost 0, and a denied request that is not counted, change nothing.
    #[test]
    fn a_request_that_is_not_counted_changes_nothing(spec in limits::any_algorithm(), requests in requests()) {
        let mut subject = Subject::from_spec(&spec);
        let mut driver = requests.driver(&spec);
        while let Some(request) = driver.next_request() {
            let before = subject.clone();
            let outcome = subject.decide(request);
            let denied = outcome.kind == OutcomeKind::Denied;
            if request.cost == 0 || (denied && spec.count_denied.unwrap_or_default() == CountDenied::Never) {
                prop_assert_eq!(subject.packed(), before.packed(), "{:?}", request);
                prop_assert_eq!(subject.usage_log(), before.usage_log(), "{:?}", request);
                prop_assert_eq!(subject.leases(), before.leases(), "{:?}", request);
            }
            driver.observe(outcome);
        }
    }
}
