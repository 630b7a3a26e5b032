//! Leases of limits with an action other than `reject`.

use tidegate::Release;
use tidegate::rules::AnswerKind;

use crate::engine::fixture::EngineFixture;
use crate::engine::setup::{Setup, over_each_store};

fn fixture(setup: Setup, action: &str) -> EngineFixture {
    setup.fixture(&format!(
        "{{ domain: api, rules: [ {{ name: a, limit: {{ algorithm: concurrency, limit: 1, ttl: 60s }}, \
         action: {action} }} ] }}"
    ))
}

fn an_observed_limit_leases_and_releases_every_request(setup: Setup) {
    for (action, over) in [("shadow", AnswerKind::ShadowDenied), ("quota", AnswerKind::OverQuota)] {
        let fixture = fixture(setup, action);
        let first = fixture.lease("a=1");
        let (answer, second) = fixture.acquire("a=1");
        assert_eq!(answer.kind, over);
        assert_eq!(fixture.release("a=1", &second.expect("it passed").token), Release::Released, "{action}");
        assert_eq!(fixture.peek("a=1").kind, over, "the first is still held");
        assert_eq!(fixture.release("a=1", &first.token), Release::Released, "{action}");
        assert_eq!(fixture.peek("a=1").kind, AnswerKind::Allowed);
    }
}

fn a_banned_request_takes_no_lease(setup: Setup) {
    let fixture = fixture(setup, "shadow_ban");
    let first = fixture.lease("a=1");
    let (answer, second) = fixture.acquire("a=1");
    assert_eq!((answer.kind, second), (AnswerKind::ShadowBanned, None));
    assert_eq!(fixture.release("a=1", &first.token), Release::Released);
    assert_eq!(fixture.acquire("a=1").0.kind, AnswerKind::Allowed);
}

/// A soft or an elastic rate beside a concurrency limit.
fn leases_with_soft_and_elastic_rates(setup: Setup) {
    let fixture = setup.fixture(
        "domain: api\npools: { spare: 1 per minute }\nrules:\n\
         - name: a\n  limits:\n\
         \x20   - { algorithm: concurrency, limit: 3, ttl: 60s }\n\
         \x20   - { limit: 1 per minute, algorithm: fixed_window, action: { soft: { margin: 200% } } }\n\
         \x20   - { limit: 1 per minute, algorithm: fixed_window, action: { elastic: { max: 9, pool: spare } } }\n",
    );
    let (first, second) = (fixture.lease("a=1"), fixture.acquire("a=1"));
    assert_eq!(second.0.kind, AnswerKind::Soft);
    let (answer, lease) = fixture.acquire("a=1");
    assert_eq!((answer.kind, lease, answer.limits[0].2), (AnswerKind::Denied, None, 1), "the pool is empty");
    assert_eq!(fixture.release("a=1", &second.1.expect("it passed").token), Release::Released);
    assert_eq!(fixture.release("a=1", &first.token), Release::Released);
    assert_eq!(fixture.peek("a=1").limits[0].2, 3);
}

/// Over its own limit, a request borrows from a pool that is a concurrency limit too.
fn a_leased_pool_is_released(setup: Setup) {
    let fixture = setup.fixture(
        "domain: api\npools: { spare: { algorithm: concurrency, limit: 1, ttl: 60s } }\nrules:\n\
         - { name: a, limit: { limit: 1 per hour, algorithm: fixed_window }, \
             action: { elastic: { max: 9, pool: spare } } }\n",
    );
    assert_eq!(fixture.acquire("a=1").1, None, "within its limit it holds nothing");
    let lease = fixture.lease("a=1");
    assert_eq!(fixture.acquire("a=1").0.kind, AnswerKind::Denied);
    assert_eq!(fixture.release("a=1", &lease.token), Release::Released);
    assert_eq!(fixture.acquire("a=1").0.kind, AnswerKind::Soft);
}

over_each_store!(
    an_observed_limit_leases_and_releases_every_request,
    a_banned_request_takes_no_lease,
    leases_with_soft_and_elastic_rates,
    a_leased_pool_is_released,
);
