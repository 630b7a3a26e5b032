//! Stores that connect in the background, and the events that they report.

use std::time::Duration;

use super::{
    ADD, BreakerState, EventLog, SendError, Servers, StoreEvent, add, breakers, connect, settings_with_log,
    wait_until_breakers,
};
use crate::redis::testing::{RedisCluster, RedisProcess, RedisSentinels, free_port, wait_until};
use crate::redis::{ConnectError, ConnectErrorKind as Kind};

/// A server that was down must reply within this time before it is used.
const TIMEOUT: Duration = Duration::from_secs(2);

async fn connect_lazy(url: &str) -> (std::sync::Arc<Servers>, EventLog) {
    let (settings, events) = settings_with_log(url, TIMEOUT);
    let servers = Servers::connect_lazy(&settings, &[ADD]).unwrap_or_else(|error| panic!("{error}"));
    (servers, events)
}

fn recorded_events(events: &EventLog) -> Vec<StoreEvent> {
    events.lock().expect("a lock").clone()
}

fn connect_error(servers: &Servers) -> Option<ConnectError> {
    servers.stats().servers[0].connect_error.clone()
}

async fn wait_for_first_failure(servers: &Servers, log: &EventLog) -> ConnectError {
    wait_until("the first attempt fails", async || !recorded_events(log).is_empty()).await;
    connect_error(servers).expect("an error")
}

#[tokio::test]
async fn a_server_that_starts_later_is_found() {
    let mut redis = RedisProcess::start();
    redis.kill();
    let (servers, log) = connect_lazy(&redis.url()).await;
    assert_eq!(breakers(&servers), [BreakerState::Open]);
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
    let error = wait_for_first_failure(&servers, &log).await;
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    // Further attempts fail in the same way. They are counted, but not reported.
    wait_until("it was tried again", async || servers.stats().total.failures >= 3).await;
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));

    redis.restart();
    wait_until_breakers(&servers, BreakerState::Closed).await;
    wait_until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!((connect_error(&servers), servers.stats().total.reconnects), (None, 0));
    let (address, events) = (redis.address().into_boxed_str(), recorded_events(&log));
    let [
        StoreEvent::BreakerOpened { address: opened, reason },
        StoreEvent::BreakerClosed { address: closed },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((opened, closed), (&address, &address));
    assert!(reason.contains("(hint: nothing listens there"), "{reason}");
}

#[tokio::test]
async fn a_reachable_server_causes_no_event() {
    let redis = RedisProcess::start();
    let (servers, log) = connect_lazy(&redis.url()).await;
    wait_until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(recorded_events(&log), []);
}

#[tokio::test]
async fn a_wrong_password_is_reported_and_retried() {
    let redis = RedisProcess::start_with(&["--requirepass", "right"]);
    let (servers, log) = connect_lazy(&format!("redis://:wr0ng@{}", redis.address())).await;
    let error = wait_for_first_failure(&servers, &log).await;
    assert_eq!(error.kind(), Kind::AccessDenied, "{error}");
    let events_text = format!("{:?}", recorded_events(&log));
    assert!(
        events_text.contains("WRONGPASS") && events_text.contains("hint: ") && !events_text.contains("wr0ng"),
        "{events_text}"
    );
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
    redis.cli(&["CONFIG", "SET", "requirepass", "wr0ng"]);
    wait_until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(recorded_events(&log).len(), 2);
}

#[tokio::test]
async fn a_wrong_password_is_reported_after_an_outage() {
    let mut redis = RedisProcess::start_with(&["--requirepass", "right"]);
    redis.kill();
    let (servers, log) = connect_lazy(&format!("redis://:wr0ng@{}", redis.address())).await;
    let error = wait_for_first_failure(&servers, &log).await;
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    redis.restart();
    wait_until("the other error is reported", async || recorded_events(&log).len() == 2).await;
    let events = recorded_events(&log);
    let StoreEvent::ConnectFailed { address, reason } = &events[1] else { panic!("{events:?}") };
    assert!(**address == *redis.address() && reason.contains("WRONGPASS"), "{events:?}");
    assert_eq!(connect_error(&servers).map(|error| error.kind()), Some(Kind::AccessDenied));
}

#[tokio::test]
async fn ring_members_connect_one_by_one() {
    let (up, mut later) = (RedisProcess::start(), RedisProcess::start());
    later.kill();
    let (servers, _) = connect_lazy(&format!("redis+ring://{},{}", up.address(), later.address())).await;
    wait_until("one is found", async || breakers(&servers).contains(&BreakerState::Closed)).await;
    for tag in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(add(&servers, tag, 1).await, Ok(1), "{tag}");
    }
    later.restart();
    wait_until_breakers(&servers, BreakerState::Closed).await;
}

#[tokio::test]
async fn sentinels_are_queried_in_the_background() {
    let (servers, log) = connect_lazy(&format!("redis+sentinel://127.0.0.1:{}/m", free_port())).await;
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
    let error = wait_for_first_failure(&servers, &log).await;
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");

    let watched = RedisSentinels::start().await;
    let (servers, log) = connect_lazy(&watched.url()).await;
    wait_until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(*servers.stats().servers[0].address, watched.servers[0].address());
    assert_eq!(recorded_events(&log), []);
}

#[tokio::test]
async fn a_cluster_that_starts_later_is_found() {
    let mut cluster = RedisCluster::start().await;
    cluster.nodes.iter_mut().for_each(|node| node.kill());
    let (servers, log) = connect_lazy(&cluster.url()).await;
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
    let error = wait_for_first_failure(&servers, &log).await;
    assert_eq!((error.kind(), breakers(&servers)), (Kind::Unreachable, vec![BreakerState::Open]));

    cluster.nodes.iter_mut().for_each(|node| node.restart());
    for tag in ["a", "b", "c", "d", "e", "f"] {
        wait_until("it works", async || add(&servers, tag, 1).await.is_ok()).await;
    }
    assert_eq!(servers.stats().servers.len(), 3);
    let seed = cluster.nodes[0].address().into_boxed_str();
    let events = recorded_events(&log);
    assert!(
        matches!(&events[0], StoreEvent::BreakerOpened { address, .. } if *address == seed),
        "{events:?}"
    );
    assert!(events.contains(&StoreEvent::BreakerClosed { address: seed }), "{events:?}");
    // It has the same data as a store that connected at once.
    let others = connect(&cluster.url()).await;
    assert!(add(&others, "a", 1).await.expect("a sum") >= 2);
}

#[tokio::test]
async fn a_cluster_url_on_a_single_server_is_reported() {
    let redis = RedisProcess::start();
    let (servers, log) = connect_lazy(&format!("redis-cluster://{}", redis.address())).await;
    let error = wait_for_first_failure(&servers, &log).await;
    assert_eq!((error.kind(), breakers(&servers)), (Kind::WrongKind, vec![BreakerState::Open]));
    assert!(
        matches!(&recorded_events(&log)[0], StoreEvent::BreakerOpened { reason, .. } if reason.contains("not part of a cluster"))
    );
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
}
