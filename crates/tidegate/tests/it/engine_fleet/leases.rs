//! Leases of the shared store, and of this process while that store does not answer.

use tidegate::rules::AnswerKind;
use tidegate::{EngineError, Lease, ManualClock, Release, Renewal, StoreError};
use tidegate_testing::fake_store::{FakeStore, StoreBehavior};

use crate::engine::fixture::{EngineFixture, with_request};
use crate::engine::shared_engine::expect_ready;
use crate::engine_fleet::fleet::Fleet;

const LEASES: &str = "
domain: api
rules:
  - { name: reports, key: [tenant], limit: { algorithm: concurrency, limit: 4, ttl: 60s } }
";

fn acquire(node: &EngineFixture) -> Option<Lease> {
    with_request("tenant=7", 1, |request| {
        crate::engine::shared_engine::acquire(&node.engine, request, None, |_| ()).1
    })
}

fn release(node: &EngineFixture, lease: &Lease) -> Result<Release, EngineError> {
    with_request("tenant=7", 1, |request| expect_ready(node.engine.release(request, &lease.token)))
}

fn renew(node: &EngineFixture, lease: &Lease) -> Result<Renewal, EngineError> {
    with_request("tenant=7", 1, |request| expect_ready(node.engine.renew(request, &lease.token, None)))
}

#[test]
fn a_lease_can_be_released_by_another_node() {
    let fleet = Fleet::new(2, LEASES);
    let [one, other] = &fleet.nodes[..] else { panic!("two of them") };
    let leases: Vec<Lease> = (0..4).map(|_| acquire(one).expect("there are four")).collect();
    assert_eq!(acquire(other), None);
    assert_eq!(release(other, &leases[0]), Ok(Release::Released));
    assert_eq!(release(one, &leases[0]), Ok(Release::AlreadyReleased));
    assert!(acquire(other).is_some());
    assert!(matches!(renew(other, &leases[1]), Ok(Renewal::Renewed(_))));
}

/// Nodes that cannot see each other would all grant the same lock.
#[test]
fn a_concurrency_limit_is_denied_without_the_store_unless_its_rule_says_otherwise() {
    let fleet = Fleet::new(2, LEASES);
    let node = fleet.first();
    let shared = acquire(node).expect("a lease");
    fleet.stop_store();
    assert_eq!(acquire(node), None);
    let answer = node.check("tenant=7");
    assert_eq!((answer.kind, answer.degraded), (AnswerKind::Unavailable, true));
    fleet.resume_store();
    assert_eq!(release(node, &shared), Ok(Release::Released));
}

#[test]
fn a_lease_acquired_without_the_store_is_released_locally() {
    let fleet = Fleet::new(2, &LEASES.replace("60s } }", "60s }, on_store_failure: local }"));
    let [one, other] = &fleet.nodes[..] else { panic!("two of them") };
    let shared = acquire(one).expect("a lease");
    fleet.stop_store();
    let local = acquire(one).expect("two are the share of this node");
    let kept_local = acquire(one).expect("two are the share of this node");
    assert_eq!(acquire(one), None);
    // Its release needs no shared store, because the memory of this process is asked first.
    let calls = fleet.store.calls();
    assert!(matches!(renew(one, &local), Ok(Renewal::Renewed(_))));
    assert_eq!(release(one, &local), Ok(Release::Released));
    assert_eq!(release(one, &local), Ok(Release::AlreadyReleased));
    assert_eq!(fleet.store.calls(), calls);
    assert!(acquire(one).is_some());
    // The lease of the shared store cannot be released now.
    let failed = EngineError::Store(StoreError::TimedOut);
    assert_eq!(release(one, &shared), Err(failed.clone()));
    assert_eq!(renew(one, &shared), Err(failed));
    fleet.resume_store();
    assert_eq!(release(one, &shared), Ok(Release::Released));
    // Another node does not know the lease that this one granted on its own.
    assert_eq!(release(other, &kept_local), Ok(Release::WrongOwner));
    assert_eq!(release(one, &kept_local), Ok(Release::Released));
}

/// A node whose clock is off by an hour has leases that end at the right time.
#[test]
fn a_lease_ends_by_its_holders_clock() {
    let clock = ManualClock::at(tidegate::Timestamp::from_nanos(7_200_000_000_000));
    let remote = FakeStore::new(clock.clone()).with_clock_ahead_seconds(3600);
    let fleet = Fleet::with_store(1, LEASES, &clock, remote);
    let node = fleet.first();
    let lease = acquire(node).expect("a lease");
    assert_eq!(lease.expires.as_nanos(), 7_260_000_000_000);
    node.advance(30);
    let Ok(Renewal::Renewed(renewed)) = renew(node, &lease) else { panic!("it is held") };
    assert_eq!(renewed.expires.as_nanos(), 7_290_000_000_000);
    assert_eq!(release(node, &renewed), Ok(Release::Released));
    node.advance(60);
    assert_eq!(release(node, &lease), Ok(Release::Expired));
}

/// The store counts from when it grants a lease. The holder, which gets the reply later, must not count on more.
#[test]
fn a_lease_ends_no_later_for_its_holder_than_in_the_store() {
    let fleet = Fleet::new(1, LEASES);
    let node = fleet.first();
    let lease = std::cell::Cell::new(None);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    with_request("tenant=7", 1, |request| {
        let mut acquired = std::pin::pin!(node.engine.lease(request, None));
        assert!(crate::engine::shared_engine::poll_once(acquired.as_mut()).is_none());
        node.advance(5);
        fleet.store.release_replies();
        lease.set(crate::engine::shared_engine::poll_once(acquired.as_mut()).unwrap().unwrap().lease);
    });
    let lease = lease.get().expect("a lease");
    assert_eq!(lease.expires.as_nanos(), 60_000_000_000);
    with_request("tenant=7", 1, |request| {
        let mut renewed = std::pin::pin!(node.engine.renew(request, &lease.token, None));
        assert!(crate::engine::shared_engine::poll_once(renewed.as_mut()).is_none());
        node.advance(5);
        fleet.store.release_replies();
        let Some(Ok(Renewal::Renewed(renewed))) = crate::engine::shared_engine::poll_once(renewed.as_mut())
        else {
            panic!("it is held");
        };
        assert_eq!(renewed.expires.as_nanos(), 65_000_000_000, "it was renewed after five seconds");
    });
}

/// Its clock is off by an hour, and it has never seen a time of the store.
#[test]
fn a_new_node_can_renew_a_lease() {
    let clock = ManualClock::at(tidegate::Timestamp::from_nanos(7_200_000_000_000));
    let remote = FakeStore::new(clock.clone()).with_clock_ahead_seconds(3600);
    let fleet = Fleet::with_store(2, LEASES, &clock, remote);
    let [one, other] = &fleet.nodes[..] else { panic!("two of them") };
    let lease = acquire(one).expect("a lease");
    one.advance(30);
    let Ok(Renewal::Renewed(renewed)) = renew(other, &lease) else { panic!("it is held") };
    assert_eq!(renewed.expires.as_nanos(), 7_290_000_000_000);
}

#[test]
fn without_concurrency_limits_a_token_causes_no_store_call() {
    let fleet = Fleet::new(1, LEASES);
    let node = fleet.first();
    let lease = acquire(node).expect("a lease");
    node.reload("{ domain: api, rules: [ { name: a, limit: 5 per hour } ] }");
    let calls = fleet.store.calls();
    assert_eq!(release(node, &lease), Ok(Release::WrongOwner));
    assert_eq!(renew(node, &lease), Ok(Renewal::WrongOwner));
    assert_eq!(fleet.store.calls(), calls);
}
