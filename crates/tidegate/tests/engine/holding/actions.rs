//! Leases of limits whose action is not to reject.

use tidegate::Release;
use tidegate::rules::Fate;

use crate::bench::Bench;

fn bench(action: &str) -> Bench {
    Bench::new(&format!(
        "{{ domain: api, rules: [ {{ name: a, limit: {{ algorithm: concurrency, limit: 1, ttl: 60s }}, \
         action: {action} }} ] }}"
    ))
}

#[test]
fn what_only_looks_on_holds_every_request_and_lets_go_of_it() {
    for (action, over) in [("shadow", Fate::ShadowDenied), ("quota", Fate::OverQuota)] {
        let bench = bench(action);
        let first = bench.lease("a=1");
        let (told, second) = bench.acquire("a=1");
        assert_eq!(told.fate, over);
        assert_eq!(bench.release("a=1", &second.expect("it passed").token), Release::Released, "{action}");
        assert_eq!(bench.peek("a=1").fate, over, "the first is still held");
        assert_eq!(bench.release("a=1", &first.token), Release::Released, "{action}");
        assert_eq!(bench.peek("a=1").fate, Fate::Allowed);
    }
}

#[test]
fn who_is_banned_holds_nothing() {
    let bench = bench("shadow_ban");
    let first = bench.lease("a=1");
    let (told, second) = bench.acquire("a=1");
    assert_eq!((told.fate, second), (Fate::ShadowBanned, None));
    assert_eq!(bench.release("a=1", &first.token), Release::Released);
    assert_eq!(bench.acquire("a=1").0.fate, Fate::Allowed);
}

/// A soft or elastic rate beside what is held.
#[test]
fn rates_with_room_above_them() {
    let bench = Bench::new(
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
#[test]
fn a_pool_that_is_held_is_given_back() {
    let bench = Bench::new(
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
