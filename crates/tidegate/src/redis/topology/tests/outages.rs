//! Servers that stop, break or reply late: breakers, probes and reconnects.

use std::time::Duration;

use super::{
    BreakerState, SendError, StoreEvent, WriteState, add, connect_with, key, settings_with_log,
    wait_until_breakers,
};
use crate::redis::testing::{RedisProcess, SlowProxy, wait_until};

/// Short enough for a test, long enough for a busy machine.
const SOON: Duration = Duration::from_millis(400);

#[tokio::test]
async fn a_stopped_server_is_not_used_until_it_continues() {
    let redis = RedisProcess::start();
    let (settings, events) = settings_with_log(&redis.url(), SOON);
    let servers = connect_with(&settings).await;
    wait_until("it works", async || add(&servers, "a", 1).await.is_ok()).await;

    redis.pause();
    for failure in 1..=3 {
        assert_eq!(add(&servers, "b", 1).await, Err(SendError::NoReply), "{failure}");
    }
    assert_eq!(super::breakers(&servers), [BreakerState::Open]);
    let pipelines = servers.stats().total.pipelines;
    for _ in 0..100 {
        assert_eq!(add(&servers, "b", 1).await, Err(SendError::Away));
    }
    assert_eq!(servers.stats().total.pipelines, pipelines, "nothing is sent");

    redis.resume();
    wait_until_breakers(&servers, BreakerState::Closed).await;
    wait_until("it works again", async || add(&servers, "a", 1).await.is_ok()).await;
    // The lost commands may have run, once each: nothing was sent again.
    let added: i64 = redis.cli(&["GET", &key("b")]).trim().parse().unwrap_or(0);
    assert!(added <= 3, "{added}");

    let events = events.lock().expect("a lock").clone();
    let address = redis.address().into_boxed_str();
    assert!(events.len() >= 2, "{events:?}");
    let StoreEvent::BreakerOpened { address: opened, reason } = &events[0] else { panic!("{events:?}") };
    assert!(*opened == address && reason.contains("no reply within"), "{events:?}");
    assert_eq!(events[1], StoreEvent::BreakerClosed { address });
}

#[tokio::test]
async fn a_killed_server_is_not_used_until_it_restarts() {
    let mut redis = RedisProcess::start();
    let (settings, events) = settings_with_log(&redis.url(), SOON);
    let servers = connect_with(&settings).await;
    redis.kill();
    wait_until("the breaker opens", async || {
        let error = add(&servers, "a", 1).await.expect_err("there is no server");
        assert!(matches!(error, SendError::NoReply | SendError::Away), "{error:?}");
        super::breakers(&servers) == [BreakerState::Open]
    })
    .await;
    redis.restart();
    wait_until_breakers(&servers, BreakerState::Closed).await;
    wait_until("it works again", async || add(&servers, "a", 1).await.is_ok()).await;
    let events = events.lock().expect("a lock").clone();
    assert!(
        matches!(events[0], StoreEvent::BreakerOpened { .. })
            && matches!(events[1], StoreEvent::BreakerClosed { .. }),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_server_out_of_memory_is_still_used() {
    let redis = RedisProcess::start();
    let (settings, events) = settings_with_log(&redis.url(), Duration::from_secs(5));
    let servers = connect_with(&settings).await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for _ in 0..5 {
        let refused = add(&servers, "a", 1).await;
        assert!(
            matches!(&refused, Err(SendError::WriteRefused(text)) if text.contains("OOM")),
            "{refused:?}"
        );
    }
    assert_eq!(super::breakers(&servers), [BreakerState::Closed]);
    assert_eq!(servers.stats().servers[0].writes, WriteState::Refused);
    // A new connection is used as well.
    redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    wait_until("it is connected", async || {
        matches!(add(&servers, "a", 1).await, Err(SendError::WriteRefused(_)))
    })
    .await;

    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    wait_until("writes are accepted", async || servers.stats().servers[0].writes == WriteState::Accepted)
        .await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));
    let events = events.lock().expect("a lock").clone();
    let [StoreEvent::WritesRefused { reason, .. }, StoreEvent::WritesAccepted { .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(reason.contains("OOM"), "{reason}");
}

#[tokio::test]
async fn a_master_that_became_a_replica_is_not_used() {
    let (redis, result) = (RedisProcess::start(), RedisProcess::start());
    let (settings, _) = settings_with_log(&redis.url(), Duration::from_secs(5));
    let servers = connect_with(&settings).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));
    redis.cli(&["REPLICAOF", "127.0.0.1", &result.port.to_string()]);
    let refused = add(&servers, "a", 1).await;
    assert!(matches!(&refused, Err(SendError::Refused(text)) if text.contains("READONLY")), "{refused:?}");
    wait_until_breakers(&servers, BreakerState::Open).await;
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    wait_until_breakers(&servers, BreakerState::Closed).await;
    assert!(add(&servers, "a", 1).await.is_ok());
}

