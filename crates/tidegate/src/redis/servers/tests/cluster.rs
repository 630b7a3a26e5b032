use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{
    BreakerState, LONG_TIMEOUT, SendError, Servers, StoreEvent, add, add_all, connect, connect_with, settings_with_log,
    key,
};
use crate::redis::servers::slot::{slot_of, tag_for_slot};
use crate::redis::testing::{RedisCluster, wait_until};

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
    // Any of its servers will do to begin with.
    for node in &cluster.nodes {
        let servers = connect(&format!("redis-cluster://{}", node.address())).await;
        assert_eq!(add(&servers, "user:0", 0).await, Ok(1));
    }
}

#[tokio::test]
async fn a_master_that_is_killed_is_replaced_by_its_replica() {
    let mut cluster = RedisCluster::start().await;
    let (settings, told) = settings_with_log(&cluster.url(), Duration::from_secs(2));
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
    wait_until("the dead one is forgotten", async || {
        servers.stats().servers.iter().all(|server| *server.address != *dead)
    })
    .await;
    assert!(told.lock().expect("a lock").contains(&StoreEvent::LeftCluster { address: dead.into() }));
    assert_eq!(servers.stats().servers.len(), 3);
    wait_until("all work", async || super::breakers(&servers).iter().all(|one| *one == BreakerState::Closed))
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

    // One key is still here, one is there already, and a call for both has to wait.
    assert_eq!(add(&servers, &tag, 1).await, Ok(2));
    assert_eq!(servers.stats().total.redirects, 0);
    assert_eq!(add_key(&servers, &[&moves]).await, Ok(41));
    assert_eq!(servers.stats().total.redirects, 1);
    let waits = {
        let (servers, keys) = (servers.clone(), [stays.clone(), moves.clone()]);
        tokio::spawn(async move { add_key(&servers, &[&keys[0], &keys[1]]).await })
    };
    wait_until("it was refused", async || servers.stats().total.redirects > 3).await;
    let migrated = cluster.nodes[from].cli(&["MIGRATE", "127.0.0.1", &port, &stays, "0", "5000"]);
    assert_eq!(migrated.trim(), "OK");
    assert_eq!(waits.await.expect("no panic"), Ok(3));

    for node in [to, from] {
        cluster.nodes[node].cli(&["CLUSTER", "SETSLOT", "7", "NODE", &to_id]);
    }
    assert_eq!(add(&servers, &tag, 1).await, Ok(4));
    let redirects = servers.stats().total.redirects;
    assert_eq!(add(&servers, &tag, 1).await, Ok(5));
    assert_eq!(servers.stats().total.redirects, redirects, "it was noted where the slot is");
}

/// Adds 1 to the first of these keys, which are all in one slot.
async fn add_key(servers: &Servers, keys: &[&str]) -> Result<i64, SendError> {
    let tag = keys[0].split(['{', '}']).nth(1).expect("a tag");
    let place = servers.locate(tag.as_bytes());
    let mut command = redis::cmd("EVALSHA");
    command.arg(servers.sha(0)).arg(keys.len()).arg(keys).arg(1);
    let sent = super::SlotCommand { slot: place.slot, command };
    match servers.send(place.server, vec![sent]).await.remove(0)? {
        redis::Value::Int(sum) => Ok(sum),
        other => panic!("{other:?}"),
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
            let mut rounds = 0i64;
            while !moved.load(Ordering::Relaxed) {
                rounds += 1;
                // As a desk does it: whatever is at one server goes there in one round.
                let mut left: Vec<_> = tags.iter().map(|tag| (tag.as_str(), 1)).collect();
                while let Some(&(first, _)) = left.first() {
                    let server = servers.locate(first.as_bytes()).server;
                    let (here, elsewhere): (Vec<_>, _) =
                        left.into_iter().partition(|(tag, _)| servers.locate(tag.as_bytes()).server == server);
                    for (sum, (tag, _)) in add_all(&servers, &here).await.into_iter().zip(&here) {
                        assert_eq!(sum, Ok(rounds), "{tag} in slot {}", slot_of(tag.as_bytes()));
                    }
                    left = elsewhere;
                }
            }
            rounds
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
    while let Some(rounds) = workers.join_next().await {
        assert!(rounds.expect("no panic") > 0);
    }
    assert!(servers.stats().total.redirects > 0, "nothing that was counted moved");
    assert_eq!(servers.stats().total.failures, 0);
}

#[tokio::test]
async fn a_stopped_master_does_not_affect_the_others() {
    let cluster = RedisCluster::start().await;
    let (settings, _) = settings_with_log(&cluster.url(), Duration::from_millis(500));
    let servers = connect_with(&settings).await;
    let tags: Vec<_> = (0..60).map(|number| format!("user:{number}")).collect();
    let victim = servers.locate(tags[0].as_bytes()).server;
    let stopped = cluster.owner(&key(&tags[0]));
    cluster.nodes[stopped].pause();
    wait_until("its breaker opens", async || {
        let _ = add(&servers, &tags[0], 1).await;
        super::breakers(&servers).contains(&BreakerState::Open)
    })
    .await;
    let other = tags.iter().find(|tag| servers.locate(tag.as_bytes()).server != victim).expect("another");
    wait_until("others work", async || add(&servers, other, 1).await.is_ok()).await;
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
