use std::time::Duration;

use super::{
    ADD, BreakerState, SendError, Servers, StoreEvent, Told, add, breakers, connected, heard, until_all_are,
};
use crate::redis::testing::{RedisCluster, RedisProcess, RedisSentinels, free_port, until};
use crate::redis::{ConnectError, ConnectErrorKind as Kind};

/// A server that was away has to answer this soon before it is used.
const TIMEOUT: Duration = Duration::from_secs(2);

async fn lazy(url: &str) -> (std::sync::Arc<Servers>, Told) {
    let (settings, told) = heard(url, TIMEOUT);
    let servers = Servers::connect_lazy(&settings, &[ADD]).unwrap_or_else(|error| panic!("{error}"));
    (servers, told)
}

fn told(told: &Told) -> Vec<StoreEvent> {
    told.lock().expect("a lock").clone()
}

fn connect_error(servers: &Servers) -> Option<ConnectError> {
    servers.stats().servers[0].connect_error.clone()
}

async fn until_first_attempt_failed(servers: &Servers, heard: &Told) -> ConnectError {
    until("the first attempt fails", async || !told(heard).is_empty()).await;
    connect_error(servers).expect("an error")
}

#[tokio::test]
async fn a_server_that_starts_later_is_found() {
    let mut redis = RedisProcess::start();
    redis.kill();
    let (servers, heard) = lazy(&redis.url()).await;
    assert_eq!(breakers(&servers), [BreakerState::Open]);
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
    let error = until_first_attempt_failed(&servers, &heard).await;
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    // Further attempts fail in the same way and are counted, not told.
    until("it was tried again", async || servers.stats().total.failures >= 3).await;
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));

    redis.restart();
    until_all_are(&servers, BreakerState::Closed).await;
    until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!((connect_error(&servers), servers.stats().total.reconnects), (None, 0));
    let (address, told) = (redis.address().into_boxed_str(), told(&heard));
    let [StoreEvent::Opened { address: opened, why }, StoreEvent::Closed { address: closed }] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!((opened, closed), (&address, &address));
    assert!(why.contains("(hint: nothing listens there"), "{why}");
}

#[tokio::test]
async fn nothing_is_told_of_a_server_that_is_there() {
    let redis = RedisProcess::start();
    let (servers, heard) = lazy(&redis.url()).await;
    until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(told(&heard), []);
}

#[tokio::test]
async fn a_wrong_password_is_told_and_tried_again() {
    let redis = RedisProcess::with(&["--requirepass", "right"]);
    let (servers, heard) = lazy(&format!("redis://:wr0ng@{}", redis.address())).await;
    let error = until_first_attempt_failed(&servers, &heard).await;
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    let said = format!("{:?}", told(&heard));
    assert!(said.contains("WRONGPASS") && said.contains("hint: ") && !said.contains("wr0ng"), "{said}");
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
    redis.cli(&["CONFIG", "SET", "requirepass", "wr0ng"]);
    until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(told(&heard).len(), 2);
}

#[tokio::test]
async fn a_wrong_password_is_told_although_the_server_was_away_before() {
    let mut redis = RedisProcess::with(&["--requirepass", "right"]);
    redis.kill();
    let (servers, heard) = lazy(&format!("redis://:wr0ng@{}", redis.address())).await;
    let error = until_first_attempt_failed(&servers, &heard).await;
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    redis.restart();
    until("the other error is told", async || told(&heard).len() == 2).await;
    let told = told(&heard);
    let StoreEvent::ConnectFailed { address, why } = &told[1] else { panic!("{told:?}") };
    assert!(**address == *redis.address() && why.contains("WRONGPASS"), "{told:?}");
    assert_eq!(connect_error(&servers).map(|error| error.kind()), Some(Kind::Denied));
}

#[tokio::test]
async fn members_of_a_ring_are_found_one_by_one() {
    let (there, mut later) = (RedisProcess::start(), RedisProcess::start());
    later.kill();
    let (servers, _) = lazy(&format!("redis+ring://{},{}", there.address(), later.address())).await;
    until("one is found", async || breakers(&servers).contains(&BreakerState::Closed)).await;
    for tag in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(add(&servers, tag, 1).await, Ok(1), "{tag}");
    }
    later.restart();
    until_all_are(&servers, BreakerState::Closed).await;
}

#[tokio::test]
async fn sentinels_are_asked_in_the_background() {
    let (servers, heard) = lazy(&format!("redis+sentinel://127.0.0.1:{}/m", free_port())).await;
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
    let error = until_first_attempt_failed(&servers, &heard).await;
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");

    let watched = RedisSentinels::start().await;
    let (servers, heard) = lazy(&watched.url()).await;
    until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(*servers.stats().servers[0].address, watched.servers[0].address());
    assert_eq!(told(&heard), []);
}

#[tokio::test]
async fn a_cluster_that_starts_later_is_found() {
    let mut cluster = RedisCluster::start().await;
    cluster.nodes.iter_mut().for_each(|node| node.kill());
    let (servers, heard) = lazy(&cluster.url()).await;
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
    let error = until_first_attempt_failed(&servers, &heard).await;
    assert_eq!((error.kind(), breakers(&servers)), (Kind::Unreachable, vec![BreakerState::Open]));

    cluster.nodes.iter_mut().for_each(|node| node.restart());
    for tag in ["a", "b", "c", "d", "e", "f"] {
        until("it works", async || add(&servers, tag, 1).await.is_ok()).await;
    }
    assert_eq!(servers.stats().servers.len(), 3);
    let seed = cluster.nodes[0].address().into_boxed_str();
    let told = told(&heard);
    assert!(matches!(&told[0], StoreEvent::Opened { address, .. } if *address == seed), "{told:?}");
    assert!(told.contains(&StoreEvent::Closed { address: seed }), "{told:?}");
    // The same as one that was connected at once.
    let others = connected(&cluster.url()).await;
    assert!(add(&others, "a", 1).await.expect("a sum") >= 2);
}

#[tokio::test]
async fn a_cluster_url_on_a_single_server_is_told() {
    let redis = RedisProcess::start();
    let (servers, heard) = lazy(&format!("redis-cluster://{}", redis.address())).await;
    let error = until_first_attempt_failed(&servers, &heard).await;
    assert_eq!((error.kind(), breakers(&servers)), (Kind::WrongKind, vec![BreakerState::Open]));
    assert!(
        matches!(&told(&heard)[0], StoreEvent::Opened { why, .. } if why.contains("not part of a cluster"))
    );
    assert_eq!(add(&servers, "a", 1).await, Err(SendError::Away));
}
