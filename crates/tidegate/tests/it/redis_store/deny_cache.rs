//! Denials from the cache are the same as those of Redis.

use tidegate::redis::RedisStore;
use tidegate::store::{Counter, Role};
use tidegate::{Nanos, StoreError, Timestamp, Wait};

use super::server::{RedisServer, wait_until};
use super::setup::{
    Cacheable, CheckReply, StoreExt, charge, check, check_cached, counter, decision, plan, store, stores,
};

/// The first instant at which it would be admitted, by the store's time, or the end of time; none if it was
/// admitted.
fn retry_at(reply: &CheckReply) -> Option<Timestamp> {
    let wait = decision(Ok(reply.clone())).retry_after;
    let never = Nanos::new(u128::MAX);
    (wait != Wait::NONE).then(|| reply.at.saturating_add(wait.span().unwrap_or(never)))
}

/// A check, and whether the cache denied it.
async fn check_and_hit(store: &RedisStore, key: &str, counter: &Counter, cost: u64) -> (CheckReply, bool) {
    let hits = store.stats().deny_cache_hits;
    let reply = store.check(&plan(&[charge(key, counter, cost)]), Cacheable::ALL).await.unwrap();
    (reply, store.stats().deny_cache_hits > hits)
}

/// Limits that free units every few milliseconds, so that denials end while they are cached.
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

/// A small generator with the same numbers in every run.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// No other client uses the keys. So a cached denial and a peek right after it name the same instant at which
/// the request would be admitted, to the nanosecond, and Redis does not admit it before.
#[tokio::test]
async fn a_cached_denial_ends_when_the_denial_of_redis_ends() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let mut numbers = XorShift(0x5eed_0001);
    let mut cached_denials = 0;
    for text in LIMITS {
        let counter = counter(text, text);
        for _ in 0..600 {
            let key = ["a", "b"][usize::try_from(numbers.below(2)).unwrap()];
            let cost = 1 + numbers.below(4);
            let before = store.peek(&plan(&[charge(key, &counter, cost)])).await.unwrap();
            let (reply, is_cached) = check_and_hit(&store, key, &counter, cost).await;
            if !is_cached {
                continue;
            }
            cached_denials += 1;
            let until = retry_at(&reply).expect("a cached reply is a denial");
            assert!(before.at < until, "{text} cost {cost}: denied when Redis had admitted it already");
            let peeked = store.peek(&plan(&[charge(key, &counter, cost)])).await.unwrap();
            match retry_at(&peeked) {
                Some(redis_until) => assert_eq!(redis_until, until, "{text} cost {cost}"),
                None => assert!(peeked.at >= until, "{text} cost {cost}: denied, but Redis would admit it"),
            }
        }
    }
    assert!(cached_denials > 500, "{cached_denials} denials came from the cache");
}

#[tokio::test]
async fn a_smaller_cost_is_sent_to_redis() {
    let server = RedisServer::start();
    let (store, counter) = (store(&server.url()).await, counter("costs", "10 per 1000d"));
    assert!(check_cached(&store, "key", &counter, 6).await.is_allowed());
    assert!(!check_cached(&store, "key", &counter, 5).await.is_allowed());
    let (_, is_cached) = check_and_hit(&store, "key", &counter, 7).await;
    assert!(is_cached);
    let (reply, is_cached) = check_and_hit(&store, "key", &counter, 4).await;
    assert!(!is_cached && decision(Ok(reply)).is_allowed());
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
        "{algorithm: sliding_log, limit: 2, per: 1000d, count_denied: true}",
        "{algorithm: concurrency, limit: 2, ttl: 1000d}",
    ];
    for text in texts {
        let counter = counter(text, text);
        for _ in 0..6 {
            let _ = check_cached(&store, "key", &counter, 1).await;
        }
        // The same beside a limit that may be denied from the cache.
        let plain = self::counter("plain", "1 per 1000d");
        for _ in 0..3 {
            let both = plan(&[charge("key", &plain, 1), charge("key", &counter, 1)]);
            store.check(&both, Cacheable::ALL).await.unwrap();
        }
    }
    assert_eq!(store.stats().deny_cache_hits, 0);
}

