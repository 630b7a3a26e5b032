//! A refund undoes a charge: where the limits of a plan live apart, one that fits is charged before another is
//! known to deny, and given back.
//!
//! Two keys get the same requests, and one of them also charges that are taken back, at once or when the next
//! request comes. From then on nobody can tell them apart. Only charges that fit are ever taken back, and only
//! by a clock that does not step back behind them.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Ask, Verdict};

use crate::requests::requests;
use crate::subject::Subject;
use crate::{cases, limits};

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
    #![proptest_config(cases(3_000))]

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
