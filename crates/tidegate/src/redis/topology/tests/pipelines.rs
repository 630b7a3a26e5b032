//! Pipelines, lost scripts and replicas on a single server.

use super::{
    LONG_TIMEOUT, SendError, SlotCommand, add, add_all, add_command, connect, connect_with, key, locate,
    settings,
};
use crate::redis::testing::{RedisProcess, wait_until};
use crate::redis::topology::{KeyLocation, ServerId, Servers};

#[tokio::test]
async fn replies_of_a_pipeline_are_in_order() {
    let redis = RedisProcess::start();
    let servers = connect(&redis.url()).await;
    assert_eq!(locate(&servers, "anything"), KeyLocation { server: ServerId::FIRST, slot: 0 });
    let sums = add_all(&servers, &[("a", 1), ("b", 20), ("a", 300), ("b", 4000)]).await;
    assert_eq!(sums, [Ok(1), Ok(20), Ok(301), Ok(4020)]);
    assert_eq!(servers.send(ServerId::FIRST, Vec::new()).await.results, []);

    let stats = servers.stats();
    assert_eq!((stats.total.pipelines, stats.total.commands), (1, 4));
    assert_eq!((stats.total.failures, stats.total.reconnects), (0, 0));
    assert_eq!(*stats.servers[0].address, redis.address());
    // The probe leaves nothing behind.
    assert_eq!(redis.cli(&["DBSIZE"]).trim(), "2");
}

#[tokio::test]
async fn the_database_is_selected() {
    let redis = RedisProcess::start();
    let servers = connect(&format!("{}/7", redis.url())).await;
    assert_eq!(add(&servers, "a", 5).await, Ok(5));
    assert_eq!(redis.cli(&["-n", "7", "GET", &key("a")]).trim(), "5");
    assert_eq!(redis.cli(&["GET", &key("a")]).trim(), "");
}

#[tokio::test]
async fn a_lost_script_is_reloaded_and_nothing_runs_twice() {
    let redis = RedisProcess::start();
    let servers = connect(&redis.url()).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));
    redis.cli(&["SCRIPT", "FLUSH"]);
    // In a pipeline where the first command runs and the others must be sent again.
    let mut increment = redis::cmd("INCR");
    increment.arg(key("plain"));
    let commands = vec![
        SlotCommand { slot: 0, command: increment },
        add_command(&servers, "a", 1),
        add_command(&servers, "a", 1),
        add_command(&servers, "a", 1),
    ];
    let replies = servers.send(ServerId::FIRST, commands).await;
    let numbers: Vec<_> = replies.results.into_iter().map(|reply| reply.expect("a reply")).collect();
    assert_eq!(numbers, [1, 2, 3, 4].map(redis::Value::Int));
    let counts = servers.stats().total;
    assert_eq!((counts.scripts_reloaded, counts.failures, counts.redirects), (1, 0, 0));
}

#[tokio::test]
async fn a_restarted_server_is_reconnected() {
    let mut redis = RedisProcess::start();
    let servers = connect(&redis.url()).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));
    redis.restart();
    wait_until("it works again", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(add(&servers, "a", 0).await, Ok(1));
    assert!(servers.stats().total.reconnects > 0);
}

#[tokio::test]
async fn an_error_of_one_key_does_not_open_the_breaker() {
    let redis = RedisProcess::start();
    redis.cli(&["RPUSH", &key("list"), "x"]);
    let servers = connect(&redis.url()).await;
    for _ in 0..5 {
        let replies = add_all(&servers, &[("list", 1), ("a", 1)]).await;
        let Err(SendError::Refused(text)) = &replies[0] else { panic!("{replies:?}") };
        assert!(text.contains("WRONGTYPE"), "{text}");
        assert!(replies[1].is_ok());
    }
    let counts = servers.stats().total;
    assert_eq!((counts.failures, counts.refused), (0, 5));
    assert_eq!(add(&servers, "a", 0).await, Ok(5));
}

#[tokio::test]
async fn missing_replicas_are_counted() {
    let master = RedisProcess::start();
    let replica = RedisProcess::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    wait_until("the replica is in step", async || {
        master.cli(&["INFO", "replication"]).contains("state=online")
    })
    .await;
    let mut wait_settings = settings(&master.url(), LONG_TIMEOUT);
    wait_settings.wait_replicas = std::num::NonZeroU32::new(1);
    let servers = connect_with(&wait_settings).await;
    assert_eq!(add_all(&servers, &[("a", 1), ("a", 1)]).await, [Ok(1), Ok(2)]);
    assert_eq!(servers.stats().replicas_short, 0);
    assert_eq!(replica.cli(&["GET", &key("a")]).trim(), "2");

    // With less time, because the wait for replicas takes a part of the timeout.
    wait_settings.timeout = std::time::Duration::from_secs(2);
    let servers = connect_with(&wait_settings).await;
    replica.pause();
    assert_eq!(add(&servers, "a", 1).await, Ok(3));
    assert_eq!(servers.stats().replicas_short, 1);
    replica.resume();
}

#[tokio::test]
async fn tasks_end_when_servers_are_dropped() {
    let redis = RedisProcess::start();
    let clients = || redis.cli(&["CLIENT", "LIST"]).matches("cmd=evalsha").count();
    let servers: std::sync::Arc<Servers> = connect(&redis.url()).await;
    assert_eq!(clients(), 1);
    drop(servers);
    wait_until("the connection is closed", async || clients() == 0).await;
}
