//! A ring of real servers, with members that go down and come back.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{BreakerState, add, connect_error_of, connect_with, key, locate, settings_with_log};
use crate::redis::ConnectErrorKind as Kind;
use crate::redis::testing::{RedisProcess, free_port, wait_until};

const TAGS: usize = 60;

fn tags() -> impl Iterator<Item = String> {
    (0..TAGS).map(|number| format!("user:{number}"))
}

#[tokio::test]
async fn each_member_has_a_share_and_the_next_takes_over() {
    let mut members = Vec::new();
    for _ in 0..3 {
        members.push(RedisProcess::start());
    }
    let url = format!(
        "redis+ring://{}",
        members.iter().map(|member| member.address()).collect::<Vec<_>>().join(",")
    );
    let (settings, events) = settings_with_log(&url, Duration::from_secs(2));
    let servers = connect_with(&settings).await;
    for tag in tags() {
        assert_eq!(add(&servers, &tag, 1).await, Ok(1), "{tag}");
    }
    let sizes: Vec<usize> =
        members.iter().map(|member| member.cli(&["DBSIZE"]).trim().parse().expect("a number")).collect();
    assert!(sizes.iter().all(|&size| size > 0) && sizes.iter().sum::<usize>() == TAGS, "{sizes:?}");
    assert_eq!(servers.stats().ring_moved, 0);

    // The order in the URL does not matter.
    let reversed_url = format!(
        "redis+ring://{}",
        members.iter().rev().map(|member| member.address()).collect::<Vec<_>>().join(",")
    );
    let reversed = super::connect(&reversed_url).await;
    for tag in tags() {
        assert_eq!(add(&reversed, &tag, 1).await, Ok(2), "{tag}");
    }

    let locations: Vec<_> = tags().map(|tag| locate(&servers, &tag).server).collect();
    members[1].kill();
    wait_until("the member is found to be down", async || {
        for tag in tags() {
            let _ = add(&servers, &tag, 0).await;
        }
        super::breakers(&servers).contains(&BreakerState::Open)
    })
    .await;
    let dead = locations
        .iter()
        .find(|location| servers.stats().servers[location.index()].breaker == BreakerState::Open);
    let (dead, moved) = (*dead.expect("a dead member"), servers.stats().ring_moved);
    let mut successors = BTreeSet::new();
    for (tag, before) in tags().zip(&locations) {
        let now = locate(&servers, &tag).server;
        assert!(now == *before || *before == dead, "{tag}: only keys of the dead member move");
        assert_ne!(now, dead);
        if *before == dead {
            successors.insert(now);
            assert_eq!(add(&servers, &tag, 1).await, Ok(1), "{tag} starts from zero");
        } else {
            assert!(add(&servers, &tag, 0).await.expect("a sum") >= 2);
        }
    }
    assert_eq!(successors.len(), 2, "both others take over");
    assert!(servers.stats().ring_moved > moved);
    assert!(!events.lock().expect("a lock").is_empty());

    members[1].restart();
    wait_until("the member is back", async || !super::breakers(&servers).contains(&BreakerState::Open)).await;
    let locations_again: Vec<_> = tags().map(|tag| locate(&servers, &tag).server).collect();
    assert_eq!(locations_again, locations);
    assert_eq!(members[1].cli(&["EXISTS", &key("user:0")]).trim(), "0");
}

#[tokio::test]
async fn a_member_that_is_down_at_startup() {
    let up = RedisProcess::start();
    let unused_port = free_port();
    let (settings, events) = settings_with_log(
        &format!("redis+ring://{},127.0.0.1:{unused_port}", up.address()),
        Duration::from_secs(5),
    );
    let servers = connect_with(&settings).await;
    assert_eq!(events.lock().expect("a lock").len(), 1);
    for tag in tags() {
        assert_eq!(add(&servers, &tag, 1).await, Ok(1));
    }
    assert!(servers.stats().ring_moved > 0);

    let error = connect_error_of(&format!("redis+ring://127.0.0.1:{unused_port}")).await;
    assert_eq!(error.kind(), Kind::Unreachable);
    // A wrong password is a lasting error.
    let locked = RedisProcess::start_with(&["--requirepass", "pw"]);
    let error = connect_error_of(&format!("redis+ring://{},{}", up.address(), locked.address())).await;
    assert_eq!(error.kind(), Kind::AccessDenied);
    assert!(error.to_string().contains(&locked.address()), "{error}");
}
