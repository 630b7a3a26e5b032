//! The most that each algorithm admits, whatever requests come, and the most that it stores.
//!
//! People choose an algorithm by these bounds. So they are checked on the admitted requests directly, not by comparing
//! with a model.

use proptest::prelude::*;
use tidegate_core::algorithm::Align;
use tidegate_core::{AlgorithmName, LimitSpec, OutcomeKind};

use crate::models::Event;
use crate::properties::against_models::event;
use crate::properties::requests::{Requests, requests};
use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

/// The requests that `spec` admits, with a clock that does not step back.
pub fn admitted(spec: &LimitSpec, requests: Requests) -> Vec<Event> {
    let mut subject = Subject::from_spec(spec);
    let mut driver = requests.ordered_driver(spec);
    let mut admitted = Vec::new();
    while let Some(request) = driver.next_request() {
        let outcome = subject.decide(request);
        if outcome.kind == OutcomeKind::Allowed {
            admitted.push(event(request));
        }
        driver.observe(outcome);
    }
    admitted
}

/// Every run of consecutive requests: the time from its first to its last, and their total cost.
fn spans(admitted: &[Event]) -> impl Iterator<Item = (u128, u128)> + '_ {
    admitted.iter().enumerate().flat_map(move |(from, first)| {
        let mut units = 0;
        admitted[from..].iter().map(move |last| {
            units += u128::from(last.cost);
            (last.at - first.at, units)
        })
    })
}

/// The most units in any span shorter than `window`.
pub fn most_in(window: u128, admitted: &[Event]) -> u128 {
    spans(admitted).filter(|(span, _)| *span < window).map(|(_, units)| units).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(proptest_config(400))]

    #[test]
    fn gcra_lets_a_burst_and_the_rate_through(
        spec in limits::of(AlgorithmName::Gcra),
        requests in requests(),
    ) {
        let (limit, window) = (u128::from(spec.limit), u128::from(spec.per_ns));
        let burst = u128::from(spec.burst.unwrap_or(spec.limit));
        for (span, units) in spans(&admitted(&spec, requests)) {
            prop_assert!(units <= burst + limit * span / window, "{} units in {}ns", units, span);
        }
    }

    /// Departures are whole intervals apart, except for the rounding of both to nanoseconds.
    #[test]
    fn a_leaky_bucket_leaks_evenly(spec in limits::of(AlgorithmName::LeakyBucket), requests in requests()) {
        let (limit, window) = (u128::from(spec.limit), u128::from(spec.per_ns));
        let mut subject = Subject::from_spec(&spec);
        let mut driver = requests.ordered_driver(&spec);
        let mut last_left = None;
        while let Some(request) = driver.next_request() {
            let outcome = subject.decide(request);
            if outcome.kind == OutcomeKind::Allowed && request.cost > 0 {
                let leaves = u128::from(request.now.as_nanos()) + outcome.delay.get();
                if let Some(last) = last_left {
                    prop_assert!(leaves - last >= u128::from(request.cost) * window / limit);
                }
                last_left = Some(leaves);
            }
            driver.observe(outcome);
        }
    }

    /// Two borders around a day of 23 hours are less than W apart, so three windows meet within W.
    #[test]
    fn a_fixed_window_lets_twice_the_limit_through(
        spec in limits::of(AlgorithmName::FixedWindow),
        requests in requests(),
    ) {
        let windows = if matches!(spec.align, Some(Align::Calendar(_))) { 3 } else { 2 };
        let most = most_in(spec.per_ns.into(), &admitted(&spec, requests));
        prop_assert!(most <= windows * u128::from(spec.limit));
    }

    #[test]
    fn a_sliding_window_lets_less_than_twice_the_limit_through(
        spec in limits::of(AlgorithmName::SlidingWindow),
        requests in requests(),
    ) {
        let most = most_in(spec.per_ns.into(), &admitted(&spec, requests));
        prop_assert!(most < 2 * u128::from(spec.limit) || spec.limit == 0 && most == 0);
    }

    #[test]
    fn a_sliding_log_lets_no_more_than_the_limit_through(
        spec in limits::of(AlgorithmName::SlidingLog),
        requests in requests(),
    ) {
        let admitted = admitted(&spec, requests);
        prop_assert!(most_in(spec.per_ns.into(), &admitted) <= spec.limit.into());
        let min_interval = u128::from(spec.min_interval_ns.unwrap_or(0));
        let paid: Vec<Event> = admitted.into_iter().filter(|event| event.cost > 0).collect();
        for pair in paid.windows(2) {
            prop_assert!(pair[1].at - pair[0].at >= min_interval);
        }
    }

    #[test]
    fn strict_sub_windows_let_no_more_than_the_limit_through(
        spec in limits::of(AlgorithmName::SubWindows),
        requests in requests(),
    ) {
        let spec = LimitSpec { strict: None, ..spec };
        prop_assert!(most_in(spec.per_ns.into(), &admitted(&spec, requests)) <= spec.limit.into());
    }

    /// Twice the limit in W, and the limit in what n - 1 sub-windows span.
    #[test]
    fn lenient_sub_windows_keep_the_limit_in_one_sub_window_less(
        spec in limits::of(AlgorithmName::SubWindows),
        requests in requests(),
    ) {
        let spec = LimitSpec { strict: Some(false), ..spec };
        let (window, number) = (u128::from(spec.per_ns), u128::from(spec.sub_windows.unwrap_or(60)));
        let admitted = admitted(&spec, requests);
        prop_assert!(most_in(window, &admitted) <= 2 * u128::from(spec.limit));
        prop_assert!(most_in(window - window.div_ceil(number), &admitted) <= spec.limit.into());
    }

    #[test]
    fn a_usage_log_is_bounded(
        spec in prop_oneof![limits::of(AlgorithmName::SlidingLog), limits::of(AlgorithmName::SubWindows)],
        requests in requests(),
    ) {
        let entries_max = match spec.algorithm {
            Some(AlgorithmName::SubWindows) => spec.sub_windows.unwrap_or(60) + 1,
            _ => spec.limit + 1,
        };
        let mut subject = Subject::from_spec(&spec);
        let mut driver = requests.driver(&spec);
        while let Some(request) = driver.next_request() {
            driver.observe(subject.decide(request));
            prop_assert!(subject.usage_log().len() as u64 <= entries_max);
        }
    }
}
