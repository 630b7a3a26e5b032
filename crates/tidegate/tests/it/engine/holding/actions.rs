//! Leases of limits whose action is not to reject.

use tidegate::Release;
use tidegate::rules::Fate;

use crate::engine::bench::Bench;
use crate::engine::setup::{Setup, over_each_store};

fn bench(setup: Setup, action: &str) -> Bench {
    setup.bench(&format!(
        "{{ domain: api, rules: [ {{ name: a, limit: {{ algorithm: concurrency, limit: 1, ttl: 60s }}, \
         action: {action} }} ] }}"
    ))
}

fn what_only_looks_on_holds_every_request_and_lets_go_of_it(setup: Setup) {
    for (action, over) in [("shadow", Fate::ShadowDenied), ("quota", Fate::OverQuota)] {
        let bench = bench(setup, action);
        let first = bench.lease("a=1");
        let (told, second) = bench.acquire("a=1");
        assert_eq!(told.fate, over);
        assert_eq!(bench.release("a=1", &second.expect("it passed").token), Release::Released, "{action}");
        assert_eq!(bench.peek("a=1").fate, over, "the first is still held");
        assert_eq!(bench.release("a=1", &first.token), Release::Released, "{action}");
        assert_eq!(bench.peek("a=1").fate, Fate::Allowed);
    }
}

fn who_is_banned_holds_nothing(setup: Setup) {
    let bench = bench(setup, "shadow_ban");
    let first = bench.lease("a=1");
    let (told, second) = bench.acquire("a=1");
    assert_eq!((told.fate, second), (Fate::ShadowBanned, None));
    assert_eq!(bench.release("a=1", &first.token), Release::Released);
    assert_eq!(bench.acquire("a=1").0.fate, Fate::Allowed);
}

/// A soft or elastic rate beside what is held.
fn rates_with_room_above_them(setup: Setup) {
    let bench = setup.bench(
        "domain: api\npools: { spare: 1 per minute }\nrules:\n\
         - name: a\n  limits:\n\
         \x20   - { algorithm: concurrency, limit: 3, ttl: 60s }\n\
         \x20   - { limit: 1 per minute, algorithm: fixed_window, action: { soft: { margin: 200% } } }\n\
         \x20   - { limit: 1 per minute, algorithm: fixed_window, action: { elastic: { max: 9, pool: spare } } }\n",
    );
    let (first, second) = (bench.lease("a=1"), bench.acquire("a=1"));
    assert_eq!(second.0.fate, Fate::Soft);
    let (told, lease) = bench.acquire("a=1");
    assert_eq!((told.fate, lease, told.limits[0].2), (Fate::Denied, None, 1), "the pool is empty");
    assert_eq!(bench.release("a=1", &second.1.expect("it passed").token), Release::Released);
    assert_eq!(bench.release("a=1", &first.token), Release::Released);
    assert_eq!(bench.peek("a=1").limits[0].2, 3);
}

/// Over its own limit a request takes of a pool that is held too.
fn a_pool_that_is_held_is_given_back(setup: Setup) {
    let bench = setup.bench(
        "domain: api\npools: { spare: { algorithm: concurrency, limit: 1, ttl: 60s } }\nrules:\n\
         - { name: a, limit: { limit: 1 per hour, algorithm: fixed_window }, \
             action: { elastic: { max: 9, pool: spare } } }\n",
    );
    assert_eq!(bench.acquire("a=1").1, None, "within its limit it holds nothing");
    let held = bench.lease("a=1");
    assert_eq!(bench.acquire("a=1").0.fate, Fate::Denied);
    assert_eq!(bench.release("a=1", &held.token), Release::Released);
    assert_eq!(bench.acquire("a=1").0.fate, Fate::Soft);
}

over_each_store!(
    what_only_looks_on_holds_every_request_and_lets_go_of_it,
    who_is_banned_holds_nothing,
    rates_with_room_above_them,
    a_pool_that_is_held_is_given_back,
);
