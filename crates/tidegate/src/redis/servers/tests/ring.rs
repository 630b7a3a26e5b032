use std::collections::BTreeSet;
use std::time::Duration;

use super::{BreakerState, add, connect_with, settings_with_log, key, connect_error_of};
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
    let url =
        format!("redis+ring://{}", members.iter().map(|one| one.address()).collect::<Vec<_>>().join(","));
    let (settings, told) = settings_with_log(&url, Duration::from_secs(2));
    let servers = connect_with(&settings).await;
    for tag in tags() {
        assert_eq!(add(&servers, &tag, 1).await, Ok(1), "{tag}");
    }
    let sizes: Vec<usize> =
        members.iter().map(|one| one.cli(&["DBSIZE"]).trim().parse().expect("a number")).collect();
    assert!(sizes.iter().all(|&size| size > 0) && sizes.iter().sum::<usize>() == TAGS, "{sizes:?}");
    assert_eq!(servers.stats().ring_moved, 0);

    // The order in the URL does not matter.
    let turned = format!(
        "redis+ring://{}",
        members.iter().rev().map(|one| one.address()).collect::<Vec<_>>().join(",")
    );
    let others = super::connect(&turned).await;
    for tag in tags() {
        assert_eq!(add(&others, &tag, 1).await, Ok(2), "{tag}");
    }

    let places: Vec<_> = tags().map(|tag| servers.locate(tag.as_bytes()).server).collect();
    members[1].kill();
    wait_until("the member is found to be away", async || {
        for tag in tags() {
            let _ = add(&servers, &tag, 0).await;
        }
        super::breakers(&servers).contains(&BreakerState::Open)
    })
    .await;
    let dead =
        places.iter().find(|place| servers.stats().servers[place.index()].breaker == BreakerState::Open);
    let (dead, moved) = (*dead.expect("a dead member"), servers.stats().ring_moved);
    let mut heirs = BTreeSet::new();
    for (tag, before) in tags().zip(&places) {
        let now = servers.locate(tag.as_bytes()).server;
        assert!(now == *before || *before == dead, "{tag}: only keys of the dead member move");
        assert_ne!(now, dead);
        if *before == dead {
            heirs.insert(now);
            assert_eq!(add(&servers, &tag, 1).await, Ok(1), "{tag} begins anew");
        } else {
            assert!(add(&servers, &tag, 0).await.expect("a sum") >= 2);
        }
    }
    assert_eq!(heirs.len(), 2, "both others take over");
    assert!(servers.stats().ring_moved > moved);
    assert!(!told.lock().expect("a lock").is_empty());

    members[1].restart();
    wait_until("the member is back", async || !super::breakers(&servers).contains(&BreakerState::Open)).await;
    let again: Vec<_> = tags().map(|tag| servers.locate(tag.as_bytes()).server).collect();
    assert_eq!(again, places);
    assert_eq!(members[1].cli(&["EXISTS", &key("user:0")]).trim(), "0");
}

#[tokio::test]
async fn a_member_that_is_down_at_startup() {
    let there = RedisProcess::start();
    let nobody = free_port();
    let (settings, told) =
        settings_with_log(&format!("redis+ring://{},127.0.0.1:{nobody}", there.address()), Duration::from_secs(5));
    let servers = connect_with(&settings).await;
    assert_eq!(told.lock().expect("a lock").len(), 1);
    for tag in tags() {
        assert_eq!(add(&servers, &tag, 1).await, Ok(1));
    }
    assert!(servers.stats().ring_moved > 0);

    let error = connect_error_of(&format!("redis+ring://127.0.0.1:{nobody}")).await;
    assert_eq!(error.kind(), Kind::Unreachable);
    // A wrong password does not go away by itself.
    let locked = RedisProcess::start_with(&["--requirepass", "pw"]);
    let error = connect_error_of(&format!("redis+ring://{},{}", there.address(), locked.address())).await;
    assert_eq!(error.kind(), Kind::AccessDenied);
    assert!(error.to_string().contains(&locked.address()), "{error}");
}
