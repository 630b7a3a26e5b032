//! What is answered when Redis does not answer, or cannot.

use std::time::Duration;

use tidegate::{StoreError, OutcomeKind};

use super::server::{RedisServer, wait_until};
use super::setup::{Cacheable, StoreExt, charge, check, counter, plan, store, store_with};

/// Short enough to wait for, long enough for a machine that has other things to do.
const SHORT: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_stopped_server_is_a_timeout_and_the_limit_holds() {
    let server = RedisServer::start();
    let (store, counter) = (store_with(&server.url(), SHORT).await, counter("still", "50 per 1000d"));
    let one = || store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::NONE);
    let mut admitted = 0;
    for _ in 0..10 {
        admitted +=
            u64::from(wait_until(async || one().await.ok()).await.outcomes[0].kind == OutcomeKind::Allowed);
    }
    server.pause();
    let before = tokio::time::Instant::now();
    let asked: Vec<_> = (0..100).map(|_| one()).collect();
    for asked in asked {
        let failure = asked.await.unwrap_err();
        assert!(matches!(failure, StoreError::TimedOut | StoreError::BreakerOpen), "{failure}");
    }
    // All waited at the same time; this is for a machine that stands still itself.
    assert!(before.elapsed() < SHORT * 20, "{:?}", before.elapsed());
    let failures = store.stats().failures;
    assert_eq!(failures.timed_out + failures.away, 100);
    server.resume();
    // It is found again by itself, and what was sent before it stood still may have been charged.
    wait_until(async || one().await.ok()).await;
    loop {
        match one().await {
            Ok(settled) if settled.outcomes[0].kind == OutcomeKind::Allowed => admitted += 1,
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
    let asked: Vec<_> =
        (0..20_000).map(|_| store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::NONE)).collect();
    for asked in asked {
        asked.await.unwrap_err();
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
    for made in 1..=DECISIONS {
        assert_eq!(check(&store, "key", &counter, 1).await.remaining, 1000 - made);
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
    for put in [format!("SET {name} nonsense"), format!("DEL {name}"), format!("LPUSH {name} 1")] {
        server.run_command::<redis::Value>(&put).await;
    }
    let beside = charge("other", &counter, 1);
    let asked = store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL);
    let other = store.check(&plan(&[beside]), Cacheable::ALL);
    assert_eq!(asked.await.unwrap_err(), StoreError::Unreadable(name.as_str().into()));
    assert_eq!(
        other.await.unwrap().outcomes[0].remaining,
        4,
        "others in the same call are not touched by it"
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
    assert!(matches!(&refused, StoreError::Refused(said) if said.contains("OOM")), "{refused}");
    server.run_command::<()>("CONFIG SET maxmemory 0").await;
    let settled =
        wait_until(async || store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL).await.ok())
            .await;
    assert_eq!(settled.outcomes[0].remaining, 3, "what was refused was not charged");
}