/// A window that is past its limit stays over, whether Redis counts further attempts or not.
#[tokio::test]
async fn windows_that_count_attempts_are_denied_from_the_cache_when_they_are_past_the_limit() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    for counts in ["true", "if_over"] {
        let text = |limit: u64| {
            format!(
                "{{algorithm: fixed_window, limit: {limit}, per: 1000d, align: first_hit, count_denied: {counts}}}"
            )
        };
        let (small, large) =
            (counter(&format!("small {counts}"), &text(2)), counter(&format!("large {counts}"), &text(4)));
        let hits = || store.stats().deny_cache_hits;
        let before = hits();
        // 3 and 4 are asked of Redis: only the state before the fourth is past the limit.
        for _ in 0..4 {
            let _ = check_cached(&store, "key", &small, 1).await;
        }
        assert_eq!(hits(), before, "{counts}");
        assert!(!check_cached(&store, "key", &small, 1).await.is_allowed());
        assert!(!check_cached(&store, "key", &small, 0).await.is_allowed());
        assert_eq!(hits(), before + 2, "{counts}");
        // Redis must count the attempts of another window as long as it is not past its limit.
        let both = plan(&[charge("key", &small, 1), charge("key", &large, 1)]);
        for _ in 0..3 {
            store.check(&both, Cacheable::ALL).await.unwrap();
        }
        assert_eq!(hits(), before + 2, "{counts}");
        let left = check_cached(&store, "key", &large, 0).await.remaining;
        assert_eq!(left, if counts == "true" { 1 } else { 4 }, "{counts}");
    }
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
    assert_eq!(store.stats().deny_cache_hits, 0, "Redis must decide about the limit that is over");
    for _ in 0..4 {
        store.check(&both, Cacheable::NONE.with(0)).await.unwrap();
    }
    assert!(store.stats().deny_cache_hits >= 3);
}

#[tokio::test]
async fn an_observed_limit_denies_nothing_from_the_cache() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let (over, observed_counter) = (counter("over", "1 per 1000d"), counter("observed", "1 per 1000d"));
    let observed = tidegate::store::Charge { role: Role::Observed, ..charge("key", &observed_counter, 1) };
    // Denied together with an enforced limit, so the usage of both is known.
    for _ in 0..3 {
        store.check(&plan(&[charge("key", &over, 1), observed]), Cacheable::ALL).await.unwrap();
    }
    assert!(store.stats().deny_cache_hits > 0);
    assert!(!decision(store.check(&plan(&[observed]), Cacheable::ALL).await).is_allowed());
    let fresh = charge("other", &over, 1);
    let reply = store.check(&plan(&[fresh, observed]), Cacheable::ALL).await.unwrap();
    assert_eq!(reply.outcomes[0].kind, tidegate::OutcomeKind::Allowed);
    assert_eq!(reply.outcomes[0].retry_after, Wait::NONE);
}

/// A refund by another node takes effect within a second, by a clock that is independent of this one.
#[tokio::test]
async fn refunds_of_other_nodes_are_seen_within_a_second() -> Result<(), StoreError> {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 2).await;
    let counter = counter("elsewhere", "5 per 1000d");
    let _ = check(&stores[0], "key", &counter, 5).await;
    assert!(!check_cached(&stores[0], "key", &counter, 1).await.is_allowed());
    let (denied, is_cached) = check_and_hit(&stores[0], "key", &counter, 1).await;
    assert!(is_cached);
    stores[1].refund(&plan(&[charge("key", &counter, 1)])).await?;
    let admitted = wait_until(async || {
        let reply = stores[0].check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL).await.ok()?;
        match decision(Ok(reply.clone())).is_allowed() {
            true => Some(reply),
            false => {
                // Each cached denial comes from a state that is less than a second old.
                let since = reply.at.as_nanos() - denied.at.as_nanos();
                assert!(since < 1_000_000_000 + 50_000_000, "denied from the cache for {since} ns");
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
    let mut entries_max = 0;
    for round in 0..10 {
        let keys: Vec<String> = (0..8_000).map(|number| format!("{round}:{number}")).collect();
        let pending: Vec<_> =
            keys.iter().map(|key| store.check(&plan(&[charge(key, &counter, 1)]), Cacheable::ALL)).collect();
        for pending in pending {
            assert!(!decision(pending.await).is_allowed());
        }
        entries_max = entries_max.max(store.stats().deny_cache_entries);
    }
    assert!(entries_max > 0 && entries_max <= 65_536, "{entries_max}");
}
