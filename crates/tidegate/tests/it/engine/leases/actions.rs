//! Leases of limits whose action is not to reject.

use tidegate::Release;
use tidegate::rules::AnswerKind;

use crate::engine::bench::EngineFixture;
use crate::engine::setup::{Setup, over_each_store};

fn fixture(setup: Setup, action: &str) -> EngineFixture {
    setup.fixture(&format!(
        "{{ domain: api, rules: [ {{ name: a, limit: {{ algorithm: concurrency, limit: 1, ttl: 60s }}, \
         action: {action} }} ] }}"
    ))
}

fn an_observed_limit_leases_and_releases_every_request(setup: Setup) {
    for (action, over) in [("shadow", AnswerKind::ShadowDenied), ("quota", AnswerKind::OverQuota)] {
        let bench = fixture(setup, action);
        let first = bench.lease("a=1");
        let (told, second) = bench.acquire("a=1");
        assert_eq!(told.kind, over);
        assert_eq!(bench.release("a=1", &second.expect("it passed").token), Release::Released, "{action}");
        assert_eq!(bench.peek("a=1").kind, over, "the first is still held");
        assert_eq!(bench.release("a=1", &first.token), Release::Released, "{action}");
        assert_eq!(bench.peek("a=1").kind, AnswerKind::Allowed);
    }
}

fn a_banned_request_takes_no_lease(setup: Setup) {
    let bench = fixture(setup, "shadow_ban");
    let first = bench.lease("a=1");
    let (told, second) = bench.acquire("a=1");
    assert_eq!((told.kind, second), (AnswerKind::ShadowBanned, None));
    assert_eq!(bench.release("a=1", &first.token), Release::Released);
    assert_eq!(bench.acquire("a=1").0.kind, AnswerKind::Allowed);
}

/// A soft or elastic rate beside what is held.
fn leases_with_soft_and_elastic_rates(setup: Setup) {
    let bench = setup.fixture(
        "domain: api\npools: { spare: 1 per minute }\nrules:\n\
         - name: a\n  limits:\n\
         \x20   - { algorithm: concurrency, limit: 3, ttl: 60s }\n\
         \x20   - { limit: 1 per minute, algorithm: fixed_window, action: { soft: { margin: 200% } } }\n\
         \x20   - { limit: 1 per minute, algorithm: fixed_window, action: { elastic: { max: 9, pool: spare } } }\n",
    );
    let (first, second) = (bench.lease("a=1"), bench.acquire("a=1"));
    assert_eq!(second.0.kind, AnswerKind::Soft);
    let (told, lease) = bench.acquire("a=1");
    assert_eq!((told.kind, lease, told.limits[0].2), (AnswerKind::Denied, None, 1), "the pool is empty");
    assert_eq!(bench.release("a=1", &second.1.expect("it passed").token), Release::Released);
    assert_eq!(bench.release("a=1", &first.token), Release::Released);
    assert_eq!(bench.peek("a=1").limits[0].2, 3);
}

/// Over its own limit a request takes of a pool that is held too.
fn a_leased_pool_is_released(setup: Setup) {
    let bench = setup.fixture(
        "domain: api\npools: { spare: { algorithm: concurrency, limit: 1, ttl: 60s } }\nrules:\n\
         - { name: a, limit: { limit: 1 per hour, algorithm: fixed_window }, \
             action: { elastic: { max: 9, pool: spare } } }\n",
    );
    assert_eq!(bench.acquire("a=1").1, None, "within its limit it holds nothing");
    let held = bench.lease("a=1");
    assert_eq!(bench.acquire("a=1").0.kind, AnswerKind::Denied);
    assert_eq!(bench.release("a=1", &held.token), Release::Released);
    assert_eq!(bench.acquire("a=1").0.kind, AnswerKind::Soft);
}

over_each_store!(
    an_observed_limit_leases_and_releases_every_request,
    a_banned_request_takes_no_lease,
    leases_with_soft_and_elastic_rates,
    a_leased_pool_is_released,
);
