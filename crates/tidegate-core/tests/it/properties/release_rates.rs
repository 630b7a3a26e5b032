//! A waiting request is released no earlier than the release rate says. For buckets and plain windows exactly then.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::algorithm::Align;
use tidegate_core::{AlgorithmName, LimitSpec, OutcomeKind, TimedCost, Timestamp, Wait};

use crate::properties::requests::requests;
use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

/// How much later than forecast a request may be released, in nanoseconds: the wait of each request is rounded up.
fn late_ns_max(spec: &LimitSpec, number: usize) -> Option<u64> {
    match spec.algorithm {
        Some(AlgorithmName::Gcra | AlgorithmName::TokenBucket | AlgorithmName::LeakyBucket) => {
            Some(number as u64 + 1)
        }
        Some(AlgorithmName::FixedWindow) if !matches!(spec.align, Some(Align::Calendar(_))) => Some(0),
        _ => None,
    }
}

/// Makes requests of this cost until one does not fit, and returns when it would.
fn first_waiting(subject: &mut Subject, request: TimedCost) -> Option<Timestamp> {
    const TRIES_MAX: u32 = 64;
    for _ in 0..TRIES_MAX {
        match subject.wait(request) {
            Wait::NONE => subject.charge(request),
            wait => return wait.span().map(|wait| request.now.saturating_add(wait)),
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
        let mut driver = requests.ordered_driver(&spec);
        let mut now = Timestamp::from_nanos(0);
        while let Some(request) = driver.next_request() {
            let outcome = subject.decide(request);
            driver.observe(outcome);
            now = request.now;
        }
        let capacity = subject.limit().capacity();
        let cost = |part: u8| capacity * u64::from(part) / 256 + 1;
        let first = TimedCost { now, cost: cost(parts[0]) };
        let Some(mut release_rate) = subject.limit().release_rate_after(first.cost) else {
            prop_assert_eq!(spec.algorithm, Some(AlgorithmName::Concurrency));
            return Ok(());
        };
        // Representable time ends.
        let has_time = |instant: &Timestamp| instant.as_nanos() < u64::MAX;
        let Some(due) = first_waiting(&mut subject, first).filter(has_time) else { return Ok(()) };
        prop_assert_eq!(subject.decide(TimedCost { now: due, ..first }).kind, OutcomeKind::Allowed);
        let mut last_release = due;
        for (number, part) in parts[1..].iter().enumerate() {
            let cost = cost(*part);
            let Some(wait) = subject.wait(TimedCost { now: last_release, cost }).span() else { break };
            let (released, forecast) = (last_release.saturating_add(wait), due.saturating_add(release_rate.release_next(cost)));
            if !has_time(&released) {
                break;
            }
            prop_assert!(released >= forecast, "{:?} is released at {:?}, before {:?}", number, released, forecast);
            if let Some(late_ns_max) = late_ns_max(&spec, number) {
                prop_assert!(released.as_nanos() - forecast.as_nanos() <= late_ns_max, "{released:?} {forecast:?}");
            }
            prop_assert_eq!(subject.decide(TimedCost { now: released, cost }).kind, OutcomeKind::Allowed);
            last_release = released;
        }
    }

    /// The capacity of a limit fits a key never seen, and one unit more never fits.
    #[test]
    fn a_limit_admits_its_capacity_and_no_more(spec in limits::any_algorithm(), now_ns in any::<u64>()) {
        let capacity = Subject::from_spec(&spec).limit().capacity();
        let request = |cost| TimedCost { now: Timestamp::from_nanos(now_ns), cost };
        prop_assert_eq!(Subject::from_spec(&spec).outcome_kind(request(capacity)), OutcomeKind::Allowed);
        prop_assert_eq!(Subject::from_spec(&spec).outcome_kind(request(capacity + 1)), OutcomeKind::Denied);
        prop_assert_eq!(Subject::from_spec(&spec).wait(request(capacity + 1)), Wait::NEVER);
    }
}