#[tokio::test]
async fn a_stopped_server_does_not_accumulate_pipelines() {
    let redis = RedisProcess::start();
    let (settings, _) = settings_with_log(&redis.url(), SOON);
    let servers = connect_with(&settings).await;
    redis.pause();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let servers = servers.clone();
        tasks.spawn(async move { add(&servers, "a", 1).await });
    }
    while let Some(result) = tasks.join_next().await {
        match result.expect("no panic") {
            Err(SendError::NoReply | SendError::Away | SendError::Overloaded) => {}
            result => panic!("{result:?}"),
        }
    }
    let sent = servers.stats().total.pipelines;
    // The maximum in flight, and those that replaced the first late ones.
    assert!(sent < 32 + 3, "{sent}");
    redis.resume();
    wait_until_breakers(&servers, BreakerState::Closed).await;
}

#[tokio::test]
async fn a_server_that_answers_late_keeps_its_breaker_open() {
    let redis = RedisProcess::start();
    let proxy = SlowProxy::to(redis.port).await;
    let (settings, events) = settings_with_log(&proxy.url(), Duration::from_millis(50));
    let servers = connect_with(&settings).await;
    proxy.set_delay(Duration::from_millis(100));
    wait_until_open(&servers).await;
    let opened = events.lock().expect("a lock").len();
    let failures = servers.stats().total.failures;
    wait_until("it was probed twice", async || servers.stats().total.failures >= failures + 2).await;
    assert_eq!(events.lock().expect("a lock").len(), opened, "it did not open and close again");
    assert_eq!(super::breakers(&servers), [BreakerState::Open]);
    proxy.set_delay(Duration::ZERO);
    wait_until_breakers(&servers, BreakerState::Closed).await;
}

#[tokio::test]
async fn a_distant_server_is_reconnected() {
    let redis = RedisProcess::start();
    let proxy = SlowProxy::to(redis.port).await;
    let (settings, _) = settings_with_log(&proxy.url(), super::LONG_TIMEOUT);
    let servers = connect_with(&settings).await;
    // At least three replies must arrive before a connection is used.
    proxy.set_delay(Duration::from_millis(250));
    proxy.disconnect_all();
    wait_until("there is another connection", async || servers.stats().total.reconnects == 1).await;
    assert!(add(&servers, "a", 1).await.is_ok());
}

#[tokio::test]
async fn a_command_that_may_have_run_is_not_resent() {
    let redis = RedisProcess::start();
    let proxy = SlowProxy::to(redis.port).await;
    let (settings, _) = settings_with_log(&proxy.url(), super::LONG_TIMEOUT);
    let servers = connect_with(&settings).await;
    proxy.set_delay(Duration::from_secs(3600));
    let pending = tokio::spawn({
        let servers = servers.clone();
        async move { add(&servers, "a", 1).await }
    });
    wait_until("it was run", async || redis.cli(&["GET", &key("a")]).trim() == "1").await;
    proxy.set_delay(Duration::ZERO);
    proxy.disconnect_all();
    assert_eq!(pending.await.expect("no panic"), Err(SendError::NoReply));
    wait_until("there is another connection", async || add(&servers, "b", 1).await.is_ok()).await;
    assert_eq!(add(&servers, "a", 0).await, Ok(1));
}

