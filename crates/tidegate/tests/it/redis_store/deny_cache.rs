//! Denials from memory are those that Redis would have given.

use tidegate::redis::RedisStore;
use tidegate::store::{Counter, Role};
use tidegate::{Nanos, StoreError, Timestamp, Wait};

use super::server::{RedisServer, wait_until};
use super::setup::{
    Cacheable, CheckReply, StoreExt, charge, check, check_cached, counter, decision, plan, store, stores,
};

/// The first instant at which it would be admitted, by the store's time, or the end of all time; none if it was.
fn retry_at(settled: &CheckReply) -> Option<Timestamp> {
    let wait = decision(Ok(settled.clone())).retry_after;
    let never = Nanos::new(u128::MAX);
    (wait != Wait::NONE).then(|| settled.at.saturating_add(wait.span().unwrap_or(never)))
}

/// A check, and whether it was answered from memory.
async fn check_and_hit(store: &RedisStore, key: &str, counter: &Counter, cost: u64) -> (CheckReply, bool) {
    let hits = store.stats().deny_cache_hits;
    let settled = store.check(&plan(&[charge(key, counter, cost)]), Cacheable::ALL).await.unwrap();
    (settled, store.stats().deny_cache_hits > hits)
}

/// Limits that let go of something every few milliseconds, so that denials end while they are kept.
const LIMITS: [&str; 8] = [
    "{algorithm: gcra, limit: 50, per: 1s, burst: 3}",
    "{algorithm: token_bucket, limit: 30, per: 1s, burst: 7}",
    "{algorithm: leaky_bucket, limit: 60, per: 1s, queue: 4}",
    "{algorithm: fixed_window, limit: 5, per: 90ms}",
    "{algorithm: fixed_window, limit: 5, per: 70ms, align: first_hit}",
    "{algorithm: sliding_window, limit: 5, per: 80ms}",
    "{algorithm: sliding_log, limit: 6, per: 100ms, min_interval: 3ms}",
    "{algorithm: sub_windows, limit: 6, per: 120ms, sub_windows: 10}",
];

/// A small generator of numbers that are the same in every run.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Nobody else uses the keys, so a denial from memory and what Redis says right after it name the same instant from which on
/// the request would be admitted, to the nanosecond; and Redis does not admit it before.
#[tokio::test]
async fn a_cached_denial_ends_when_the_denial_of_redis_ends() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let mut numbers = XorShift(0x5eed_0001);
    let mut from_memory = 0;
    for text in LIMITS {
        let counter = counter(text, text);
        for _ in 0..600 {
            let key = ["a", "b"][usize::try_from(numbers.below(2)).unwrap()];
            let cost = 1 + numbers.below(4);
            let before = store.peek(&plan(&[charge(key, &counter, cost)])).await.unwrap();
            let (settled, is_from_memory) = check_and_hit(&store, key, &counter, cost).await;
            if !is_from_memory {
                continue;
            }
            from_memory += 1;
            let until = retry_at(&settled).expect("what comes from memory is a denial");
            assert!(before.at < until, "{text} cost {cost}: denied when Redis had admitted it already");
            let peeked = store.peek(&plan(&[charge(key, &counter, cost)])).await.unwrap();
            match retry_at(&peeked) {
                Some(of_redis) => assert_eq!(of_redis, until, "{text} cost {cost}"),
                None => assert!(peeked.at >= until, "{text} cost {cost}: denied and would have passed"),
            }
        }
    }
    assert!(from_memory > 500, "{from_memory} denials came from memory");
}

#[tokio::test]
async fn a_smaller_cost_is_sent_to_redis() {
    let server = RedisServer::start();
    let (store, counter) = (store(&server.url()).await, counter("costs", "10 per 1000d"));
    assert!(check_cached(&store, "key", &counter, 6).await.is_allowed());
    assert!(!check_cached(&store, "key", &counter, 5).await.is_allowed());
    let (_, is_from_memory) = check_and_hit(&store, "key", &counter, 7).await;
    assert!(is_from_memory);
    let (settled, is_from_memory) = check_and_hit(&store, "key", &counter, 4).await;
    assert!(!is_from_memory && decision(Ok(settled)).is_allowed());
}

#[tokio::test]
async fn a_raised_limit_is_not_denied_from_the_cache() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let text = |limit| format!("{{algorithm: fixed_window, limit: {limit}, per: 1000d, align: first_hit}}");
    let (low, high) = (counter("raised", &text(10)), counter("raised", &text(20)));
    assert_eq!(low.id(), high.id());
    assert!(check_cached(&store, "key", &low, 10).await.is_allowed());
    assert!(!check_cached(&store, "key", &low, 1).await.is_allowed());
    assert!(check_cached(&store, "key", &high, 1).await.is_allowed());
}

