use std::time::Duration;

use super::{BreakerState, SendError, StoreEvent, add, connected_with, heard, key, until_all_are};
use crate::redis::testing::{RedisProcess, SlowLink, until};

/// Short enough for a test, long enough for a busy machine.
const SOON: Duration = Duration::from_millis(400);

#[tokio::test]
async fn a_stopped_server_is_left_alone_until_it_goes_on() {
    let redis = RedisProcess::start();
    let (settings, told) = heard(&redis.url(), SOON);
    let servers = connected_with(&settings).await;
    until("it works", async || add(&servers, "a", 1).await.is_ok()).await;

    redis.stop();
    for failure in 1..=3 {
        assert_eq!(add(&servers, "b", 1).await, Err(SendError::Lost), "{failure}");
    }
    assert_eq!(super::breakers(&servers), [BreakerState::Open]);
    let rounds = servers.stats().total.rounds;
    for _ in 0..100 {
        assert_eq!(add(&servers, "b", 1).await, Err(SendError::Away));
    }
    assert_eq!(servers.stats().total.rounds, rounds, "nothing is sent");

    redis.go_on();
    until_all_are(&servers, BreakerState::Closed).await;
    until("it works again", async || add(&servers, "a", 1).await.is_ok()).await;
    // What was lost may have been run, once each: nothing was sent again.
    let added: i64 = redis.cli(&["GET", &key("b")]).trim().parse().unwrap_or(0);
    assert!(added <= 3, "{added}");

    let told = told.lock().expect("a lock").clone();
    let address = redis.address().into_boxed_str();
    assert!(told.len() >= 2, "{told:?}");
    let StoreEvent::Opened { address: opened, why } = &told[0] else { panic!("{told:?}") };
    assert!(*opened == address && why.contains("no reply within"), "{told:?}");
    assert_eq!(told[1], StoreEvent::Closed { address });
}

#[tokio::test]
async fn a_killed_server_is_left_alone_and_found_again() {
    let mut redis = RedisProcess::start();
    let (settings, told) = heard(&redis.url(), SOON);
    let servers = connected_with(&settings).await;
    redis.kill();
    until("the breaker opens", async || {
        let failed = add(&servers, "a", 1).await.expect_err("there is no server");
        assert!(matches!(failed, SendError::Lost | SendError::Away), "{failed:?}");
        super::breakers(&servers) == [BreakerState::Open]
    })
    .await;
    redis.restart();
    until_all_are(&servers, BreakerState::Closed).await;
    until("it works again", async || add(&servers, "a", 1).await.is_ok()).await;
    let told = told.lock().expect("a lock").clone();
    assert!(
        matches!(told[0], StoreEvent::Opened { .. }) && matches!(told[1], StoreEvent::Closed { .. }),
        "{told:?}"
    );
}

#[tokio::test]
async fn out_of_memory_opens_the_breaker_and_it_stays_open_until_there_is_some() {
    let redis = RedisProcess::start();
    let (settings, told) = heard(&redis.url(), Duration::from_secs(5));
    let servers = connected_with(&settings).await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let before = servers.stats().total.reconnects;
    for _ in 0..3 {
        let refused = add(&servers, "a", 1).await;
        assert!(matches!(&refused, Err(SendError::Refused(said)) if said.contains("OOM")), "{refused:?}");
    }
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
    // It is asked now and then, and found to be out of memory still.
    let failures = servers.stats().total.failures;
    until("it was probed twice", async || servers.stats().total.failures >= failures + 2).await;
    assert_eq!(super::breakers(&servers), [BreakerState::Open]);
    assert_eq!(servers.stats().total.reconnects, before);

    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    until_all_are(&servers, BreakerState::Closed).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));
    assert_eq!(told.lock().expect("a lock").len(), 2);
}

#[tokio::test]
async fn a_master_that_became_a_replica_is_not_used() {
    let (redis, other) = (RedisProcess::start(), RedisProcess::start());
    let (settings, _) = heard(&redis.url(), Duration::from_secs(5));
    let servers = connected_with(&settings).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));
    redis.cli(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
    let refused = add(&servers, "a", 1).await;
    assert!(matches!(&refused, Err(SendError::Refused(said)) if said.contains("READONLY")), "{refused:?}");
    until_all_are(&servers, BreakerState::Open).await;
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    until_all_are(&servers, BreakerState::Closed).await;
    assert!(add(&servers, "a", 1).await.is_ok());
}

