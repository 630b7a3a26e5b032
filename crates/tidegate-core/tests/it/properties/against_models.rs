//! Each algorithm against its model: the verdict, and every number that comes with it.

use proptest::prelude::*;
use tidegate_core::{AlgorithmName, Ask, LimitSpec};

use crate::models::judge::judged;
use crate::models::{Event, Key};
use crate::properties::requests::{Requests, requests};
use crate::properties::{cases, limits};
use crate::subject::Subject;

pub fn event(ask: Ask) -> Event {
    Event { at: u128::from(ask.now.as_nanos()), cost: ask.cost }
}

fn agrees(spec: &LimitSpec, requests: Requests) {
    let mut subject = Subject::of(spec);
    let mut key = Key::never_seen(spec);
    let mut caller = requests.to(spec);
    while let Some(ask) = caller.next_ask() {
        let outcome = subject.decide(ask);
        key = judged(&key, event(ask), &outcome);
        caller.hear(outcome);
    }
}

proptest! {
    #![proptest_config(cases(750))]

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