#[tokio::test]
async fn counted_attempts_and_leases_are_never_denied_from_the_cache() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let texts = [
        "{algorithm: fixed_window, limit: 2, per: 1000d, align: first_hit, count_denied: true}",
        "{algorithm: sliding_log, limit: 2, per: 1000d, count_denied: true}",
        "{algorithm: concurrency, limit: 2, ttl: 1000d}",
    ];
    for text in texts {
        let counter = counter(text, text);
        for _ in 0..6 {
            let _ = check_cached(&store, "key", &counter, 1).await;
        }
        // Beside a limit that may be denied from memory, too.
        let plain = self::counter("plain", "1 per 1000d");
        for _ in 0..3 {
            let both = plan(&[charge("key", &plain, 1), charge("key", &counter, 1)]);
            store.check(&both, Cacheable::ALL).await.unwrap();
        }
    }
    assert_eq!(store.stats().deny_cache_hits, 0);
}

#[tokio::test]
async fn only_cacheable_charges_are_denied_from_the_cache() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let (over, wide) = (counter("over", "1 per 1000d"), counter("wide", "100 per 1000d"));
    let both = plan(&[charge("key", &over, 1), charge("key", &wide, 1)]);
    for _ in 0..4 {
        store.check(&both, Cacheable::NONE.with(1)).await.unwrap();
    }
    assert_eq!(store.stats().deny_cache_hits, 0, "the limit that is over must be asked for");
    for _ in 0..4 {
        store.check(&both, Cacheable::NONE.with(0)).await.unwrap();
    }
    assert!(store.stats().deny_cache_hits >= 3);
}

#[tokio::test]
async fn an_observed_limit_denies_nothing_from_the_cache() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let (over, looker) = (counter("over", "1 per 1000d"), counter("looker", "1 per 1000d"));
    let observed = tidegate::store::Charge { role: Role::Observed, ..charge("key", &looker, 1) };
    // Denied together with a limit that is enforced, so what both used is known.
    for _ in 0..3 {
        store.check(&plan(&[charge("key", &over, 1), observed]), Cacheable::ALL).await.unwrap();
    }
    assert!(store.stats().deny_cache_hits > 0);
    assert!(!decision(store.check(&plan(&[observed]), Cacheable::ALL).await).is_allowed());
    let fresh = charge("other", &over, 1);
    let settled = store.check(&plan(&[fresh, observed]), Cacheable::ALL).await.unwrap();
    assert_eq!(settled.outcomes[0].kind, tidegate::OutcomeKind::Allowed);
    assert_eq!(settled.outcomes[0].retry_after, Wait::NONE);
}

/// What another process gave back is seen: at most a second later, by a clock that has nothing to do with this one.
#[tokio::test]
async fn refunds_of_other_nodes_are_seen_within_a_second() -> Result<(), StoreError> {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 2).await;
    let counter = counter("elsewhere", "5 per 1000d");
    let _ = check(&stores[0], "key", &counter, 5).await;
    assert!(!check_cached(&stores[0], "key", &counter, 1).await.is_allowed());
    let (denied, is_from_memory) = check_and_hit(&stores[0], "key", &counter, 1).await;
    assert!(is_from_memory);
    stores[1].refund(&plan(&[charge("key", &counter, 1)])).await?;
    let admitted = wait_until(async || {
        let settled = stores[0].check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL).await.ok()?;
        match decision(Ok(settled.clone())).is_allowed() {
            true => Some(settled),
            false => {
                // Each denial that comes from memory is of a state that was seen less than a second ago.
                let since = settled.at.as_nanos() - denied.at.as_nanos();
                assert!(since < 1_000_000_000 + 50_000_000, "denied from memory for {since} ns");
                None
            }
        }
    })
    .await;
    assert!(admitted.at > denied.at);
    Ok(())
}

#[tokio::test]
async fn a_flood_of_denied_keys_does_not_exceed_the_cache_bounds() {
    let server = RedisServer::start();
    let (store, counter) =
        (store(&server.url()).await, counter("flood", "{algorithm: gcra, limit: 0, per: 1h}"));
    let mut most = 0;
    for round in 0..10 {
        let keys: Vec<String> = (0..8_000).map(|number| format!("{round}:{number}")).collect();
        let asked: Vec<_> =
            keys.iter().map(|key| store.check(&plan(&[charge(key, &counter, 1)]), Cacheable::ALL)).collect();
        for asked in asked {
            assert!(!decision(asked.await).is_allowed());
        }
        most = most.max(store.stats().deny_cache_entries);
    }
    assert!(most > 0 && most <= 65_536, "{most}");
}
