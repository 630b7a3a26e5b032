//! Real Sentinels: failover, unknown masters and passwords.

use std::time::Duration;

use super::{
    LONG_TIMEOUT, Servers, StoreEvent, add, connect, connect_error_of, connect_with, settings_with_log,
};
use crate::redis::ConnectErrorKind as Kind;
use crate::redis::testing::{Passwords, RedisSentinels, wait_until};

#[tokio::test]
async fn the_master_is_found_and_found_again_after_a_failover() {
    let mut group = RedisSentinels::start().await;
    let (settings, events) = settings_with_log(&group.url(), Duration::from_secs(2));
    let servers = connect_with(&settings).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));
    assert_eq!(*servers.stats().servers[0].address, group.servers[0].address());
    wait_until("the replica has it", async || group.servers[1].cli(&["GET", &super::key("a")]).trim() == "1")
        .await;

    // One Sentinel is gone as well.
    group.kill_sentinel(0);
    group.servers[0].kill();
    wait_until("the replica is master, and used", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(add(&servers, "a", 0).await, Ok(2), "nothing was lost");
    assert_eq!(*servers.stats().servers[0].address, group.servers[1].address());
    let events = events.lock().expect("a lock").clone();
    let changed = StoreEvent::MasterChanged {
        from: group.servers[0].address().into(),
        to: group.servers[1].address().into(),
    };
    assert!(events.contains(&changed), "{events:?}");
}

#[tokio::test]
async fn a_failover_while_the_old_master_runs() {
    let group = RedisSentinels::start().await;
    let (settings, _) = settings_with_log(&group.url(), LONG_TIMEOUT);
    let servers = connect_with(&settings).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));
    group.failover();
    wait_until("the other one is used", async || {
        let _ = add(&servers, "a", 1).await;
        *servers.stats().servers[0].address == *group.servers[1].address()
    })
    .await;
    wait_until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
}

/// Without traffic that the old master would refuse, and without periodic checks.
#[tokio::test]
async fn a_planned_failover_is_announced() {
    let group = RedisSentinels::start().await;
    let (settings, events) = settings_with_log(&group.url(), LONG_TIMEOUT);
    let servers = Servers::connect(&settings, &[]).await.expect("a connection");
    wait_until("it has subscribed", async || {
        (0..3).any(|number| group.sentinel_cli(number, &["CLIENT", "LIST"]).contains(" sub=1 "))
    })
    .await;
    group.failover();
    wait_until("the other one is used", async || {
        *servers.stats().servers[0].address == *group.servers[1].address()
    })
    .await;
    let events = events.lock().expect("a lock").clone();
    assert!(matches!(&events[..], [StoreEvent::MasterChanged { .. }]), "{events:?}");
}

#[tokio::test]
async fn an_unknown_master_name() {
    let group = RedisSentinels::start().await;
    let url = group.url().replace(RedisSentinels::MASTER, "another");
    let error = connect_error_of(&url).await;
    assert_eq!(error.kind(), Kind::WrongKind);
    assert!(error.message().contains("`another`") && error.hint().contains("sentinel monitor"), "{error}");

    // A Sentinel is not a single server.
    let sentinel = group.url().replace("redis+sentinel", "redis");
    let first = sentinel.split(',').next().expect("a server");
    let error = connect_error_of(first).await;
    assert_eq!(error.kind(), Kind::WrongKind);
    assert!(error.message().contains("Sentinel"), "{error}");
    let _ = connect(&group.url()).await;
}

#[tokio::test]
async fn servers_and_sentinels_with_passwords() {
    let passwords = Passwords { servers: "s3rvers", sentinels: "s3ntinels" };
    let mut group = RedisSentinels::start_with(Some(passwords)).await;
    let url = |of_servers: &str, of_sentinels: &str| {
        let url = group.url().replacen("://", &format!("://:{of_servers}@"), 1);
        format!("{url}?sentinel_password={of_sentinels}")
    };
    for (url, text) in [
        (group.url(), "NOAUTH"),
        (url("s3rvers", "wr0ng"), "WRONGPASS"),
        (url("wr0ng", "s3ntinels"), "WRONGPASS"),
        // The password of the servers does not log in to the Sentinels.
        (group.url().replacen("://", "://:s3rvers@", 1), "NOAUTH"),
    ] {
        let error = connect_error_of(&url).await;
        assert_eq!(error.kind(), Kind::AccessDenied, "{error}");
        assert!(error.message().contains(text), "{error}");
        assert!(
            !["s3rvers", "s3ntinels", "wr0ng"].iter().any(|word| error.to_string().contains(word)),
            "{error}"
        );
    }

    let servers =
        connect_with(&settings_with_log(&url("s3rvers", "s3ntinels"), Duration::from_secs(2)).0).await;
    wait_until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
    group.servers[0].kill();
    wait_until("the replica is master, and used", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(*servers.stats().servers[0].address, group.servers[1].address());
}
