//! Each algorithm against its model: the decision, and every number of the outcome.

use proptest::prelude::*;
use tidegate_core::{AlgorithmName, LimitSpec, TimedCost};

use crate::models::verify::verify_outcome;
use crate::models::{Event, ModelKey};
use crate::properties::requests::{Requests, requests};
use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

pub fn event(request: TimedCost) -> Event {
    Event { at: u128::from(request.now.as_nanos()), cost: request.cost }
}

fn assert_agrees(spec: &LimitSpec, requests: Requests) {
    let mut subject = Subject::from_spec(spec);
    let mut key = ModelKey::new(spec);
    let mut driver = requests.driver(spec);
    while let Some(request) = driver.next_request() {
        let outcome = subject.decide(request);
        key = verify_outcome(&key, event(request), &outcome);
        driver.observe(outcome);
    }
}

proptest! {
    #![proptest_config(proptest_config(750))]

    #[test]
    fn gcra(spec in limits::of(AlgorithmName::Gcra), requests in requests()) {
        assert_agrees(&spec, requests);
    }

    #[test]
    fn concurrency(spec in limits::of(AlgorithmName::Concurrency), requests in requests()) {
        assert_agrees(&spec, requests);
    }

    #[test]
    fn token_bucket(spec in limits::of(AlgorithmName::TokenBucket), requests in requests()) {
        assert_agrees(&spec, requests);
    }

    #[test]
    fn leaky_bucket(spec in limits::of(AlgorithmName::LeakyBucket), requests in requests()) {
        assert_agrees(&spec, requests);
    }

    #[test]
    fn fixed_window(spec in limits::of(AlgorithmName::FixedWindow), requests in requests()) {
        assert_agrees(&spec, requests);
    }

    #[test]
    fn sliding_log(spec in limits::of(AlgorithmName::SlidingLog), requests in requests()) {
        assert_agrees(&spec, requests);
    }

    #[test]
    fn sliding_window(spec in limits::of(AlgorithmName::SlidingWindow), requests in requests()) {
        assert_agrees(&spec, requests);
    }

    #[test]
    fn sub_windows(spec in limits::of(AlgorithmName::SubWindows), requests in requests()) {
        assert_agrees(&spec, requests);
    }
}
