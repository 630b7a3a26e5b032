//! Where the design says that two ways to decide are one.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::{AlgorithmName, LimitSpec, Nanos, Outcome, Role, ChargeDecision, UNITS_MAX, OutcomeKind};

use crate::properties::requests::{Requests, requests};
use crate::properties::{proptest_config, limits};
use crate::subject::Subject;

/// Asks both the same and compares the answers, delays aside: only a queue has any.
fn decide_alike(one: &LimitSpec, other: &LimitSpec, requests: Requests) -> Result<(), TestCaseError> {
    let (mut first, mut second) = (Subject::from_spec(one), Subject::from_spec(other));
    let mut caller = requests.driver(one);
    while let Some(ask) = caller.next_cost() {
        let outcome = first.decide(ask);
        let undelayed = Outcome { delay: Nanos::ZERO, ..outcome };
        prop_assert_eq!(undelayed, second.decide(ask), "{:?}", ask);
        caller.observe(outcome);
    }
    Ok(())
}

proptest! {
    #![proptest_config(proptest_config(400))]

    #[test]
    fn a_token_bucket_is_gcra(gcra in limits::of(AlgorithmName::Gcra), requests in requests()) {
        let bucket = LimitSpec { algorithm: Some(AlgorithmName::TokenBucket), ..gcra.clone() };
        decide_alike(&gcra, &bucket, requests)?;
    }

    #[test]
    fn a_queue_is_gcra_with_one_more_to_burst(
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
        decide_alike(&leaky, &gcra, requests)?;
    }

    /// A store takes the steps one by one, over all limits of a plan; for one limit they are `decide`. A preview
    /// says the same beforehand.
    #[test]
    fn the_steps_of_a_decision_are_the_decision(spec in limits::any_algorithm(), requests in requests()) {
        let mut whole = Subject::from_spec(&spec);
        let mut stepwise = whole.clone();
        let mut caller = requests.driver(&spec);
        while let Some(ask) = caller.next_cost() {
            let outcome = whole.decide(ask);
            let ruling = ChargeDecision::of_one(stepwise.outcome_kind(ask));
            prop_assert_eq!(stepwise.preview(ask, ruling), outcome, "preview of {:?}", ask);
            stepwise.charge_if_due(ask, ruling);
            prop_assert_eq!(stepwise.outcome(ask, ruling), outcome, "report on {:?}", ask);
            caller.observe(outcome);
        }
    }

    /// In a plan another limit may deny what this one admits, and shadowed limits are charged what they deny.
    #[test]
    fn a_preview_is_the_report_to_come(
        spec in limits::any_algorithm(),
        requests in requests(),
        decisions in vec((select(vec![OutcomeKind::Allowed, OutcomeKind::Denied]), select(vec![Role::Enforced, Role::Observed])), 48),
    ) {
        let mut subject = Subject::from_spec(&spec);
        let mut caller = requests.driver(&spec);
        for (decision, role) in decisions {
            let Some(ask) = caller.next_cost() else { break };
            let ruling = ChargeDecision { outcome: subject.outcome_kind(ask), decision, role };
            let preview = subject.preview(ask, ruling);
            subject.charge_if_due(ask, ruling);
            let report = subject.outcome(ask, ruling);
            prop_assert_eq!(preview, report, "{:?}", ask);
            caller.observe(report);
        }
    }

    /// Cost 0, and whatever is denied and not counted, leaves no trace.
    #[test]
    fn what_is_not_counted_changes_nothing(spec in limits::any_algorithm(), requests in requests()) {
        let mut subject = Subject::from_spec(&spec);
        let mut caller = requests.driver(&spec);
        while let Some(ask) = caller.next_cost() {
            let before = subject.clone();
            let outcome = subject.decide(ask);
            let denied = outcome.kind == OutcomeKind::Denied;
            if ask.cost == 0 || (denied && spec.count_denied != Some(true)) {
                prop_assert_eq!(subject.packed(), before.packed(), "{:?}", ask);
                prop_assert_eq!(subject.usage_log(), before.usage_log(), "{:?}", ask);
                prop_assert_eq!(subject.leases(), before.leases(), "{:?}", ask);
            }
            caller.observe(outcome);
        }
    }
}
