//! Who stands in line for a limit leaves no sooner than its pace says; buckets and plain windows exactly then.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::algorithm::Align;
use tidegate_core::{AlgorithmName, TimedCost, LimitSpec, Timestamp, OutcomeKind, Wait};

use crate::properties::requests::requests;
use crate::properties::{proptest_config, limits};
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
fn first_waiting(subject: &mut Subject, ask: TimedCost) -> Option<Timestamp> {
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
    #![proptest_config(proptest_config(750))]

    #[test]
    fn no_request_is_released_before_the_release_rate_allows(
        spec in limits::any_algorithm(),
        requests in requests(),
        parts in vec(any::<u8>(), 1..12),
    ) {
        let mut subject = Subject::from_spec(&spec);
        let mut caller = requests.ordered_driver(&spec);
        let mut now = Timestamp::from_nanos(0);
        while let Some(ask) = caller.next_cost() {
            let outcome = subject.decide(ask);
            caller.observe(outcome);
            now = ask.now;
        }
        let capacity = subject.limit().capacity();
        let cost = |part: u8| capacity * u64::from(part) / 256 + 1;
        let first = TimedCost { now, cost: cost(parts[0]) };
        let Some(mut pace) = subject.limit().release_rate_after(first.cost) else {
            prop_assert_eq!(spec.algorithm, Some(AlgorithmName::Concurrency));
            return Ok(());
        };
        // Time itself ends.
        let has_time = |instant: &Timestamp| instant.as_nanos() < u64::MAX;
        let Some(due) = first_waiting(&mut subject, first).filter(has_time) else { return Ok(()) };
        prop_assert_eq!(subject.decide(TimedCost { now: due, ..first }).kind, OutcomeKind::Allowed);
        let mut left = due;
        for (place, part) in parts[1..].iter().enumerate() {
            let cost = cost(*part);
            let Some(wait) = subject.wait(TimedCost { now: left, cost }).span() else { break };
            let (leaves, told) = (left.saturating_add(wait), due.saturating_add(pace.release_next(cost)));
            if !has_time(&leaves) {
                break;
            }
            prop_assert!(leaves >= told, "{:?} leaves at {:?}, before {:?}", place, leaves, told);
            if let Some(late_ns_max) = late_ns_max(&spec, place) {
                prop_assert!(leaves.as_nanos() - told.as_nanos() <= late_ns_max, "{leaves:?} {told:?}");
            }
            prop_assert_eq!(subject.decide(TimedCost { now: leaves, cost }).kind, OutcomeKind::Allowed);
            left = leaves;
        }
    }

    /// What a limit holds fits a key never seen, and what is one more never does.
    #[test]
    fn a_limit_admits_its_capacity_and_no_more(spec in limits::any_algorithm(), now_ns in any::<u64>()) {
        let capacity = Subject::from_spec(&spec).limit().capacity();
        let ask = |cost| TimedCost { now: Timestamp::from_nanos(now_ns), cost };
        prop_assert_eq!(Subject::from_spec(&spec).outcome_kind(ask(capacity)), OutcomeKind::Allowed);
        prop_assert_eq!(Subject::from_spec(&spec).outcome_kind(ask(capacity + 1)), OutcomeKind::Denied);
        prop_assert_eq!(Subject::from_spec(&spec).wait(ask(capacity + 1)), Wait::NEVER);
    }
}
