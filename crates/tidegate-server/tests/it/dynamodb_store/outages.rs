//! A server that is away: at the start, and later.

use tidegate::config::{ConfigStore as _, ConfigStoreError};
use tidegate_testing::config_store::put;
use tidegate_testing::redis_server::free_port;

use super::local::DynamoLocal;
use super::{new_table, open, written};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_works_as_soon_as_the_server_does() {
    let (port, table) = (free_port(), new_table());
    let url = format!("dynamodb://{table}?region=eu-central-1&endpoint=http://127.0.0.1:{port}&create=true");
    let store = open(&url);
    for error in [
        store.get("a").await.expect_err("there is no server"),
        store.write(&[put("a", b"x")]).await.expect_err("there is no server"),
        store.latest().await.expect_err("there is no server"),
    ] {
        assert!(matches!(error, ConfigStoreError::Unavailable(_)), "{error}");
        let error = error.to_string();
        assert!(error.contains(&format!("http://127.0.0.1:{port}")) && error.contains("(hint: "), "{error}");
    }
    let server = DynamoLocal::start_on(port).expect("its port is free");
    let first = written(&store, "a", b"1").await;
    assert_eq!(store.get("a").await.expect("the store answers").map(|entry| entry.version), Some(first));
    drop(server);
    assert!(store.get("a").await.is_err());
    // The server had everything in memory, so this is another, empty table.
    let _server = DynamoLocal::start_on(port).expect("its port is free");
    let changes = store.changes(first, 10).await.expect("the store answers");
    assert!(changes.is_gap, "{changes:?}");
    assert_eq!(store.get("a").await, Ok(None));
    assert!(written(&store, "a", b"2").await > first);
}
