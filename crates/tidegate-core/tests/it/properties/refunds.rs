//! A refund undoes a charge: where the limits of a plan live apart, one that fits is charged before another is
//! known to deny, and given back.
//!
//! Two keys get the same requests, and one of them also charges that are taken back, at once or when the next
//! request comes. From then on nobody can tell them apart. Only charges that fit are ever taken back, and only
//! by a clock that does not step back behind them.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::algorithm::Align;
use tidegate_core::{
    AlgorithmName, Ask, Charge, ChargedAt, Counter, LimitSpec, Plan, Ruling, Timestamp, Verdict,
};

use crate::properties::requests::requests;
use crate::properties::{cases, limits};
use crate::subject::Subject;

/// A charge that will be taken back: how much of what remains, in 1/256, and whether at once.
#[derive(Clone, Copy, Debug)]
struct Mistaken {
    share: u8,
    at_once: bool,
}

fn mistaken() -> impl Strategy<Value = Mistaken> {
    any::<(u8, bool)>().prop_map(|(share, at_once)| Mistaken { share, at_once })
}

proptest! {
    #![proptest_config(cases(750))]

    #[test]
    fn a_refund_undoes_a_charge(
        spec in limits::refundable(),
        requests in requests(),
        mistakes in vec(mistaken(), 48),
    ) {
        let mut plain = Subject::of(&spec);
        let mut refunded = plain.clone();
        let mut caller = requests.in_order_to(&spec);
        let mut mistakes = mistakes.into_iter();
        let mut owed = None;
        while let Some(ask) = caller.next_ask() {
            if let Some(cost) = owed.take() {
                refunded.refund(Ask { cost, ..ask });
            }
            let outcome = plain.decide(ask);
            prop_assert_eq!(refunded.decide(ask), outcome, "{:?}", ask);
            caller.hear(outcome);

            let Some(Mistaken { share, at_once }) = mistakes.next() else { break };
            let cost = outcome.remaining / 256 * u64::from(share) + outcome.remaining % 256 * u64::from(share) / 256;
            let mistake = Ask { cost, ..ask };
            if cost > 0 && refunded.weigh(mistake) == Verdict::Allowed {
                refunded.charge(mistake);
                if at_once {
                    refunded.refund(mistake);
                } else {
                    owed = Some(cost);
                }
            }
        }
    }
}

/// A charge that is given back after some more requests.
#[derive(Clone, Copy, Debug)]
struct Lent {
    ask: Ask,
    from: Timestamp,
    requests: u8,
}

/// Windows that begin with the first hit may begin with the mistake. What counts attempts is not given back.
fn refundable_amid_others() -> impl Strategy<Value = LimitSpec> {
    limits::refundable()
        .prop_map(|spec| LimitSpec { count_denied: None, ..spec })
        .prop_filter("first hit", |spec| spec.align != Some(Align::FirstHit))
}

proptest! {
    #![proptest_config(cases(1_500))]

    /// Others go on between a charge and its refund. After it nobody is admitted who would not have been, had it never
    /// been charged; and where units are told apart by when they were used, everybody is who would have been.
    #[test]
    fn a_refund_amid_others_takes_nothing_from_them(
        spec in refundable_amid_others(),
        requests in requests(),
        mistakes in vec((any::<u8>(), 0..6_u8), 48),
        by_outcome in any::<bool>(),
    ) {
        let mut plain = Subject::of(&spec);
        let mut refunded = plain.clone();
        let mut caller = requests.in_order_to(&spec);
        let mut mistakes = mistakes.into_iter();
        let mut lent: Option<Lent> = None;
        while let Some(ask) = caller.next_ask() {
            match lent.take() {
                Some(Lent { ask: Ask { cost, .. }, from, requests: 0 }) => {
                    refunded.refund_charged(Ask { cost, ..ask }, from);
                }
                Some(waits) => lent = Some(Lent { requests: waits.requests - 1, ..waits }),
                None => {}
            }
            let outcome = refunded.decide(ask);
            if outcome.verdict == Verdict::Allowed {
                prop_assert_eq!(plain.decide(ask).verdict, Verdict::Allowed, "{:?}", ask);
            }
            caller.hear(outcome);
            if lent.is_none() {
                let (left, would_be) = (refunded.remaining(ask.now), plain.remaining(ask.now));
                prop_assert!(left <= would_be, "{left} instead of {would_be} at {ask:?}");
                if spec.algorithm == Some(AlgorithmName::SlidingLog) {
                    prop_assert_eq!(left, would_be);
                }
                let Some((share, requests)) = mistakes.next() else { break };
                let cost = left / 256 * u64::from(share) + left % 256 * u64::from(share) / 256;
                let mistake = Ask { cost, ..ask };
                if cost > 0 && refunded.weigh(mistake) == Verdict::Allowed {
                    let from = refunded.counts_from(ask.now);
                    refunded.charge(mistake);
                    let from = if by_outcome { charged_from(&refunded, mistake) } else { from };
                    lent = Some(Lent { ask: mistake, from, requests });
                }
            }
        }
    }
}

/// From when on a charge counts, as far as its outcome says.
fn charged_from(subject: &Subject, charged: Ask) -> Timestamp {
    let outcome = subject.report(charged, Ruling::alone(Verdict::Allowed));
    let counter = Counter::new("refunds", 0, subject.limit().clone());
    let plan = Plan::of_one(Charge::new(b"key", &counter, charged.cost));
    ChargedAt::of(&plan, &[outcome], charged.now).counts_from(counter.algorithm())
}
