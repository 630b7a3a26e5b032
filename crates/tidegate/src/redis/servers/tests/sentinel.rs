use std::time::Duration;

use super::{LONG_TIMEOUT, StoreEvent, add, connect, connect_with, settings_with_log, connect_error_of};
use crate::redis::ConnectErrorKind as Kind;
use crate::redis::testing::{Passwords, RedisSentinels, wait_until};

#[tokio::test]
async fn the_master_is_found_and_found_again_after_a_failover() {
    let mut watched = RedisSentinels::start().await;
    let (settings, told) = settings_with_log(&watched.url(), Duration::from_secs(2));
    let servers = connect_with(&settings).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));
    assert_eq!(*servers.stats().servers[0].address, watched.servers[0].address());
    wait_until("the replica has it", async || watched.servers[1].cli(&["GET", &super::key("a")]).trim() == "1")
        .await;

    // One of those who know is gone as well.
    watched.kill_sentinel(0);
    watched.servers[0].kill();
    wait_until("the replica is master, and used", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(add(&servers, "a", 0).await, Ok(2), "nothing was lost");
    assert_eq!(*servers.stats().servers[0].address, watched.servers[1].address());
    let told = told.lock().expect("a lock").clone();
    let changed = StoreEvent::MasterChanged {
        from: watched.servers[0].address().into(),
        to: watched.servers[1].address().into(),
    };
    assert!(told.contains(&changed), "{told:?}");
}

#[tokio::test]
async fn a_failover_while_the_old_master_runs() {
    let watched = RedisSentinels::start().await;
    let (settings, _) = settings_with_log(&watched.url(), LONG_TIMEOUT);
    let servers = connect_with(&settings).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));
    watched.failover();
    wait_until("the other one is used", async || {
        let _ = add(&servers, "a", 1).await;
        *servers.stats().servers[0].address == *watched.servers[1].address()
    })
    .await;
    wait_until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
}

#[tokio::test]
async fn an_unknown_master_name() {
    let watched = RedisSentinels::start().await;
    let url = watched.url().replace(RedisSentinels::MASTER, "another");
    let error = connect_error_of(&url).await;
    assert_eq!(error.kind(), Kind::WrongKind);
    assert!(error.message().contains("`another`") && error.hint().contains("sentinel monitor"), "{error}");

    // A Sentinel is no single server.
    let sentinel = watched.url().replace("redis+sentinel", "redis");
    let first = sentinel.split(',').next().expect("a server");
    let error = connect_error_of(first).await;
    assert_eq!(error.kind(), Kind::WrongKind);
    assert!(error.message().contains("Sentinel"), "{error}");
    let _ = connect(&watched.url()).await;
}

#[tokio::test]
async fn servers_and_sentinels_with_passwords() {
    let passwords = Passwords { servers: "s3rvers", sentinels: "s3ntinels" };
    let mut watched = RedisSentinels::start_with(Some(passwords)).await;
    let url = |of_servers: &str, of_sentinels: &str| {
        let url = watched.url().replacen("://", &format!("://:{of_servers}@"), 1);
        format!("{url}?sentinel_password={of_sentinels}")
    };
    for (url, said) in [
        (watched.url(), "NOAUTH"),
        (url("s3rvers", "wr0ng"), "WRONGPASS"),
        (url("wr0ng", "s3ntinels"), "WRONGPASS"),
        // Whoever asks Sentinels without a password is not let in because the servers' is right.
        (watched.url().replacen("://", "://:s3rvers@", 1), "NOAUTH"),
    ] {
        let error = connect_error_of(&url).await;
        assert_eq!(error.kind(), Kind::AccessDenied, "{error}");
        assert!(error.message().contains(said), "{error}");
        assert!(
            !["s3rvers", "s3ntinels", "wr0ng"].iter().any(|word| error.to_string().contains(word)),
            "{error}"
        );
    }

    let servers = connect_with(&settings_with_log(&url("s3rvers", "s3ntinels"), Duration::from_secs(2)).0).await;
    wait_until("it works", async || add(&servers, "a", 1).await.is_ok()).await;
    watched.servers[0].kill();
    wait_until("the replica is master, and used", async || add(&servers, "a", 1).await.is_ok()).await;
    assert_eq!(*servers.stats().servers[0].address, watched.servers[1].address());
}
