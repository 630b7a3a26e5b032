//! Any call, with any number, in any order, under changing limits: nothing panics, wraps around or becomes negative.
//! Overflow checks are on in this profile.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::{AlgorithmName, ChargeDecision, LimitSpec, OutcomeKind, Role, TimedCost, Timestamp};

use crate::properties::requests::requests;
use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

#[derive(Clone, Copy, Debug)]
enum Call {
    Decide,
    /// Whether it fits or not, as a limit that counts denied attempts does.
    Charge,
    Refund,
    /// Whether it fits or not, as an observed limit does.
    ChargeOverLimit,
    /// By the decision of the other limits in a plan.
    ChargeIfDue(ChargeDecision),
    ChangeLimit,
}

fn call() -> impl Strategy<Value = Call> {
    select(vec![
        Call::Decide,
        Call::Charge,
        Call::Refund,
        Call::ChargeOverLimit,
        Call::ChargeIfDue(ChargeDecision::of_one(OutcomeKind::Allowed)),
        Call::ChargeIfDue(ChargeDecision::of_one(OutcomeKind::Denied)),
        Call::ChangeLimit,
    ])
}

/// Two limits that can use the same state: L and options differ, W and n do not.
pub fn change_of_limit(algorithm: AlgorithmName) -> impl Strategy<Value = (LimitSpec, LimitSpec)> {
    (limits::of(algorithm), limits::of(algorithm)).prop_map(|(before, after)| {
        let after = LimitSpec {
            per_ns: before.per_ns,
            ttl_ns: before.ttl_ns,
            sub_windows: before.sub_windows,
            align: before.align.clone(),
            min_interval_ns: before.min_interval_ns,
            ..after
        };
        (before, after)
    })
}

proptest! {
    #![proptest_config(proptest_config(1_000))]

    #[test]
    fn nothing_panics(
        (spec, changed) in select(AlgorithmName::ALL.to_vec()).prop_flat_map(change_of_limit),
        requests in requests(),
        calls in vec(call(), 48),
    ) {
        let mut subject = Subject::from_spec(&spec);
        let mut driver = requests.driver(&spec);
        let mut is_changed = false;
        for call in calls {
            let Some(request) = driver.next_request() else { break };
            // Both require a cost of at least one.
            let with_cost = TimedCost { cost: request.cost.max(1), ..request };
            match call {
                Call::Decide => driver.observe(subject.decide(request)),
                Call::Charge => subject.charge(with_cost),
                Call::ChargeOverLimit => subject.charge_over_limit(with_cost),
                Call::Refund => subject.refund(with_cost),
                Call::ChargeIfDue(charge_decision) => subject.charge_if_due(request, charge_decision),
                Call::ChangeLimit => {
                    is_changed = !is_changed;
                    subject.change_limit(if is_changed { &changed } else { &spec });
                }
            }
            call_every_method(&subject, request);
        }
    }

    /// A snapshot, or two keys with one hash, can put any words in a state.
    #[test]
    fn nothing_panics_on_words_that_are_no_state(
        spec in select(AlgorithmName::ALL.to_vec()).prop_flat_map(limits::of),
        words in (word(), word()),
        requests in vec((word(), cost()), 8),
    ) {
        let limit = spec.build().unwrap();
        for (now_ns, cost) in requests {
            let request = TimedCost { now: Timestamp::from_nanos(now_ns), cost };
            let mut subject = Subject::with_words(limit.clone(), [words.0, words.1]);
            call_every_method(&subject, request);
            let _ = subject.decide(request);
            call_every_method(&subject, request);
            subject.charge(TimedCost { cost: cost.max(1), ..request });
            call_every_method(&subject, request);
            subject.charge_over_limit(TimedCost { cost: cost.max(1), ..request });
            call_every_method(&subject, request);
            subject.refund(TimedCost { cost: cost.max(1), ..request });
            call_every_method(&subject, request);
        }
    }
}

/// Any word. Small numbers, large numbers and single bits are as frequent as all others together.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0_u64..4, (u64::MAX - 4)..=u64::MAX, (0_u32..64).prop_map(|bit| 1 << bit)]
}

fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..4, any::<u64>()]
}

fn call_every_method(subject: &Subject, request: TimedCost) {
    let end = Timestamp::from_nanos(u64::MAX);
    for request in [
        request,
        TimedCost { cost: u64::MAX, ..request },
        TimedCost { now: end, ..request },
        TimedCost { cost: 0, ..request },
    ] {
        let outcome = subject.outcome_kind(request);
        for decision in [OutcomeKind::Allowed, OutcomeKind::Denied] {
            for role in [Role::Enforced, Role::Observed] {
                let charge_decision = ChargeDecision { outcome, decision, role, is_any_over: true };
                let _ = subject.outcome(request, charge_decision);
                let _ = subject.preview(request, charge_decision);
            }
        }
        subject.delay(request);
        subject.packed().is_idle_at(request.now);
    }
}