#[tokio::test]
async fn a_stopped_server_does_not_gather_rounds() {
    let redis = RedisProcess::start();
    let (settings, _) = heard(&redis.url(), SOON);
    let servers = connected_with(&settings).await;
    redis.stop();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let servers = servers.clone();
        all.spawn(async move { add(&servers, "a", 1).await });
    }
    while let Some(one) = all.join_next().await {
        match one.expect("no panic") {
            Err(SendError::Lost | SendError::Away | SendError::Crowded) => {}
            other => panic!("{other:?}"),
        }
    }
    let sent = servers.stats().total.rounds;
    // As many as may be in flight, and those that took the place of the first that were late.
    assert!(sent < 32 + 3, "{sent}");
    redis.go_on();
    until_all_are(&servers, BreakerState::Closed).await;
}

#[tokio::test]
async fn a_server_that_answers_too_late_is_not_taken_to_be_back() {
    let redis = RedisProcess::start();
    let link = SlowLink::to(redis.port).await;
    let (settings, told) = heard(&link.url(), Duration::from_millis(50));
    let servers = connected_with(&settings).await;
    link.hold(Duration::from_millis(100));
    until_open(&servers).await;
    let opened = told.lock().expect("a lock").len();
    let failures = servers.stats().total.failures;
    until("it was probed twice", async || servers.stats().total.failures >= failures + 2).await;
    assert_eq!(told.lock().expect("a lock").len(), opened, "it did not open and close again");
    assert_eq!(super::breakers(&servers), [BreakerState::Open]);
    link.hold(Duration::ZERO);
    until_all_are(&servers, BreakerState::Closed).await;
}

#[tokio::test]
async fn a_server_that_is_far_away_is_found_again() {
    let redis = RedisProcess::start();
    let link = SlowLink::to(redis.port).await;
    let (settings, _) = heard(&link.url(), super::NEVER_LATE);
    let servers = connected_with(&settings).await;
    // Three replies and more have to come before a connection is used.
    link.hold(Duration::from_millis(250));
    link.cut();
    until("there is another connection", async || servers.stats().total.reconnects == 1).await;
    assert!(add(&servers, "a", 1).await.is_ok());
}

#[tokio::test]
async fn what_may_have_been_run_is_not_sent_again() {
    let redis = RedisProcess::start();
    let link = SlowLink::to(redis.port).await;
    let (settings, _) = heard(&link.url(), super::NEVER_LATE);
    let servers = connected_with(&settings).await;
    link.hold(Duration::from_secs(3600));
    let adding = tokio::spawn({
        let servers = servers.clone();
        async move { add(&servers, "a", 1).await }
    });
    until("it was run", async || redis.cli(&["GET", &key("a")]).trim() == "1").await;
    link.hold(Duration::ZERO);
    link.cut();
    assert_eq!(adding.await.expect("no panic"), Err(SendError::Lost));
    until("there is another connection", async || add(&servers, "b", 1).await.is_ok()).await;
    assert_eq!(add(&servers, "a", 0).await, Ok(1));
}

#[tokio::test]
async fn a_server_that_lets_everybody_in_and_then_hangs_up_is_left_alone() {
    let redis = RedisProcess::start();
    let link = SlowLink::to(redis.port).await;
    let (settings, _) = heard(&link.url(), super::NEVER_LATE);
    let servers = connected_with(&settings).await;
    link.cut_off_who_sends(&key("cut"));
    for failure in 1..=3 {
        assert_eq!(add(&servers, "cut", 1).await, Err(SendError::Lost), "{failure}");
    }
    assert_eq!(super::breakers(&servers), [BreakerState::Open]);
    link.forgive();
    until_all_are(&servers, BreakerState::Closed).await;
    until("it works again", async || add(&servers, "cut", 1).await.is_ok()).await;
}

#[tokio::test]
async fn connections_that_break_at_once_are_not_made_again_and_again_without_a_pause() {
    const CUTS: u64 = 5;
    let redis = RedisProcess::start();
    let link = SlowLink::to(redis.port).await;
    let (settings, _) = heard(&link.url(), super::NEVER_LATE);
    let servers = connected_with(&settings).await;
    let began = tokio::time::Instant::now();
    for cut in 1..=CUTS {
        link.cut();
        until("there is another connection", async || servers.stats().total.reconnects == cut).await;
    }
    // Each connection but the first two of those that did not last was made after a pause, or else lasted for longer than one.
    let least = Duration::from_millis(300) * u32::try_from(CUTS - 2).expect("a small number");
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    assert!(add(&servers, "a", 1).await.is_ok());
}

async fn until_open(servers: &super::Servers) {
    until("the breaker opens", async || {
        let _ = add(servers, "a", 1).await;
        super::breakers(servers) == [BreakerState::Open]
    })
    .await;
}
