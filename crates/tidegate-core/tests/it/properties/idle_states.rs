//! Which states a store may drop.
//!
//! A store asks a state, without knowing its limit, whether it is idle. A yes that is too early would admit units
//! again. A no that is too late only costs memory, but it must become a yes.

use proptest::prelude::*;
use tidegate_core::{AlgorithmName, PackedState, Timestamp};

use crate::properties::requests::requests;
use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

/// How long a state may claim to matter after it no longer does: half a millisecond, in bits.
const LATE_NS: u64 = 1 << 19;

fn packed_algorithm() -> impl Strategy<Value = AlgorithmName> {
    proptest::sample::select(vec![
        AlgorithmName::Gcra,
        AlgorithmName::TokenBucket,
        AlgorithmName::LeakyBucket,
        AlgorithmName::FixedWindow,
        AlgorithmName::SlidingWindow,
    ])
}

proptest! {
    #![proptest_config(proptest_config(400))]

    #[test]
    fn a_state_is_idle_from_its_reset_on(
        spec in packed_algorithm().prop_flat_map(limits::of),
        requests in requests(),
        early_ns in 0..=2 * LATE_NS,
    ) {
        let mut subject = Subject::from_spec(&spec);
        let mut driver = requests.ordered_driver(&spec);
        while let Some(request) = driver.next_request() {
            let outcome = subject.decide(request);
            driver.observe(outcome);
            let reset_at = u128::from(request.now.as_nanos()) + outcome.reset_after.get();
            let Ok(reset_at) = u64::try_from(reset_at) else {
                prop_assert!(!subject.packed().is_idle_at(Timestamp::from_nanos(u64::MAX)));
                continue;
            };
            for early_ns in [1, early_ns] {
                let before = Timestamp::from_nanos(reset_at.saturating_sub(early_ns)).max(request.now);
                let idle = subject.packed().is_idle_at(before);
                prop_assert!(!idle || before.as_nanos() >= reset_at, "idle {}ns before its reset", early_ns);
            }
            if let Some(late) = reset_at.checked_add(LATE_NS) {
                prop_assert!(subject.packed().is_idle_at(Timestamp::from_nanos(late)), "idle too late");
            }
        }
    }
}

#[test]
fn a_key_never_seen_is_idle() {
    assert!(PackedState::NEVER_SEEN.is_idle_at(Timestamp::from_nanos(0)));
    assert_eq!(PackedState::default(), PackedState::NEVER_SEEN);
}
