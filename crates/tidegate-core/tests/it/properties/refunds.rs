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
    AlgorithmName, TimedCost, Charge, ChargedAt, Counter, LimitSpec, Plan, ChargeDecision, Timestamp, OutcomeKind,
};

use crate::properties::requests::requests;
use crate::properties::{proptest_config, limits};
use crate::subject::Subject;

/// A charge that will be taken back: how much of what remains, in 1/256, and whether at once.
#[derive(Clone, Copy, Debug)]
struct WrongCharge {
    share: u8,
    at_once: bool,
}

fn wrong_charge() -> impl Strategy<Value = WrongCharge> {
    any::<(u8, bool)>().prop_map(|(share, at_once)| WrongCharge { share, at_once })
}

proptest! {
    #![proptest_config(proptest_config(750))]

    #[test]
    fn a_refund_undoes_a_charge(
        spec in limits::refundable(),
        requests in requests(),
        mistakes in vec(wrong_charge(), 48),
    ) {
        let mut plain = Subject::from_spec(&spec);
        let mut refunded = plain.clone();
        let mut caller = requests.ordered_driver(&spec);
        let mut mistakes = mistakes.into_iter();
        let mut owed = None;
        while let Some(ask) = caller.next_cost() {
            if let Some(cost) = owed.take() {
                refunded.refund(TimedCost { cost, ..ask });
            }
            let outcome = plain.decide(ask);
            prop_assert_eq!(refunded.decide(ask), outcome, "{:?}", ask);
            caller.observe(outcome);

            let Some(WrongCharge { share, at_once }) = mistakes.next() else { break };
            let cost = outcome.remaining / 256 * u64::from(share) + outcome.remaining % 256 * u64::from(share) / 256;
            let mistake = TimedCost { cost, ..ask };
            if cost > 0 && refunded.outcome_kind(mistake) == OutcomeKind::Allowed {
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
struct PendingRefund {
    ask: TimedCost,
    from: Timestamp,
    requests: u8,
}

/// Windows that begin with the first hit may begin with the mistake. What counts attempts is not given back.
fn refundable_in_any_order() -> impl Strategy<Value = LimitSpec> {
    limits::refundable()
        .prop_map(|spec| LimitSpec { count_denied: None, ..spec })
        .prop_filter("first hit", |spec| spec.align != Some(Align::FirstHit))
}

proptest! {
    #![proptest_config(proptest_config(1_500))]

    /// Others go on between a charge and its refund. After it nobody is admitted who would not have been, had it never
    /// been charged; and where units are told apart by when they were used, everybody is who would have been.
    #[test]
    fn a_refund_between_other_requests_takes_nothing_from_them(
        spec in refundable_in_any_order(),
        requests in requests(),
        mistakes in vec((any::<u8>(), 0..6_u8), 48),
        by_outcome in any::<bool>(),
    ) {
        let mut plain = Subject::from_spec(&spec);
        let mut refunded = plain.clone();
        let mut caller = requests.ordered_driver(&spec);
        let mut mistakes = mistakes.into_iter();
        let mut lent: Option<PendingRefund> = None;
        while let Some(ask) = caller.next_cost() {
            match lent.take() {
                Some(PendingRefund { ask: TimedCost { cost, .. }, from, requests: 0 }) => {
                    refunded.refund_charged(TimedCost { cost, ..ask }, from);
                }
                Some(waits) => lent = Some(PendingRefund { requests: waits.requests - 1, ..waits }),
                None => {}
            }
            let outcome = refunded.decide(ask);
            if outcome.kind == OutcomeKind::Allowed {
                prop_assert_eq!(plain.decide(ask).kind, OutcomeKind::Allowed, "{:?}", ask);
            }
            caller.observe(outcome);
            if lent.is_none() {
                let (left, would_be) = (refunded.remaining(ask.now), plain.remaining(ask.now));
                prop_assert!(left <= would_be, "{left} instead of {would_be} at {ask:?}");
                if spec.algorithm == Some(AlgorithmName::SlidingLog) {
                    prop_assert_eq!(left, would_be);
                }
                let Some((share, requests)) = mistakes.next() else { break };
                let cost = left / 256 * u64::from(share) + left % 256 * u64::from(share) / 256;
                let mistake = TimedCost { cost, ..ask };
                if cost > 0 && refunded.outcome_kind(mistake) == OutcomeKind::Allowed {
                    let from = refunded.counts_from(ask.now);
                    refunded.charge(mistake);
                    let from = if by_outcome { charged_from(&refunded, mistake) } else { from };
                    lent = Some(PendingRefund { ask: mistake, from, requests });
                }
            }
        }
    }
}

/// From when on a charge counts, as far as its outcome says.
fn charged_from(subject: &Subject, charged: TimedCost) -> Timestamp {
    let outcome = subject.outcome(charged, ChargeDecision::of_one(OutcomeKind::Allowed));
    let counter = Counter::new("refunds", 0, subject.limit().clone());
    let plan = Plan::of_one(Charge::new(b"key", &counter, charged.cost));
    ChargedAt::from_outcomes(&plan, &[outcome], charged.now).counted_from(counter.algorithm())
}
