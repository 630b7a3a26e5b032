//! Leases across a change of rules.

use tidegate::{Release, Renewal};

use crate::engine::setup::{Setup, over_each_store};

fn rule(limit: &str) -> String {
    format!("{{ domain: api, rules: [ {{ name: a, key: [user], {limit} }} ] }}")
}

const BEFORE: &str = "limit: { algorithm: concurrency, limit: 1, ttl: 60s }";

fn a_lease_is_found_after_its_limit_changed(setup: Setup) {
    for after in [
        "limit: { algorithm: concurrency, limit: 5, ttl: 60s }",
        "limit: { algorithm: concurrency, limit: 1, ttl: 5s }",
        "limit: { algorithm: concurrency, limit: 1, ttl: 60s }, action: shadow",
        "limit: 5 per second",
        "limits: [ 9 per day, { algorithm: concurrency, limit: 1, ttl: 9s } ]",
        "limits: [ { algorithm: concurrency, limit: 1, ttl: 60s }, { algorithm: concurrency, limit: 9, ttl: 9s } ]",
    ] {
        for seconds in [0, 30] {
            let fixture = setup.fixture(&rule(BEFORE));
            let lease = fixture.lease("user=1");
            fixture.reload(&rule(after));
            fixture.advance(seconds);
            let Renewal::Renewed(renewed) = fixture.renew("user=1", &lease.token) else {
                panic!("{after} after {seconds}s")
            };
            assert_eq!(fixture.release("user=2", &renewed.token), Release::WrongOwner, "{after}");
            assert_eq!(fixture.release("user=1", &renewed.token), Release::Released, "{after}");
        }
    }
}

fn a_lease_is_found_under_a_new_name(setup: Setup) {
    let fixture = setup.fixture(&rule(BEFORE));
    let lease = fixture.lease("user=1");
    fixture.reload(&format!("{{ domain: api, rules: [ {{ name: b, was: a, key: [user], {BEFORE} }} ] }}"));
    assert_eq!(fixture.acquire("user=1").1, None);
    assert_eq!(fixture.release("user=1", &lease.token), Release::Released);
    assert!(fixture.acquire("user=1").1.is_some());
}

/// A removed limit holds nothing, so its leases are not found, and they block no other request.
fn a_removed_limit(setup: Setup) {
    let fixture = setup.fixture(&rule(BEFORE));
    let lease = fixture.lease("user=1");
    fixture.reload("{ domain: api, rules: [ { name: b, limit: 5 per hour } ] }");
    assert_eq!(fixture.release("user=1", &lease.token), Release::WrongOwner);
    assert!(fixture.check("user=1").kind.passes());
}

over_each_store!(
    a_lease_is_found_after_its_limit_changed,
    a_lease_is_found_under_a_new_name,
    a_removed_limit,
);
