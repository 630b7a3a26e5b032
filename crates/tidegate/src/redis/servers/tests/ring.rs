use std::collections::BTreeSet;
use std::time::Duration;

use super::{BreakerState, add, connected_with, heard, key, refused};
use crate::redis::ConnectErrorKind as Kind;
use crate::redis::testing::{RedisProcess, free_port, until};

const TAGS: usize = 60;

fn tags() -> impl Iterator<Item = String> {
    (0..TAGS).map(|number| format!("user:{number}"))
}

#[tokio::test]
async fn every_member_has_its_share_and_the_next_takes_over() {
    let mut members = Vec::new();
    for _ in 0..3 {
        members.push(RedisProcess::start());
    }
    let url =
        format!("redis+ring://{}", members.iter().map(|one| one.address()).collect::<Vec<_>>().join(","));
    let (settings, told) = heard(&url, Duration::from_secs(2));
    let servers = connected_with(&settings).await;
    for tag in tags() {
        assert_eq!(add(&servers, &tag, 1).await, Ok(1), "{tag}");
    }
    let sizes: Vec<usize> =
        members.iter().map(|one| one.cli(&["DBSIZE"]).trim().parse().expect("a number")).collect();
    assert!(sizes.iter().all(|&size| size > 0) && sizes.iter().sum::<usize>() == TAGS, "{sizes:?}");
    assert_eq!(servers.stats().moved_to_next, 0);

    // The order in the URL does not matter.
    let turned = format!(
        "redis+ring://{}",
        members.iter().rev().map(|one| one.address()).collect::<Vec<_>>().join(",")
    );
    let others = super::connected(&turned).await;
    for tag in tags() {
        assert_eq!(add(&others, &tag, 1).await, Ok(2), "{tag}");
    }

    let places: Vec<_> = tags().map(|tag| servers.place(tag.as_bytes()).server).collect();
    members[1].kill();
    until("the member is found to be away", async || {
        for tag in tags() {
            let _ = add(&servers, &tag, 0).await;
        }
        super::breakers(&servers).contains(&BreakerState::Open)
    })
    .await;
    let dead =
        places.iter().find(|place| servers.stats().servers[place.index()].breaker == BreakerState::Open);
    let (dead, moved) = (*dead.expect("a dead member"), servers.stats().moved_to_next);
    let mut heirs = BTreeSet::new();
    for (tag, before) in tags().zip(&places) {
        let now = servers.place(tag.as_bytes()).server;
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
    assert!(servers.stats().moved_to_next > moved);
    assert!(!told.lock().expect("a lock").is_empty());

    members[1].restart();
    until("the member is back", async || !super::breakers(&servers).contains(&BreakerState::Open)).await;
    let again: Vec<_> = tags().map(|tag| servers.place(tag.as_bytes()).server).collect();
    assert_eq!(again, places);
    assert_eq!(members[1].cli(&["EXISTS", &key("user:0")]).trim(), "0");
}

#[tokio::test]
async fn a_member_that_is_away_at_the_start() {
    let there = RedisProcess::start();
    let nobody = free_port();
    let (settings, told) =
        heard(&format!("redis+ring://{},127.0.0.1:{nobody}", there.address()), Duration::from_secs(5));
    let servers = connected_with(&settings).await;
    assert_eq!(told.lock().expect("a lock").len(), 1);
    for tag in tags() {
        assert_eq!(add(&servers, &tag, 1).await, Ok(1));
    }
    assert!(servers.stats().moved_to_next > 0);

    let error = refused(&format!("redis+ring://127.0.0.1:{nobody}")).await;
    assert_eq!(error.kind(), Kind::Unreachable);
    // A wrong password does not go away by itself.
    let locked = RedisProcess::with(&["--requirepass", "pw"]);
    let error = refused(&format!("redis+ring://{},{}", there.address(), locked.address())).await;
    assert_eq!(error.kind(), Kind::Denied);
    assert!(error.to_string().contains(&locked.address()), "{error}");
}
