//! Passwords, users and permissions.

use std::num::NonZeroU32;

use super::{LONG_TIMEOUT, add, connect, connect_error_of, connect_with, settings, settings_with_log};
use crate::redis::ConnectErrorKind as Kind;
use crate::redis::testing::{RedisProcess, TempDir, free_port, wait_until};
use crate::redis::topology::Servers;

const SECRET: &str = "s3cret@/:#";
const SECRET_IN_URL: &str = "s3cret%40%2F%3A%23";

#[tokio::test]
async fn with_a_password() {
    let redis = RedisProcess::start_with(&["--requirepass", SECRET]);
    let address = redis.address();
    let servers = connect(&format!("redis://:{SECRET_IN_URL}@{address}")).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));

    let error = connect_error_of(&format!("redis://{address}")).await;
    assert_eq!(error.kind(), Kind::AccessDenied);
    assert!(error.message().contains("NOAUTH") && error.hint().contains("wants a password"), "{error}");

    let error = connect_error_of(&format!("redis://:wr0ng@{address}")).await;
    assert_eq!(error.kind(), Kind::AccessDenied);
    assert!(error.message().contains("WRONGPASS"), "{error}");
    assert!(error.to_string().contains(&address) && !error.to_string().contains("wr0ng"), "{error}");
}

#[tokio::test]
async fn a_password_for_a_server_without_one() {
    let redis = RedisProcess::start();
    let error = connect_error_of(&format!("redis://:wr0ng@{}", redis.address())).await;
    assert_eq!(error.kind(), Kind::AccessDenied);
    assert!(error.hint().contains("leave it out"), "{error}");
}

#[tokio::test]
async fn a_server_that_echoes_unknown_commands() {
    let redis = RedisProcess::start_with(&["--rename-command", "AUTH", "LOGIN"]);
    // The server does echo the arguments.
    assert!(redis.cli(&["AUTH", "alice", "wr0ng"]).contains("'alice' 'wr0ng'"));
    for login in ["alice:wr0ng", ":wr0ng"] {
        let error = connect_error_of(&format!("redis://{login}@{}", redis.address())).await;
        assert!(error.message().contains("ERR") && error.hint().contains("rename-command"), "{error}");
        assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error}");
    }
}

#[tokio::test]
async fn a_user_with_minimal_permissions() {
    let redis = RedisProcess::start();
    // The permissions of the hint.
    let rights = "+evalsha +eval +script|load +time +mget +mset +exists +del +pexpireat +pexpire +zadd +zcard \
                  +zremrangebyscore +wait +cluster|slots +asking";
    let mut command = vec!["ACL", "SETUSER", "alice", "on", ">pw", "~tg:*"];
    command.extend(rights.split(' '));
    // What this test itself needs.
    command.push("+incrby");
    assert_eq!(redis.cli(&command).trim(), "OK");
    let servers = connect(&format!("redis://alice:pw@{}", redis.address())).await;
    assert_eq!(add(&servers, "a", 1).await, Ok(1));

    // The user has no permission for another namespace.
    let mut elsewhere = settings(&format!("redis://alice:pw@{}", redis.address()), LONG_TIMEOUT);
    elsewhere.namespace = "other".into();
    let error = Servers::connect(&elsewhere, &[]).await.err().expect("an error");
    assert_eq!(error.kind(), Kind::AccessDenied, "{error}");

    // Without writes nothing can be counted, and without heartbeats no node knows how many there are.
    for (without, with) in [("-mset", "+mset"), ("-zadd", "+zadd")] {
        redis.cli(&["ACL", "SETUSER", "alice", without]);
        let error = connect_error_of(&format!("redis://alice:pw@{}", redis.address())).await;
        assert_eq!(error.kind(), Kind::AccessDenied);
        assert!(error.hint().contains(rights), "{error}");
        redis.cli(&["ACL", "SETUSER", "alice", with]);
    }

    // Only a store that waits for replicas needs the permission for WAIT.
    redis.cli(&["ACL", "SETUSER", "alice", "-wait"]);
    let mut waiting = settings(&format!("redis://alice:pw@{}", redis.address()), LONG_TIMEOUT);
    assert!(Servers::connect(&waiting, &[]).await.is_ok());
    waiting.wait_replicas = NonZeroU32::new(1);
    let error = Servers::connect(&waiting, &[]).await.err().expect("an error");
    assert_eq!(error.kind(), Kind::AccessDenied, "{error}");
}

#[tokio::test]
async fn an_unreachable_server() {
    let error = connect_error_of(&format!("redis://127.0.0.1:{}", free_port())).await;
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(error.hint().contains("nothing listens there"), "{error}");

    let error = connect_error_of("redis://no-such-host.invalid").await;
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    assert!(error.to_string().contains("no-such-host.invalid:6379"), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_at_startup() {
    let redis = RedisProcess::start();
    redis.pause();
    let error = connect_error_of(&redis.url()).await;
    redis.resume();
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(error.message().contains("no answer within"), "{error}");
}

#[tokio::test]
async fn a_changed_password_after_the_server_was_down_is_reported() {
    let directory = TempDir::new();
    let users = directory.write_file("users.acl", "user default on nopass ~* &* +@all");
    let mut redis = RedisProcess::start_with(&["--aclfile", users.to_str().expect("UTF-8")]);
    let (settings, events) = settings_with_log(&redis.url(), LONG_TIMEOUT);
    let servers = connect_with(&settings).await;
    let reasons =
        || -> Vec<String> { events.lock().expect("a lock").iter().map(ToString::to_string).collect() };
    redis.kill();
    wait_until("the server is down", async || reasons().iter().any(|reason| reason.contains("refused")))
        .await;
    directory.write_file("users.acl", "user default on >pw ~* &* +@all");
    redis.restart();
    wait_until("the reason is reported", async || reasons().iter().any(|reason| reason.contains("NOAUTH")))
        .await;
    let error = servers.stats().servers[0].connect_error.clone().expect("an error");
    assert_eq!(error.kind(), Kind::AccessDenied, "{error}");
}
