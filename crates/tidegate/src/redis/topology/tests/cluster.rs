//! A real cluster: slots, failover, migration and resharding under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{
    BreakerState, LONG_TIMEOUT, SendError, Servers, StoreEvent, add, add_all, connect, connect_with, key,
    locate, settings_with_log,
};
use crate::redis::testing::{RedisCluster, wait_until};
use crate::redis::topology::hash_slot::{slot_of, tag_for_slot};

#[tokio::test]
async fn keys_go_to_the_servers_of_their_slots() {
    let cluster = RedisCluster::start().await;
    let servers = connect(&cluster.url()).await;
    assert_eq!(servers.stats().servers.len(), 3);
    for number in 0..200 {
        assert_eq!(add(&servers, &format!("user:{number}"), 1).await, Ok(1));
    }
    let counts = servers.stats().total;
    assert_eq!((counts.redirects, counts.failures), (0, 0));
    // Any server of the cluster is a valid seed.
    for node in &cluster.nodes {
        let servers = connect(&format!("redis-cluster://{}", node.address())).await;
        assert_eq!(add(&servers, "user:0", 0).await, Ok(1));
    }
}

#[tokio::test]
async fn a_master_that_is_killed_is_replaced_by_its_replica() {
    let mut cluster = RedisCluster::start().await;
    let (settings, events) = settings_with_log(&cluster.url(), Duration::from_secs(2));
    let servers = connect_with(&settings).await;
    let tags: Vec<_> = (0..30).map(|number| format!("user:{number}")).collect();
    for tag in &tags {
        assert_eq!(add(&servers, tag, 1).await, Ok(1));
    }
    let victim = cluster.owner(&key(&tags[0]));
    cluster.wait_until_replicated(victim).await;
    cluster.nodes[victim].kill();
    for tag in &tags {
        wait_until("the key can be counted again", async || add(&servers, tag, 1).await.is_ok()).await;
    }
    assert!(add(&servers, &tags[0], 0).await.expect("a sum") >= 2);
    let dead = cluster.nodes[victim].address();
    wait_until("the dead server is removed", async || {
        servers.stats().servers.iter().all(|server| *server.address != *dead)
    })
    .await;
    assert!(events.lock().expect("a lock").contains(&StoreEvent::LeftCluster { address: dead.into() }));
    assert_eq!(servers.stats().servers.len(), 3);
    wait_until("all work", async || {
        super::breakers(&servers).iter().all(|state| *state == BreakerState::Closed)
    })
    .await;
}

#[tokio::test]
async fn a_slot_during_migration() {
    let cluster = RedisCluster::start().await;
    let servers = connect(&cluster.url()).await;
    let tag = tag_for_slot(7);
    let (moves, stays) = (format!("tg:1{{{tag}}}moves"), key(&tag));
    let from = cluster.owner(&stays);
    let to = cluster.masters().into_iter().find(|&node| node != from).expect("another");
    assert_eq!(add(&servers, &tag, 1).await, Ok(1));
    cluster.nodes[from].cli(&["SET", &moves, "40"]);

    let (from_id, to_id) = (cluster.node_id(from), cluster.node_id(to));
    cluster.nodes[to].cli(&["CLUSTER", "SETSLOT", "7", "IMPORTING", &from_id]);
    cluster.nodes[from].cli(&["CLUSTER", "SETSLOT", "7", "MIGRATING", &to_id]);
    let port = cluster.nodes[to].port.to_string();
    let migrated = cluster.nodes[from].cli(&["MIGRATE", "127.0.0.1", &port, &moves, "0", "5000"]);
    assert_eq!(migrated.trim(), "OK");

    // One key is still here, one has moved already, and a call for both must wait.
    assert_eq!(add(&servers, &tag, 1).await, Ok(2));
    assert_eq!(servers.stats().total.redirects, 0);
    assert_eq!(add_key(&servers, &[&moves]).await, Ok(41));
    assert_eq!(servers.stats().total.redirects, 1);
    let waiting = {
        let (servers, keys) = (servers.clone(), [stays.clone(), moves.clone()]);
        tokio::spawn(async move { add_key(&servers, &[&keys[0], &keys[1]]).await })
    };
    wait_until("it was refused", async || servers.stats().total.redirects > 3).await;
    let migrated = cluster.nodes[from].cli(&["MIGRATE", "127.0.0.1", &port, &stays, "0", "5000"]);
    assert_eq!(migrated.trim(), "OK");
    assert_eq!(waiting.await.expect("no panic"), Ok(3));

    for node in [to, from] {
        cluster.nodes[node].cli(&["CLUSTER", "SETSLOT", "7", "NODE", &to_id]);
    }
    assert_eq!(add(&servers, &tag, 1).await, Ok(4));
    let redirects = servers.stats().total.redirects;
    assert_eq!(add(&servers, &tag, 1).await, Ok(5));
    assert_eq!(servers.stats().total.redirects, redirects, "the new owner of the slot is known");
}

