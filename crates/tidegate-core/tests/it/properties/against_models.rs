//! Each algorithm against its model: the verdict, and every number that comes with it.

use proptest::prelude::*;
use tidegate_core::{AlgorithmName, TimedCost, LimitSpec};

use crate::models::judge::verify_outcome;
use crate::models::{Event, ModelKey};
use crate::properties::requests::{Requests, requests};
use crate::properties::{proptest_config, limits};
use crate::subject::Subject;

pub fn event(ask: TimedCost) -> Event {
    Event { at: u128::from(ask.now.as_nanos()), cost: ask.cost }
}

fn agrees(spec: &LimitSpec, requests: Requests) {
    let mut subject = Subject::from_spec(spec);
    let mut key = ModelKey::new(spec);
    let mut caller = requests.driver(spec);
    while let Some(ask) = caller.next_cost() {
        let outcome = subject.decide(ask);
        key = verify_outcome(&key, event(ask), &outcome);
        caller.observe(outcome);
    }
}

proptest! {
    #![proptest_config(proptest_config(750))]

    #[test]
    fn gcra(spec in limits::of(AlgorithmName::Gcra), requests in requests()) {
        agrees(&spec, requests);
    }

    #[test]
    fn concurrency(spec in limits::of(AlgorithmName::Concurrency), requests in requests()) {
        agrees(&spec, requests);
    }

    #[test]
    fn token_bucket(spec in limits::of(AlgorithmName::TokenBucket), requests in requests()) {
        agrees(&spec, requests);
    }

    #[test]
    fn leaky_bucket(spec in limits::of(AlgorithmName::LeakyBucket), requests in requests()) {
        agrees(&spec, requests);
    }

    #[test]
    fn fixed_window(spec in limits::of(AlgorithmName::FixedWindow), requests in requests()) {
        agrees(&spec, requests);
    }

    #[test]
    fn sliding_log(spec in limits::of(AlgorithmName::SlidingLog), requests in requests()) {
        agrees(&spec, requests);
    }

    #[test]
    fn sliding_window(spec in limits::of(AlgorithmName::SlidingWindow), requests in requests()) {
        agrees(&spec, requests);
    }

    #[test]
    fn sub_windows(spec in limits::of(AlgorithmName::SubWindows), requests in requests()) {
        agrees(&spec, requests);
    }
}
