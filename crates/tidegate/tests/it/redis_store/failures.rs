//! What callers get when Redis does not reply, or replies with an error.

use std::time::Duration;

use tidegate::{OutcomeKind, StoreError, Wait};

use super::server::{RedisServer, wait_until};
use super::setup::{Cacheable, StoreExt, charge, check, counter, plan, store, store_with};

/// Short enough to wait for, long enough for a busy machine.
const SHORT: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_stopped_server_is_a_timeout_and_the_limit_holds() {
    let server = RedisServer::start();
    let (store, counter) = (store_with(&server.url(), SHORT).await, counter("still", "50 per 1000d"));
    let check_one = || store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::NONE);
    let mut admitted = 0;
    for _ in 0..10 {
        admitted += u64::from(
            wait_until(async || check_one().await.ok()).await.outcomes[0].kind == OutcomeKind::Allowed,
        );
    }
    server.pause();
    let before = tokio::time::Instant::now();
    let pending: Vec<_> = (0..100).map(|_| check_one()).collect();
    for pending in pending {
        let failure = pending.await.unwrap_err();
        assert!(matches!(failure, StoreError::TimedOut | StoreError::BreakerOpen), "{failure}");
    }
    // All waited at the same time. The factor is for a machine that stalls itself.
    assert!(before.elapsed() < SHORT * 20, "{:?}", before.elapsed());
    let failures = store.stats().failures;
    assert_eq!(failures.timed_out + failures.away, 100);
    server.resume();
    // The store recovers by itself. Calls sent before the server stopped may have been charged.
    wait_until(async || check_one().await.ok()).await;
    loop {
        match check_one().await {
            Ok(reply) if reply.outcomes[0].kind == OutcomeKind::Allowed => admitted += 1,
            Ok(_) => break,
            Err(failure) => assert!(matches!(failure, StoreError::TimedOut), "{failure}"),
        }
    }
    assert!(admitted <= 50, "{admitted}");
}

#[tokio::test]
async fn plans_beyond_the_queue_bound_fail_at_once() {
    let server = RedisServer::start();
    let (store, counter) = (store_with(&server.url(), SHORT).await, counter("crowd", "50 per 1000d"));
    let _ = check(&store, "key", &counter, 1).await;
    server.pause();
    let pending: Vec<_> =
        (0..20_000).map(|_| store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::NONE)).collect();
    for pending in pending {
        pending.await.unwrap_err();
    }
    let failures = store.stats().failures;
    assert!(failures.overloaded >= 20_000 - 16_384 - 1_024, "{failures:?}");
    assert_eq!(failures.total(), 20_000);
    server.resume();
    wait_until(async || store.peek(&plan(&[charge("key", &counter, 1)])).await.ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constantly_flushed_scripts_lose_no_decision() {
    const DECISIONS: u64 = 200;
    let server = RedisServer::start();
    let (store, counter) = (store(&server.url()).await, counter("flushed", "1000 per 1000d"));
    let mut flushing = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut connection = server.connection().await;
        flushing.spawn(async move {
            loop {
                redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await.unwrap();
            }
        });
    }
    for count in 1..=DECISIONS {
        assert_eq!(check(&store, "key", &counter, 1).await.remaining, 1000 - count);
    }
    assert!(store.stats().servers.total.scripts_reloaded > 0);
    assert_eq!(store.stats().failures.total(), 0);
    flushing.shutdown().await;
}

#[tokio::test]
async fn an_unreadable_key_is_named() {
    let server = RedisServer::start();
    let (store, counter) = (store(&server.url()).await, counter("typed", "5 per 1000d"));
    let _ = check(&store, "key", &counter, 1).await;
    let names: Vec<String> = server.run_command("KEYS tg:*{*").await;
    let [name] = &names[..] else { panic!("{names:?}") };
    for command in [format!("SET {name} nonsense"), format!("DEL {name}"), format!("LPUSH {name} 1")] {
        server.run_command::<redis::Value>(&command).await;
    }
    let other_charge = charge("other", &counter, 1);
    let pending = store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL);
    let other_pending = store.check(&plan(&[other_charge]), Cacheable::ALL);
    assert_eq!(pending.await.unwrap_err(), StoreError::Unreadable(name.as_str().into()));
    assert_eq!(
        other_pending.await.unwrap().outcomes[0].remaining,
        4,
        "other plans of the same call are not affected"
    );
    assert_eq!(store.stats().failures.unreadable, 1);
}

#[tokio::test]
async fn an_out_of_memory_error_is_passed_on() {
    let server = RedisServer::start();
    let (store, counter) = (store(&server.url()).await, counter("full", "5 per 1000d"));
    let _ = check(&store, "key", &counter, 1).await;
    server.run_command::<()>("CONFIG SET maxmemory-policy noeviction").await;
    server.run_command::<()>("CONFIG SET maxmemory 1").await;
    let refused = store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Refused(text) if text.contains("OOM")), "{refused}");
    server.run_command::<()>("CONFIG SET maxmemory 0").await;
    let reply =
        wait_until(async || store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL).await.ok())
            .await;
    assert_eq!(reply.outcomes[0].remaining, 3, "what was refused was not charged");
}

/// A server that is full and evicts nothing refuses writes. It knows all counters, so it can still deny.
#[tokio::test]
async fn a_server_out_of_memory_denies_what_is_over_the_limit() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let (limit, lock) =
        (counter("full", "3 per 1000d"), counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1h}"));
    for _ in 0..3 {
        assert!(check(&store, "used", &limit, 1).await.is_allowed());
    }
    let lock_plan = plan(&[charge("door", &lock, 1)]);
    assert!(store.acquire(&lock_plan, None).await.unwrap().lease.is_some());
    let denied_before = check(&store, "used", &limit, 1).await;

    let _: String = server.run_command("CONFIG SET maxmemory 1").await;
    for _ in 0..5 {
        let denied = check(&store, "used", &limit, 1).await;
        assert!(!denied.is_allowed() && denied.remaining == denied_before.remaining, "{denied:?}");
        assert!(denied.retry_after <= denied_before.retry_after && denied.retry_after > Wait::NONE);
        let second = store.acquire(&lock_plan, None).await.unwrap();
        assert!(second.lease.is_none() && second.outcomes[0].kind == OutcomeKind::Denied);
        // It cannot be charged, so it cannot be admitted.
        let free = store.check(&plan(&[charge("free", &limit, 1)]), Cacheable::NONE).await.unwrap_err();
        assert!(matches!(&free, StoreError::Refused(text) if text.contains("OOM")), "{free}");
        // In one call with plans that are admitted, too.
        let pending: Vec<_> = ["free", "used", "free", "used"]
            .iter()
            .map(|key| store.check(&plan(&[charge(key, &limit, 1)]), Cacheable::NONE))
            .collect();
        let mut denials = 0;
        for pending in pending {
            denials +=
                usize::from(pending.await.is_ok_and(|reply| reply.outcomes[0].kind == OutcomeKind::Denied));
        }
        assert_eq!(denials, 2);
    }
    assert_eq!(store.stats().failures.away, 0, "the breaker stays closed");

    let _: String = server.run_command("CONFIG SET maxmemory 0").await;
    assert_eq!(check(&store, "free", &limit, 1).await.remaining, 2);
}
