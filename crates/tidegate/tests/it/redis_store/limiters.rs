//! Limiters over a store on Redis.

use std::time::Duration;

use tidegate::redis::{RedisLimiter, RedisSettings, RedisStore};
use tidegate::{Limiter, OnStoreFailure, Refused, StoreError};

use super::server::{RedisServer, wait_until};
use super::setup::{store, store_with, stores};
use super::without_runtime::{block_on, runtime};

/// Short enough to wait for, long enough for a busy machine.
const SHORT: Duration = Duration::from_millis(500);

fn limiter(limit: &str, store: RedisStore) -> RedisLimiter {
    Limiter::builder().rule("limiters").limit(limit).store(store).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_limiters_admit_exactly_the_limit() {
    let server = RedisServer::start();
    let mut tasks = tokio::task::JoinSet::new();
    for store in stores(&server.url(), 3).await {
        let limiter = limiter("{algorithm: sliding_log, limit: 100, per: 1000d}", store);
        tasks.spawn(async move {
            let mut admitted = 0;
            for _ in 0..80 {
                let decision = limiter.check("key", 1).await;
                assert!(!decision.degraded);
                admitted += u64::from(decision.is_allowed());
            }
            admitted
        });
    }
    assert_eq!(tasks.join_all().await.into_iter().sum::<u64>(), 100);
}

#[tokio::test]
async fn limiter_operations_work_over_redis() {
    let server = RedisServer::start();
    let limiter = limiter("5 per 1000d", store(&server.url()).await);
    assert_eq!(limiter.check("key", 2).await.remaining, 3);
    assert_eq!(limiter.peek("key", 0).await.unwrap().remaining, 3);
    limiter.reserve("key", 1).await.unwrap().commit();
    drop(limiter.reserve("key", 2).await.unwrap());
    // The refund is sent in the background.
    wait_until(async || (limiter.peek("key", 0).await.unwrap().remaining == 2).then_some(())).await;
    assert!(limiter.try_acquire("key", 2).await.unwrap().lease().is_none());
    let Err(Refused::OverLimit(denied)) = limiter.try_acquire("key", 1).await else {
        panic!("it is used up")
    };
    assert!(!denied.degraded);
    let refused = limiter.acquire_within("key", 1, Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(refused, Refused::TooLong { wait: Some(_) }), "{refused}");
    limiter.reset("key").await.unwrap();
    assert_eq!(limiter.peek("key", 0).await.unwrap().remaining, 5);
}

#[tokio::test]
async fn leases_are_shared_and_released() {
    let server = RedisServer::start();
    let limiters: Vec<RedisLimiter> = stores(&server.url(), 2)
        .await
        .into_iter()
        .map(|store| limiter("{algorithm: concurrency, limit: 2, ttl: 1h}", store))
        .collect();
    let mut first = limiters[0].try_acquire("key", 1).await.unwrap();
    let second = limiters[1].try_acquire("key", 1).await.unwrap();
    assert!(second.fencing_token() > first.fencing_token());
    assert!(limiters[0].try_acquire("key", 1).await.is_err());
    assert_eq!(first.renew().await.unwrap().as_str(), "renewed");
    assert_eq!(first.release().await.unwrap().as_str(), "released");
    drop(second);
    let both = wait_until(async || limiters[0].try_acquire("key", 2).await.ok()).await;
    // A waiter is admitted when the lease is released.
    let pending = limiters[1].acquire("key", 1);
    drop(both);
    assert!(pending.await.unwrap().lease().is_some());
}

#[tokio::test]
async fn while_redis_is_down_a_share_is_enforced_or_nothing_passes() {
    let server = RedisServer::start();
    let store = store_with(&server.url(), SHORT).await;
    let local = limiter("10 per 1000d", store.clone());
    let deny = Limiter::builder().limit("10 per 1000d").store(store.clone());
    let deny = deny.on_store_failure(OnStoreFailure::Deny).build().unwrap();
    let lock = limiter("{algorithm: concurrency, limit: 1, ttl: 1h}", store);
    assert!(
        wait_until(async || Some(local.check("key", 1).await).filter(|decision| !decision.degraded))
            .await
            .is_allowed()
    );
    server.pause();
    let mut admitted = 0;
    for _ in 0..12 {
        let decision = local.check("key", 1).await;
        assert!(decision.degraded);
        admitted += u64::from(decision.is_allowed());
    }
    assert_eq!(admitted, 10, "one node has all of the limit");
    for limiter in [&deny, &lock] {
        let denied = limiter.check("key", 1).await;
        assert!(denied.degraded && !denied.is_allowed());
        assert_eq!(denied.retry_after.as_duration(), Some(Duration::from_secs(1)));
        let refused = limiter.try_acquire("key", 1).await.unwrap_err();
        assert!(
            matches!(refused, Refused::Store(StoreError::BreakerOpen | StoreError::TimedOut)),
            "{refused}"
        );
    }
    assert!(local.peek("key", 1).await.is_err());
    server.resume();
    let _ = wait_until(async || Some(deny.check("key", 1).await).filter(|decision| !decision.degraded)).await;
}

#[test]
fn a_limiter_outlives_the_runtime_of_its_store() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let limiter = limiter("2 per 1000d", runtime.block_on(store(&server.url())));
    assert!(!block_on(limiter.check("key", 1)).degraded, "a call needs no runtime");
    let reservation = block_on(limiter.reserve("key", 1)).unwrap();
    drop(runtime);
    drop(reservation);
    let decision = block_on(limiter.check("key", 1));
    assert!(decision.is_allowed() && decision.degraded);
    assert_eq!(block_on(limiter.peek("key", 1)), Err(StoreError::RuntimeGone));
    assert_eq!(block_on(limiter.reset("key")), Err(StoreError::RuntimeGone));
}

#[tokio::test]
async fn a_limiter_starts_while_redis_is_down() {
    let mut settings = RedisSettings::new("redis://127.0.0.1:1".parse().unwrap());
    settings.timeout = SHORT;
    let limiter = limiter("1 per 1000d", RedisStore::connect_lazy(settings).unwrap());
    assert!(limiter.check("key", 1).await.is_allowed());
    let denied = limiter.check("key", 1).await;
    assert!(!denied.is_allowed() && denied.degraded);
}
