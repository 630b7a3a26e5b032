//! A change of L or burst never gives a fresh window.

use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::algorithm::CountDenied;
use tidegate_core::{AlgorithmName, LimitSpec, Nanos, OutcomeKind, TimedCost, Wait};

use crate::models::ModelKey;
use crate::models::verify::verify_outcome;
use crate::properties::against_models::event;
use crate::properties::no_panics::change_of_limit;
use crate::properties::proptest_config;
use crate::properties::requests::requests;
use crate::subject::Subject;

/// A log that counts denied attempts keeps only what can matter, and more can matter to a higher limit. So such a log
/// keeps its counts only when the limit is lowered.
fn lowered_if_the_log_counts_denied((before, after): (LimitSpec, LimitSpec)) -> (LimitSpec, LimitSpec) {
    let after = LimitSpec { count_denied: before.count_denied, strict: before.strict, ..after };
    let log_counts_denied = before.algorithm == Some(AlgorithmName::SlidingLog)
        && before.count_denied.unwrap_or_default() != CountDenied::Never;
    if log_counts_denied && after.limit > before.limit { (after, before) } else { (before, after) }
}

fn change_of_window_limit() -> impl Strategy<Value = (LimitSpec, LimitSpec)> {
    let algorithm = select(vec![
        AlgorithmName::FixedWindow,
        AlgorithmName::SlidingLog,
        AlgorithmName::SlidingWindow,
        AlgorithmName::SubWindows,
    ]);
    algorithm.prop_flat_map(change_of_limit).prop_map(lowered_if_the_log_counts_denied)
}

fn change_of_gcra() -> impl Strategy<Value = (LimitSpec, LimitSpec)> {
    let algorithm = select(vec![AlgorithmName::Gcra, AlgorithmName::TokenBucket]);
    algorithm
        .prop_flat_map(change_of_limit)
        .prop_filter("limit 0 has no arrival time", |(before, after)| before.limit > 0 && after.limit > 0)
}

proptest! {
    #![proptest_config(proptest_config(750))]

    /// Units that were counted under one limit count under the next, as if it had always been the limit.
    #[test]
    fn windows_keep_their_counts(
        (before, after) in change_of_window_limit(),
        requests in requests(),
        changes_at in 1..24_usize,
    ) {
        let mut subject = Subject::from_spec(&before);
        let mut key = ModelKey::new(&before);
        let mut driver = requests.driver(&before);
        for number in 0.. {
            if number == changes_at {
                subject.change_limit(&after);
                key = key.with_limit(&after);
            }
            let Some(request) = driver.next_request() else { break };
            let outcome = subject.decide(request);
            key = verify_outcome(&key, event(request), &outcome);
            driver.observe(outcome);
        }
    }

    /// The arrival time stays, to the nanosecond, because a fraction of one depends on L. So the same share of the
    /// burst stays used, and a wait is the arrival time minus what the burst allows.
    #[test]
    fn gcra_keeps_its_arrival_time(
        (before, after) in change_of_gcra(),
        requests in requests(),
        cost in prop_oneof![0..10_u64, any::<u64>()],
    ) {
        let mut subject = Subject::from_spec(&before);
        let mut driver = requests.ordered_driver(&before);
        let mut last = None;
        while let Some(request) = driver.next_request() {
            let outcome = subject.decide(request);
            driver.observe(outcome);
            last = Some((request.now, outcome));
        }
        let Some((now, outcome)) = last else { return Ok(()) };
        subject.change_limit(&after);

        let ahead_ns = outcome.reset_after.get();
        let still_ahead_ns = subject.reset_after(now).get();
        prop_assert!(still_ahead_ns.abs_diff(ahead_ns) <= 1, "{} ahead, then {}", ahead_ns, still_ahead_ns);

        let burst = after.burst.unwrap_or(after.limit);
        let whole_burst = subject.wait(TimedCost { now, cost: burst });
        prop_assert_eq!(whole_burst, Wait::of(Nanos::new(still_ahead_ns)), "the whole burst fits at the reset");
        let request = TimedCost { now, cost };
        let Some(room) = burst.checked_sub(cost) else {
            prop_assert_eq!(subject.wait(request).span(), None);
            return Ok(());
        };
        // The arrival time may be this far ahead and the cost still fits. The wait is the difference.
        let tolerated_ns = u128::from(room) * u128::from(after.per_ns) / u128::from(after.limit);
        let wait_ns = ahead_ns.saturating_sub(tolerated_ns);
        let actual_ns = subject.wait(request).span().map(Nanos::get);
        prop_assert!(actual_ns.is_some_and(|actual| actual.abs_diff(wait_ns) <= 1), "{:?} for {}", actual_ns, wait_ns);
        if wait_ns > 1 {
            prop_assert_eq!(subject.outcome_kind(request), OutcomeKind::Denied);
        } else if ahead_ns < tolerated_ns {
            prop_assert_eq!(subject.outcome_kind(request), OutcomeKind::Allowed);
        }
    }
}
