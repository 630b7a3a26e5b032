//! A refund undoes a charge. Where the limits of a plan are on several servers, one limit may be charged before another
//! denies, and is then refunded.
//!
//! Two keys get the same requests. One of them also gets charges that are refunded, immediately or when the next
//! request comes. Afterwards both keys decide the same. Only charges that fit are refunded, and only by a clock that
//! does not step back before them.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::algorithm::Align;
use tidegate_core::{
    AlgorithmName, Charge, ChargeDecision, ChargedAt, Counter, LimitSpec, OutcomeKind, Plan, TimedCost,
    Timestamp,
};

use crate::properties::requests::requests;
use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

/// A charge that will be refunded: the share of what remains, in 1/256, and whether immediately.
#[derive(Clone, Copy, Debug)]
struct WrongCharge {
    share: u8,
    immediately: bool,
}

fn wrong_charge() -> impl Strategy<Value = WrongCharge> {
    any::<(u8, bool)>().prop_map(|(share, immediately)| WrongCharge { share, immediately })
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
        let mut driver = requests.ordered_driver(&spec);
        let mut mistakes = mistakes.into_iter();
        let mut pending_cost = None;
        while let Some(request) = driver.next_request() {
            if let Some(cost) = pending_cost.take() {
                refunded.refund(TimedCost { cost, ..request });
            }
            let outcome = plain.decide(request);
            prop_assert_eq!(refunded.decide(request), outcome, "{:?}", request);
            driver.observe(outcome);

            let Some(WrongCharge { share, immediately }) = mistakes.next() else { break };
            let cost = outcome.remaining / 256 * u64::from(share) + outcome.remaining % 256 * u64::from(share) / 256;
            let mistake = TimedCost { cost, ..request };
            if cost > 0 && refunded.outcome_kind(mistake) == OutcomeKind::Allowed {
                refunded.charge(mistake);
                if immediately {
                    refunded.refund(mistake);
                } else {
                    pending_cost = Some(cost);
                }
            }
        }
    }
}

/// A charge that is refunded after some more requests.
#[derive(Clone, Copy, Debug)]
struct PendingRefund {
    request: TimedCost,
    from: Timestamp,
    requests: u8,
}

/// Windows that begin with the first hit may begin with the refunded charge. Limits that count attempts are not
/// refunded.
fn refundable_in_any_order() -> impl Strategy<Value = LimitSpec> {
    limits::refundable()
        .prop_map(|spec| LimitSpec { count_denied: None, ..spec })
        .prop_filter("first hit", |spec| spec.align != Some(Align::FirstHit))
}

proptest! {
    #![proptest_config(proptest_config(1_500))]

    /// Other requests come between a charge and its refund. After the refund, no request is admitted that would be
    /// denied if the charge had never been made. For a sliding log, which knows the time of each unit, every request is
    /// admitted that would be.
    #[test]
    fn a_refund_between_other_requests_takes_nothing_from_them(
        spec in refundable_in_any_order(),
        requests in requests(),
        mistakes in vec((any::<u8>(), 0..6_u8), 48),
        by_outcome in any::<bool>(),
    ) {
        let mut plain = Subject::from_spec(&spec);
        let mut refunded = plain.clone();
        let mut driver = requests.ordered_driver(&spec);
        let mut mistakes = mistakes.into_iter();
        let mut pending: Option<PendingRefund> = None;
        while let Some(request) = driver.next_request() {
            match pending.take() {
                Some(PendingRefund { request: TimedCost { cost, .. }, from, requests: 0 }) => {
                    refunded.refund_charged(TimedCost { cost, ..request }, from);
                }
                Some(refund) => pending = Some(PendingRefund { requests: refund.requests - 1, ..refund }),
                None => {}
            }
            let outcome = refunded.decide(request);
            if outcome.kind == OutcomeKind::Allowed {
                prop_assert_eq!(plain.decide(request).kind, OutcomeKind::Allowed, "{:?}", request);
            }
            driver.observe(outcome);
            if pending.is_none() {
                let (left, would_be) = (refunded.remaining(request.now), plain.remaining(request.now));
                prop_assert!(left <= would_be, "{left} instead of {would_be} at {request:?}");
                if spec.algorithm == Some(AlgorithmName::SlidingLog) {
                    prop_assert_eq!(left, would_be);
                }
                let Some((share, requests)) = mistakes.next() else { break };
                let cost = left / 256 * u64::from(share) + left % 256 * u64::from(share) / 256;
                let mistake = TimedCost { cost, ..request };
                if cost > 0 && refunded.outcome_kind(mistake) == OutcomeKind::Allowed {
                    let from = refunded.counts_from(request.now);
                    refunded.charge(mistake);
                    let from = if by_outcome { charged_from(&refunded, mistake) } else { from };
                    pending = Some(PendingRefund { request: mistake, from, requests });
                }
            }
        }
    }
}

/// The instant from which a charge counts, as far as its outcome says.
fn charged_from(subject: &Subject, charged: TimedCost) -> Timestamp {
    let outcome = subject.outcome(charged, ChargeDecision::of_one(OutcomeKind::Allowed));
    let counter = Counter::new("refunds", 0, subject.limit().clone());
    let plan = Plan::of_one(Charge::new(b"key", &counter, charged.cost));
    ChargedAt::from_outcomes(&plan, &[outcome], charged.now).counted_from(counter.algorithm())
}
