//! Leases of the shared store, and of this process while that does not answer.

use tidegate::rules::AnswerKind;
use tidegate::{EngineError, Lease, ManualClock, Release, Renewal, StoreError};
use tidegate_testing::remote::{StoreBehavior, FakeStore};

use crate::engine::bench::{EngineFixture, with_request};
use crate::engine::setup::shared::expect_ready;
use crate::engine_fleet::fleet::Fleet;

const LEASES: &str = "
domain: api
rules:
  - { name: reports, key: [tenant], limit: { algorithm: concurrency, limit: 4, ttl: 60s } }
";

fn acquire(server: &EngineFixture) -> Option<Lease> {
    with_request("tenant=7", 1, |request| {
        crate::engine::setup::shared::acquire(&server.engine, request, None, |_| ()).1
    })
}

fn release(server: &EngineFixture, lease: &Lease) -> Result<Release, EngineError> {
    with_request("tenant=7", 1, |request| expect_ready(server.engine.release(request, &lease.token)))
}

fn renew(server: &EngineFixture, lease: &Lease) -> Result<Renewal, EngineError> {
    with_request("tenant=7", 1, |request| expect_ready(server.engine.renew(request, &lease.token, None)))
}

#[test]
fn a_lease_can_be_released_by_another_node() {
    let fleet = Fleet::new(2, LEASES);
    let [one, other] = &fleet.nodes[..] else { panic!("two of them") };
    let held: Vec<Lease> = (0..4).map(|_| acquire(one).expect("there are four")).collect();
    assert_eq!(acquire(other), None);
    assert_eq!(release(other, &held[0]), Ok(Release::Released));
    assert_eq!(release(one, &held[0]), Ok(Release::AlreadyReleased));
    assert!(acquire(other).is_some());
    assert!(matches!(renew(other, &held[1]), Ok(Renewal::Renewed(_))));
}

/// Nodes that cannot see each other would all hand out the same lock.
#[test]
fn a_concurrency_limit_is_denied_without_the_store_unless_its_rule_says_otherwise() {
    let fleet = Fleet::new(2, LEASES);
    let server = fleet.first();
    let shared = acquire(server).expect("a lease");
    fleet.stop_store();
    assert_eq!(acquire(server), None);
    let told = server.check("tenant=7");
    assert_eq!((told.kind, told.degraded), (AnswerKind::Unavailable, true));
    fleet.resume_store();
    assert_eq!(release(server, &shared), Ok(Release::Released));
}

#[test]
fn a_lease_acquired_without_the_store_is_released_locally() {
    let fleet = Fleet::new(2, &LEASES.replace("60s } }", "60s }, on_store_failure: local }"));
    let [one, other] = &fleet.nodes[..] else { panic!("two of them") };
    let shared = acquire(one).expect("a lease");
    fleet.stop_store();
    let own = acquire(one).expect("two are this server's share");
    let kept = acquire(one).expect("two are this server's share");
    assert_eq!(acquire(one), None);
    // It needs no store to be given back, and its own store is asked first.
    let questions = fleet.store.calls();
    assert!(matches!(renew(one, &own), Ok(Renewal::Renewed(_))));
    assert_eq!(release(one, &own), Ok(Release::Released));
    assert_eq!(release(one, &own), Ok(Release::AlreadyReleased));
    assert_eq!(fleet.store.calls(), questions);
    assert!(acquire(one).is_some());
    // That of the shared store cannot be given back now.
    let failed = EngineError::Store(StoreError::TimedOut);
    assert_eq!(release(one, &shared), Err(failed.clone()));
    assert_eq!(renew(one, &shared), Err(failed));
    fleet.resume_store();
    assert_eq!(release(one, &shared), Ok(Release::Released));
    // Another server knows nothing of what this one held on its own.
    assert_eq!(release(other, &kept), Ok(Release::WrongOwner));
    assert_eq!(release(one, &kept), Ok(Release::Released));
}

/// Whose clock is off by an hour has leases that end when they end all the same.
#[test]
fn a_lease_ends_by_its_holders_clock() {
    let clock = ManualClock::at(tidegate::Timestamp::from_nanos(7_200_000_000_000));
    let remote = FakeStore::new(clock.clone()).with_clock_ahead_seconds(3600);
    let fleet = Fleet::with_store(1, LEASES, &clock, remote);
    let server = fleet.first();
    let lease = acquire(server).expect("a lease");
    assert_eq!(lease.expires.as_nanos(), 7_260_000_000_000);
    server.advance(30);
    let Ok(Renewal::Renewed(renewed)) = renew(server, &lease) else { panic!("it is held") };
    assert_eq!(renewed.expires.as_nanos(), 7_290_000_000_000);
    assert_eq!(release(server, &renewed), Ok(Release::Released));
    server.advance(60);
    assert_eq!(release(server, &lease), Ok(Release::Expired));
}

/// The store counts from when it grants a lease; its holder, who hears of it later, does not count on more.
#[test]
fn a_lease_ends_no_later_for_its_holder_than_in_the_store() {
    let fleet = Fleet::new(1, LEASES);
    let server = fleet.first();
    let lease = std::cell::Cell::new(None);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    with_request("tenant=7", 1, |request| {
        let mut acquired = std::pin::pin!(server.engine.lease(request, None));
        assert!(crate::engine::setup::shared::poll_once(acquired.as_mut()).is_none());
        server.advance(5);
        fleet.store.release_replies();
        lease.set(crate::engine::setup::shared::poll_once(acquired.as_mut()).unwrap().unwrap().lease);
    });
    let lease = lease.get().expect("a lease");
    assert_eq!(lease.expires.as_nanos(), 60_000_000_000);
    with_request("tenant=7", 1, |request| {
        let mut renewed = std::pin::pin!(server.engine.renew(request, &lease.token, None));
        assert!(crate::engine::setup::shared::poll_once(renewed.as_mut()).is_none());
        server.advance(5);
        fleet.store.release_replies();
        let Some(Ok(Renewal::Renewed(renewed))) = crate::engine::setup::shared::poll_once(renewed.as_mut())
        else {
            panic!("it is held");
        };
        assert_eq!(renewed.expires.as_nanos(), 65_000_000_000, "it was renewed after five seconds");
    });
}

/// Its clock is an hour off, and it has never heard of the store's before.
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
    let server = fleet.first();
    let lease = acquire(server).expect("a lease");
    server.reload("{ domain: api, rules: [ { name: a, limit: 5 per hour } ] }");
    let questions = fleet.store.calls();
    assert_eq!(release(server, &lease), Ok(Release::WrongOwner));
    assert_eq!(renew(server, &lease), Ok(Renewal::WrongOwner));
    assert_eq!(fleet.store.calls(), questions);
}
