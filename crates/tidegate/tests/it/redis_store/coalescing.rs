//! Plans that wait together share calls, and get the same decisions as if each had come alone.

use std::collections::BTreeSet;

use super::server::RedisServer;
use super::setup::{Cacheable, StoreExt, charge, counter, decision, plan, store};

#[tokio::test]
async fn identical_plans_share_a_call_and_are_decided_exactly() {
    let server = RedisServer::start();
    let (store, counter) = (store(&server.url()).await, counter("hot", "100 per 1000d"));
    let pending: Vec<_> =
        (0..300).map(|_| store.check(&plan(&[charge("hot", &counter, 1)]), Cacheable::NONE)).collect();
    let mut left = Vec::new();
    for (at, pending) in pending.into_iter().enumerate() {
        let decision = decision(pending.await);
        // In the order of the calls.
        assert_eq!(decision.is_allowed(), at < 100, "{at}");
        left.extend(decision.is_allowed().then_some(decision.remaining));
    }
    assert_eq!(left, (0..100).rev().collect::<Vec<u64>>());
    let stats = store.stats();
    assert_eq!(stats.plans, 300);
    assert!(stats.calls < 10, "{stats:?}");
    assert!(stats.coalesced > 250, "{stats:?}");
}

#[tokio::test]
async fn plans_of_one_key_with_different_costs_are_decided_in_order() {
    let server = RedisServer::start();
    let (store, counter) = (store(&server.url()).await, counter("mixed", "30 per 1000d"));
    let costs = [7, 20, 5, 1, 3, 0, 2, 30];
    let pending: Vec<_> = costs
        .iter()
        .map(|cost| store.check(&plan(&[charge("hot", &counter, *cost)]), Cacheable::NONE))
        .collect();
    let mut used = 0;
    for (cost, pending) in costs.iter().zip(pending) {
        let decision = decision(pending.await);
        assert_eq!(decision.is_allowed(), used + cost <= 30, "{cost}");
        used += if decision.is_allowed() { *cost } else { 0 };
        assert_eq!(decision.remaining, 30 - used, "{cost}");
    }
}

#[tokio::test]
async fn more_plans_than_fit_in_a_call_all_get_replies() {
    let server = RedisServer::start();
    let (store, counter) = (store(&server.url()).await, counter("many", "1 per 1000d"));
    let keys: Vec<String> = (0..5_000).map(|number| format!("user:{number}")).collect();
    for expected in [true, false] {
        let pending: Vec<_> =
            keys.iter().map(|key| store.check(&plan(&[charge(key, &counter, 1)]), Cacheable::NONE)).collect();
        let mut admitted = BTreeSet::new();
        for pending in pending {
            admitted.insert(decision(pending.await).is_allowed());
        }
        assert_eq!(admitted, BTreeSet::from([expected]));
    }
    assert_eq!(store.stats().plans, 10_000);
}
