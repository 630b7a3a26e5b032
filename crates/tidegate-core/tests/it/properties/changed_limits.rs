//! A change of L or burst never hands out a fresh window.

use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::{AlgorithmName, TimedCost, LimitSpec, Nanos, OutcomeKind, Wait};

use crate::models::ModelKey;
use crate::models::judge::verify_outcome;
use crate::properties::against_models::event;
use crate::properties::proptest_config;
use crate::properties::no_panics::change_of_limit;
use crate::properties::requests::requests;
use crate::subject::Subject;

/// Of a log that counts denied attempts only what can matter is kept, and more can matter to a higher limit:
/// such a log keeps its counts when the limit is lowered.
fn lowered_if_the_log_counts_denied((before, after): (LimitSpec, LimitSpec)) -> (LimitSpec, LimitSpec) {
    let after = LimitSpec { count_denied: before.count_denied, strict: before.strict, ..after };
    let log_counts_denied =
        before.algorithm == Some(AlgorithmName::SlidingLog) && before.count_denied == Some(true);
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

    /// What was counted under one limit counts under the next as if it had always been the one.
    #[test]
    fn windows_keep_their_counts(
        (before, after) in change_of_window_limit(),
        requests in requests(),
        changes_at in 1..24_usize,
    ) {
        let mut subject = Subject::from_spec(&before);
        let mut key = ModelKey::new(&before);
        let mut caller = requests.driver(&before);
        for place in 0.. {
            if place == changes_at {
                subject.change_limit(&after);
                key = key.with_limit(&after);
            }
            let Some(ask) = caller.next_cost() else { break };
            let outcome = subject.decide(ask);
            key = verify_outcome(&key, event(ask), &outcome);
            caller.observe(outcome);
        }
    }

    /// The arrival time stays, to the nanosecond: what a fraction of one means depends on L. So the same share
    /// of the burst stays used, and a wait is the arrival time less what the burst allows.
    #[test]
    fn gcra_keeps_its_arrival_time(
        (before, after) in change_of_gcra(),
        requests in requests(),
        cost in prop_oneof![0..10_u64, any::<u64>()],
    ) {
        let mut subject = Subject::from_spec(&before);
        let mut caller = requests.ordered_driver(&before);
        let mut last = None;
        while let Some(ask) = caller.next_cost() {
            let outcome = subject.decide(ask);
            caller.observe(outcome);
            last = Some((ask.now, outcome));
        }
        let Some((now, outcome)) = last else { return Ok(()) };
        subject.change_limit(&after);

        let ahead_ns = outcome.reset_after.get();
        let kept_ns = subject.reset_after(now).get();
        prop_assert!(kept_ns.abs_diff(ahead_ns) <= 1, "{} ahead, then {}", ahead_ns, kept_ns);

        let burst = after.burst.unwrap_or(after.limit);
        let whole_burst = subject.wait(TimedCost { now, cost: burst });
        prop_assert_eq!(whole_burst, Wait::of(Nanos::new(kept_ns)), "the burst fits when all is as new");
        let ask = TimedCost { now, cost };
        let Some(room) = burst.checked_sub(cost) else {
            prop_assert_eq!(subject.wait(ask).span(), None);
            return Ok(());
        };
        // The arrival time may lie this far ahead and the cost still fits; between the two lies the wait.
        let tolerated_ns = u128::from(room) * u128::from(after.per_ns) / u128::from(after.limit);
        let wait_ns = ahead_ns.saturating_sub(tolerated_ns);
        let said_ns = subject.wait(ask).span().map(Nanos::get);
        prop_assert!(said_ns.is_some_and(|said| said.abs_diff(wait_ns) <= 1), "{:?} for {}", said_ns, wait_ns);
        if wait_ns > 1 {
            prop_assert_eq!(subject.outcome_kind(ask), OutcomeKind::Denied);
        } else if ahead_ns < tolerated_ns {
            prop_assert_eq!(subject.outcome_kind(ask), OutcomeKind::Allowed);
        }
    }
}
