//! Who stands in line for a limit leaves no sooner than its pace says; buckets and plain windows exactly then.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::algorithm::Align;
use tidegate_core::{AlgorithmName, Ask, LimitSpec, Timestamp, Verdict, Wait};

use crate::properties::requests::requests;
use crate::properties::{cases, limits};
use crate::subject::Subject;

/// How much later than was said somebody may leave, in nanoseconds: waits are rounded up, of each one in line.
fn late_ns_max(spec: &LimitSpec, place: usize) -> Option<u64> {
    match spec.algorithm {
        Some(AlgorithmName::Gcra | AlgorithmName::TokenBucket | AlgorithmName::LeakyBucket) => {
            Some(place as u64 + 1)
        }
        Some(AlgorithmName::FixedWindow) if !matches!(spec.align, Some(Align::Calendar(_))) => Some(0),
        _ => None,
    }
}

/// The first request, of those of this cost, that does not fit, after all that do have been made.
fn first_that_waits(subject: &mut Subject, ask: Ask) -> Option<Timestamp> {
    const TRIES_MAX: u32 = 64;
    for _ in 0..TRIES_MAX {
        match subject.wait(ask) {
            Wait::NONE => subject.charge(ask),
            wait => return wait.span().map(|wait| ask.now.saturating_add(wait)),
        }
    }
    None
}

proptest! {
    #![proptest_config(cases(750))]

    #[test]
    fn nobody_leaves_sooner_than_the_pace_says(
        spec in limits::any_algorithm(),
        requests in requests(),
        parts in vec(any::<u8>(), 1..12),
    ) {
        let mut subject = Subject::of(&spec);
        let mut caller = requests.in_order_to(&spec);
        let mut now = Timestamp::from_nanos(0);
        while let Some(ask) = caller.next_ask() {
            let outcome = subject.decide(ask);
            caller.hear(outcome);
            now = ask.now;
        }
        let capacity = subject.limit().capacity();
        let cost = |part: u8| capacity * u64::from(part) / 256 + 1;
        let first = Ask { now, cost: cost(parts[0]) };
        let Some(mut pace) = subject.limit().pace_after(first.cost) else {
            prop_assert_eq!(spec.algorithm, Some(AlgorithmName::Concurrency));
            return Ok(());
        };
        // Time itself ends.
        let has_time = |instant: &Timestamp| instant.as_nanos() < u64::MAX;
        let Some(due) = first_that_waits(&mut subject, first).filter(has_time) else { return Ok(()) };
        prop_assert_eq!(subject.decide(Ask { now: due, ..first }).verdict, Verdict::Allowed);
        let mut left = due;
        for (place, part) in parts[1..].iter().enumerate() {
            let cost = cost(*part);
            let Some(wait) = subject.wait(Ask { now: left, cost }).span() else { break };
            let (leaves, told) = (left.saturating_add(wait), due.saturating_add(pace.follow(cost)));
            if !has_time(&leaves) {
                break;
            }
            prop_assert!(leaves >= told, "{:?} leaves at {:?}, before {:?}", place, leaves, told);
            if let Some(late_ns_max) = late_ns_max(&spec, place) {
                prop_assert!(leaves.as_nanos() - told.as_nanos() <= late_ns_max, "{leaves:?} {told:?}");
            }
            prop_assert_eq!(subject.decide(Ask { now: leaves, cost }).verdict, Verdict::Allowed);
            left = leaves;
        }
    }

    /// What a limit holds fits a key never seen, and what is one more never does.
    #[test]
    fn a_limit_admits_its_capacity_and_no_more(spec in limits::any_algorithm(), now_ns in any::<u64>()) {
        let capacity = Subject::of(&spec).limit().capacity();
        let ask = |cost| Ask { now: Timestamp::from_nanos(now_ns), cost };
        prop_assert_eq!(Subject::of(&spec).weigh(ask(capacity)), Verdict::Allowed);
        prop_assert_eq!(Subject::of(&spec).weigh(ask(capacity + 1)), Verdict::Denied);
        prop_assert_eq!(Subject::of(&spec).wait(ask(capacity + 1)), Wait::NEVER);
    }
}
