//! Any call, with any number, in any order, under limits that change: nothing panics, wraps or goes negative.
//! Overflow checks are on in this profile.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::{AlgorithmName, TimedCost, LimitSpec, Role, ChargeDecision, Timestamp, OutcomeKind};

use crate::properties::requests::requests;
use crate::properties::{proptest_config, limits};
use crate::subject::Subject;

#[derive(Clone, Copy, Debug)]
enum Call {
    Decide,
    /// Whether it fits or not, as one that counts denied attempts does.
    Charge,
    Refund,
    /// Whether it fits or not, as a limit that looks on does.
    ChargeOver,
    /// By the word of the other limits in a plan.
    Settle(ChargeDecision),
    ChangeLimit,
}

fn call() -> impl Strategy<Value = Call> {
    select(vec![
        Call::Decide,
        Call::Charge,
        Call::Refund,
        Call::ChargeOver,
        Call::Settle(ChargeDecision::of_one(OutcomeKind::Allowed)),
        Call::Settle(ChargeDecision::of_one(OutcomeKind::Denied)),
        Call::ChangeLimit,
    ])
}

/// Two limits that can follow each other on the same state: L and options differ, W and n do not.
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
        let mut caller = requests.driver(&spec);
        let mut now_changed = false;
        for call in calls {
            let Some(ask) = caller.next_cost() else { break };
            // The contract of both is a cost of at least one.
            let paid = TimedCost { cost: ask.cost.max(1), ..ask };
            match call {
                Call::Decide => caller.observe(subject.decide(ask)),
                Call::Charge => subject.charge(paid),
                Call::ChargeOver => subject.charge_over_limit(paid),
                Call::Refund => subject.refund(paid),
                Call::Settle(ruling) => subject.charge_if_due(ask, ruling),
                Call::ChangeLimit => {
                    now_changed = !now_changed;
                    subject.change_limit(if now_changed { &changed } else { &spec });
                }
            }
            call_every_method(&subject, ask);
        }
    }

    /// A file that is read, or two keys with one hash, can make any words a state.
    #[test]
    fn nothing_panics_on_words_that_are_no_state(
        spec in select(AlgorithmName::ALL.to_vec()).prop_flat_map(limits::of),
        words in (word(), word()),
        asks in vec((word(), cost()), 8),
    ) {
        let limit = spec.build().unwrap();
        for (now_ns, cost) in asks {
            let ask = TimedCost { now: Timestamp::from_nanos(now_ns), cost };
            let mut subject = Subject::with_words(limit.clone(), [words.0, words.1]);
            call_every_method(&subject, ask);
            let _ = subject.decide(ask);
            call_every_method(&subject, ask);
            subject.charge(TimedCost { cost: cost.max(1), ..ask });
            call_every_method(&subject, ask);
            subject.charge_over_limit(TimedCost { cost: cost.max(1), ..ask });
            call_every_method(&subject, ask);
            subject.refund(TimedCost { cost: cost.max(1), ..ask });
            call_every_method(&subject, ask);
        }
    }
}

/// Any word; small, large and single bits as often as all others.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0_u64..4, (u64::MAX - 4)..=u64::MAX, (0_u32..64).prop_map(|bit| 1 << bit)]
}

fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..4, any::<u64>()]
}

fn call_every_method(subject: &Subject, ask: TimedCost) {
    let end = Timestamp::from_nanos(u64::MAX);
    for asked in [ask, TimedCost { cost: u64::MAX, ..ask }, TimedCost { now: end, ..ask }, TimedCost { cost: 0, ..ask }] {
        let verdict = subject.outcome_kind(asked);
        for fate in [OutcomeKind::Allowed, OutcomeKind::Denied] {
            for role in [Role::Enforced, Role::Observed] {
                let _ = subject.outcome(asked, ChargeDecision { outcome: verdict, decision: fate, role });
                let _ = subject.preview(asked, ChargeDecision { outcome: verdict, decision: fate, role });
            }
        }
        subject.delay(asked);
        subject.packed().is_idle_at(asked.now);
    }
}
