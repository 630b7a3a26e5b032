//! Servers of another kind than the URL says, too old servers, and servers that are not ready.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{LONG_TIMEOUT, StoreEvent, connect_error_of, connect_with, settings_with_log};
use crate::redis::ConnectErrorKind as Kind;
use crate::redis::testing::{RedisProcess, free_port, wait_until};

#[tokio::test]
async fn a_cluster_url_on_a_single_server() {
    let redis = RedisProcess::start();
    let error = connect_error_of(&format!("redis-cluster://{}", redis.address())).await;
    assert_eq!(error.kind(), Kind::WrongKind);
    assert!(error.hint().contains("redis://"), "{error}");
    let error = connect_error_of(&format!("redis+sentinel://{}/m", redis.address())).await;
    assert_eq!(error.kind(), Kind::WrongKind);
    assert!(error.message().contains("no Sentinel"), "{error}");
}

#[tokio::test]
async fn a_single_url_on_a_cluster_and_a_cluster_without_slots() {
    let bus = free_port().to_string();
    let redis = RedisProcess::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
    for scheme in ["redis", "redis+ring"] {
        let error = connect_error_of(&format!("{scheme}://{}", redis.address())).await;
        assert_eq!(error.kind(), Kind::WrongKind);
        assert!(error.hint().contains("redis-cluster://"), "{error}");
    }
    let error = connect_error_of(&format!("redis-cluster://{}", redis.address())).await;
    assert_eq!(error.kind(), Kind::NotReady);
    assert!(error.hint().contains("--cluster create"), "{error}");
}

#[tokio::test]
async fn a_replica_is_rejected() {
    let master = RedisProcess::start();
    let replica = RedisProcess::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let error = connect_error_of(&replica.url()).await;
    assert_eq!(error.kind(), Kind::WrongKind);
    assert!(error.message().contains("replica"), "{error}");
}

#[tokio::test]
async fn a_missing_database() {
    let redis = RedisProcess::start_with(&["--databases", "2"]);
    let error = connect_error_of(&format!("{}/2", redis.url())).await;
    assert_eq!(error.kind(), Kind::WrongKind);
    assert!(error.message().contains("no database 2"), "{error}");
}

#[tokio::test]
async fn a_server_at_max_clients() {
    let redis = RedisProcess::start_with(&["--maxclients", "1"]);
    let _connection = tokio::net::TcpStream::connect(redis.address()).await.expect("a connection");
    wait_until("the place is taken", async || redis.cli(&["PING"]).contains("max number")).await;
    let error = connect_error_of(&redis.url()).await;
    // The server sends the error and closes the connection. Whether the error arrives is a race.
    assert!(error.is_transient() && error.to_string().contains("max"), "{error}");
}

#[tokio::test]
async fn a_server_out_of_memory() {
    let redis = RedisProcess::start_with(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    let (settings, events) = settings_with_log(&redis.url(), LONG_TIMEOUT);
    let _servers = connect_with(&settings).await;
    let events = events.lock().expect("a lock").clone();
    let [StoreEvent::WritesRefused { reason, .. }] = &events[..] else { panic!("{events:?}") };
    assert!(reason.contains("OOM") && reason.contains("maxmemory"), "{reason}");
}

/// Stands in for an old Redis: Redis 5 does not know HELLO, and 6.0 not without arguments.
#[tokio::test]
async fn a_redis_that_is_too_old() {
    for (version, hello) in [
        ("5.0.7", "-ERR unknown command `HELLO`, with args beginning with: \r\n"),
        ("6.0.16", "-ERR wrong number of arguments for 'hello' command\r\n"),
        (
            "6.0.0",
            "*8\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n6.0.0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let old = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let info = format!("# Server\r\nredis_version:{version}\r\n");
            let info = format!("${}\r\n{info}\r\n", info.len());
            for reply in [hello, &info] {
                if stream.read(&mut [0; 1000]).await.is_ok_and(|bytes| bytes > 0) {
                    let _ = stream.write_all(reply.as_bytes()).await;
                }
            }
        });
        let error = connect_error_of(&format!("redis://{address}")).await;
        assert_eq!(error.kind(), Kind::TooOld, "{error}");
        assert!(error.message().contains(version) && error.hint().contains("6.2"), "{error}");
        old.abort();
    }
}

/// Redis 5 has no users, and reveals nothing else before it gets the right password alone.
#[tokio::test]
async fn a_redis_too_old_for_acl_users() {
    let info = "# Server\r\nredis_version:5.0.7\r\n";
    let info_reply = format!("${}\r\n{info}\r\n", info.len());
    for (info, version) in
        [(info_reply.as_str(), "5.0.7"), ("-NOAUTH Authentication required.\r\n", "before 6.0")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let info = info.to_owned();
        let old = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let refusals = "-ERR wrong number of arguments for 'auth' command\r\n\
                            -ERR unknown command `HELLO`, with args beginning with: \r\n";
            for reply in [refusals, &info] {
                if stream.read(&mut [0; 1000]).await.is_ok_and(|bytes| bytes > 0) {
                    let _ = stream.write_all(reply.as_bytes()).await;
                }
            }
        });
        let error = connect_error_of(&format!("redis://alice:wr0ng@{address}")).await;
        assert_eq!(error.kind(), Kind::TooOld, "{error}");
        assert!(error.message().contains(version) && error.hint().contains("6.2"), "{error}");
        old.abort();
    }
}

#[tokio::test]
async fn a_server_that_is_not_redis() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let web = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.read(&mut [0; 1000]).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let error = connect_error_of(&format!("redis://{address}")).await;
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    assert!(error.hint().contains("something else than Redis"), "{error}");
    web.abort();
}