/// Adds 1 to the first of these keys, which are all in one slot.
async fn add_key(servers: &Servers, keys: &[&str]) -> Result<i64, SendError> {
    let tag = keys[0].split(['{', '}']).nth(1).expect("a tag");
    let location = locate(servers, tag);
    let mut command = redis::cmd("EVALSHA");
    command.arg(servers.sha(0)).arg(keys.len()).arg(keys).arg(1);
    let slot_command = super::SlotCommand { slot: location.slot, command };
    match servers.send(location.server, vec![slot_command]).await.results.remove(0)? {
        redis::Value::Int(sum) => Ok(sum),
        value => panic!("{value:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resharding_under_load_loses_nothing_and_counts_nothing_twice() {
    let cluster = RedisCluster::start().await;
    let (settings, _) = settings_with_log(&cluster.url(), LONG_TIMEOUT);
    let servers = connect_with(&settings).await;
    let (moved, rest) = (Arc::new(AtomicBool::new(false)), 40);
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let (servers, moved) = (servers.clone(), moved.clone());
        workers.spawn(async move {
            let tags: Vec<_> = (0..rest).map(|number| format!("w{worker}:{number}")).collect();
            let mut expected_sum = 0i64;
            while !moved.load(Ordering::Relaxed) {
                expected_sum += 1;
                // As a batcher does: all commands for one server go in one pipeline.
                let mut left: Vec<_> = tags.iter().map(|tag| (tag.as_str(), 1)).collect();
                while let Some(&(first, _)) = left.first() {
                    let server = locate(&servers, first).server;
                    let (on_server, on_others): (Vec<_>, _) =
                        left.into_iter().partition(|(tag, _)| locate(&servers, tag).server == server);
                    for (sum, (tag, _)) in add_all(&servers, &on_server).await.into_iter().zip(&on_server) {
                        assert_eq!(sum, Ok(expected_sum), "{tag} in slot {}", slot_of(tag.as_bytes()));
                    }
                    left = on_others;
                }
            }
            expected_sum
        });
    }
    let masters = cluster.masters();
    let (from, to) = (cluster.node_id(masters[0]), cluster.node_id(masters[1]));
    let address = cluster.nodes[0].address();
    let reshard = tokio::task::spawn_blocking(move || {
        std::process::Command::new("redis-cli")
            .args(["--cluster", "reshard", &address, "--cluster-from", &from, "--cluster-to", &to])
            .args(["--cluster-slots", "600", "--cluster-yes"])
            .output()
    });
    let output = reshard.await.expect("no panic").expect("redis-cli");
    moved.store(true, Ordering::Relaxed);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    while let Some(expected_sum) = workers.join_next().await {
        assert!(expected_sum.expect("no panic") > 0);
    }
    assert!(servers.stats().total.redirects > 0, "no counted key moved");
    assert_eq!(servers.stats().total.failures, 0);
}

#[tokio::test]
async fn a_stopped_master_does_not_affect_the_others() {
    let cluster = RedisCluster::start().await;
    let (settings, _) = settings_with_log(&cluster.url(), Duration::from_millis(500));
    let servers = connect_with(&settings).await;
    let tags: Vec<_> = (0..60).map(|number| format!("user:{number}")).collect();
    let victim = locate(&servers, &tags[0]).server;
    let stopped = cluster.owner(&key(&tags[0]));
    cluster.nodes[stopped].pause();
    wait_until("its breaker opens", async || {
        let _ = add(&servers, &tags[0], 1).await;
        super::breakers(&servers).contains(&BreakerState::Open)
    })
    .await;
    let value = tags.iter().find(|tag| locate(&servers, tag).server != victim).expect("another");
    wait_until("the other masters work", async || add(&servers, value, 1).await.is_ok()).await;
    cluster.nodes[stopped].resume();
    wait_until("all work", async || {
        for tag in &tags {
            if add(&servers, tag, 1).await.is_err() {
                return false;
            }
        }
        true
    })
    .await;
}
