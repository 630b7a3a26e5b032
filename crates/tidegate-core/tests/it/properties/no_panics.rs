//! Any call, with any number, in any order, under limits that change: nothing panics, wraps or goes negative.
//! Overflow checks are on in this profile.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::{AlgorithmName, Ask, LimitSpec, Role, Ruling, Timestamp, Verdict};

use crate::properties::requests::requests;
use crate::properties::{cases, limits};
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
    Settle(Ruling),
    ChangeLimit,
}

fn call() -> impl Strategy<Value = Call> {
    select(vec![
        Call::Decide,
        Call::Charge,
        Call::Refund,
        Call::ChargeOver,
        Call::Settle(Ruling::alone(Verdict::Allowed)),
        Call::Settle(Ruling::alone(Verdict::Denied)),
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
    #![proptest_config(cases(1_000))]

    #[test]
    fn nothing_panics(
        (spec, changed) in select(AlgorithmName::ALL.to_vec()).prop_flat_map(change_of_limit),
        requests in requests(),
        calls in vec(call(), 48),
    ) {
        let mut subject = Subject::of(&spec);
        let mut caller = requests.to(&spec);
        let mut now_changed = false;
        for call in calls {
            let Some(ask) = caller.next_ask() else { break };
            // The contract of both is a cost of at least one.
            let paid = Ask { cost: ask.cost.max(1), ..ask };
            match call {
                Call::Decide => caller.hear(subject.decide(ask)),
                Call::Charge => subject.charge(paid),
                Call::ChargeOver => subject.charge_over(paid),
                Call::Refund => subject.refund(paid),
                Call::Settle(ruling) => subject.settle(ask, ruling),
                Call::ChangeLimit => {
                    now_changed = !now_changed;
                    subject.change_limit(if now_changed { &changed } else { &spec });
                }
            }
            put_every_question(&subject, ask);
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
            let ask = Ask { now: Timestamp::from_nanos(now_ns), cost };
            let mut subject = Subject::with_words(limit.clone(), [words.0, words.1]);
            put_every_question(&subject, ask);
            let _ = subject.decide(ask);
            put_every_question(&subject, ask);
            subject.charge(Ask { cost: cost.max(1), ..ask });
            put_every_question(&subject, ask);
            subject.charge_over(Ask { cost: cost.max(1), ..ask });
            put_every_question(&subject, ask);
            subject.refund(Ask { cost: cost.max(1), ..ask });
            put_every_question(&subject, ask);
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

fn put_every_question(subject: &Subject, ask: Ask) {
    let end = Timestamp::from_nanos(u64::MAX);
    for asked in [ask, Ask { cost: u64::MAX, ..ask }, Ask { now: end, ..ask }, Ask { cost: 0, ..ask }] {
        let verdict = subject.weigh(asked);
        for fate in [Verdict::Allowed, Verdict::Denied] {
            for role in [Role::Enforced, Role::Observed] {
                let _ = subject.report(asked, Ruling { verdict, fate, role });
                let _ = subject.preview(asked, Ruling { verdict, fate, role });
            }
        }
        subject.delay(asked);
        subject.packed().is_idle_at(asked.now);
    }
}