#[tokio::test]
async fn a_server_that_accepts_and_hangs_up_opens_the_breaker() {
    let redis = RedisProcess::start();
    let proxy = SlowProxy::to(redis.port).await;
    let (settings, _) = settings_with_log(&proxy.url(), super::LONG_TIMEOUT);
    let servers = connect_with(&settings).await;
    proxy.disconnect_on(&key("cut"));
    for failure in 1..=3 {
        assert_eq!(add(&servers, "cut", 1).await, Err(SendError::NoReply), "{failure}");
    }
    assert_eq!(super::breakers(&servers), [BreakerState::Open]);
    proxy.allow_all();
    wait_until_breakers(&servers, BreakerState::Closed).await;
    wait_until("it works again", async || add(&servers, "cut", 1).await.is_ok()).await;
}

#[tokio::test]
async fn short_lived_connections_are_reopened_with_a_pause() {
    const CUTS: u64 = 5;
    let redis = RedisProcess::start();
    let proxy = SlowProxy::to(redis.port).await;
    let (settings, _) = settings_with_log(&proxy.url(), super::LONG_TIMEOUT);
    let servers = connect_with(&settings).await;
    let started = tokio::time::Instant::now();
    for cut in 1..=CUTS {
        proxy.disconnect_all();
        wait_until("there is another connection", async || servers.stats().total.reconnects == cut).await;
    }
    // Every short-lived connection except the first two was opened after a pause, or lasted longer than one.
    let duration_min = Duration::from_millis(300) * u32::try_from(CUTS - 2).expect("a small number");
    assert!(started.elapsed() >= duration_min, "{:?}", started.elapsed());
    assert!(add(&servers, "a", 1).await.is_ok());
}

/// How long the breaker was open because of a stall that ended as soon as it was open.
async fn breaker_open_time(redis: &RedisProcess, servers: &super::Servers) -> Duration {
    redis.pause();
    // At the same time, so that the breaker opens less than a second after the connection.
    let failures = tokio::join!(add(servers, "a", 1), add(servers, "a", 1), add(servers, "a", 1));
    assert_eq!(failures, (Err(SendError::NoReply), Err(SendError::NoReply), Err(SendError::NoReply)));
    wait_until_open(servers).await;
    let opened = tokio::time::Instant::now();
    redis.resume();
    wait_until_breakers(servers, BreakerState::Closed).await;
    opened.elapsed()
}

/// A busy machine can be slow at any moment, so one of several attempts is enough.
#[tokio::test]
async fn after_two_short_stalls_the_server_is_used_sooner_than_after_an_outage() {
    const ATTEMPTS_MAX: usize = 8;
    /// Between attempts in an outage.
    const PROBE_PAUSE_MIN: Duration = Duration::from_millis(300);
    let redis = RedisProcess::start();
    let mut open_times = Vec::new();
    for _ in 0..ATTEMPTS_MAX {
        let servers = connect_with(&settings_with_log(&redis.url(), SOON).0).await;
        breaker_open_time(&redis, &servers).await;
        open_times.push(breaker_open_time(&redis, &servers).await);
        if open_times.last() < Some(&PROBE_PAUSE_MIN) {
            return;
        }
    }
    panic!("{open_times:?}");
}

async fn wait_until_open(servers: &super::Servers) {
    wait_until("the breaker opens", async || {
        let _ = add(servers, "a", 1).await;
        super::breakers(servers) == [BreakerState::Open]
    })
    .await;
}
