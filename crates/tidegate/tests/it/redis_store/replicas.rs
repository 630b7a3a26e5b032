//! Decisions that wait for replicas, and replicas that do not answer.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::Limiter;
use tidegate::redis::{EventHook, RedisSettings, RedisStore, StoreEvent};

use super::server::{RedisServer, wait_until};
use super::setup::{counter, remaining};

/// How often `WAIT` was called.
async fn waits(server: &RedisServer) -> u64 {
    let stats: String = server.run_command("INFO commandstats").await;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

async fn waiting_store(server: &RedisServer, timeout: Duration) -> (RedisStore, Arc<Mutex<Vec<StoreEvent>>>) {
    let events = Arc::<Mutex<Vec<StoreEvent>>>::default();
    let mut settings = RedisSettings::new(server.url().parse().unwrap());
    settings.timeout = timeout;
    settings.wait_replicas = NonZeroU32::new(1);
    let log = events.clone();
    settings.on_event = Some(EventHook::new(move |event| log.lock().unwrap().push(event)));
    (RedisStore::connect(settings).await.unwrap(), events)
}

#[tokio::test]
async fn without_replicas_redis_still_decides_and_answers_are_marked() {
    const DECISIONS: u64 = 300;
    let master = RedisServer::start();
    // A quarter of it is the wait for replicas.
    let (store, events) = waiting_store(&master, Duration::from_millis(800)).await;
    let limiter = Limiter::builder().limit("300 per 1000d").store(store.clone()).build().unwrap();
    let before = waits(&master).await;
    for _ in 0..DECISIONS {
        let decision = limiter.check("key", 1).await;
        assert!(decision.is_allowed() && !decision.degraded && decision.unreplicated, "{decision:?}");
    }
    // One decision waited, and then only background checks did.
    let waited = waits(&master).await - before;
    assert!(waited < DECISIONS / 10, "{waited} waits");
    let denied = limiter.check("key", 1).await;
    assert!(!denied.is_allowed() && !denied.degraded && !denied.unreplicated, "{denied:?}");
    assert!(store.stats().servers.replicas_short >= DECISIONS);
    let address = master.address().into_boxed_str();
    assert_eq!(*events.lock().unwrap(), [StoreEvent::ReplicasShort { address: address.clone() }]);

    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let mut user = 0;
    wait_until(async || {
        user += 1;
        let decision = limiter.check(format!("user:{user}"), 1).await;
        (!decision.unreplicated && !decision.degraded).then_some(())
    })
    .await;
    assert_eq!(events.lock().unwrap()[1], StoreEvent::ReplicasBack { address });
    drop(replica);
}

#[tokio::test]
async fn commands_after_a_late_wait_are_not_held_back() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    // A quarter of it, as in the code. A command that is held back takes at least as long.
    const WAIT: Duration = TIMEOUT.checked_div(4).unwrap();
    // A busy machine can delay any one command, but what holds back commands does so after each late wait.
    const ATTEMPTS_MAX: u32 = 5;
    let master = RedisServer::start();
    let counter = counter("limit", "9 per 1000d");
    let mut delays = Vec::new();
    while !delays.iter().any(|delay| *delay < WAIT / 2) {
        assert!(delays.len() < ATTEMPTS_MAX as usize, "held back after each late wait: {delays:?}");
        // The late wait is that of the first heartbeat, which is sent before the store is returned.
        let connecting = tokio::time::Instant::now();
        let (store, _) = waiting_store(&master, TIMEOUT).await;
        assert!(connecting.elapsed() >= WAIT, "{:?}", connecting.elapsed());
        assert_eq!(store.stats().servers.replicas_short, 1);

        // Redis ends the wait when it gets a command, and then runs that command.
        let limiter = Limiter::builder().limit("9 per 1000d").store(store.clone()).build().unwrap();
        let first = tokio::time::Instant::now();
        let decision = limiter.check(format!("key:{}", delays.len()), 1).await;
        assert!(decision.unreplicated && !decision.degraded, "{decision:?}");
        assert_eq!(remaining(&store, "another", &counter).await, 9);
        delays.push(first.elapsed());
    }
}
