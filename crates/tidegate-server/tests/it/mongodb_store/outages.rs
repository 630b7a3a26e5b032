//! A server that is away, at the start and later, and one that refuses the login.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::config::{ConfigStore as _, ConfigStoreError, ConfigVersion, Scan};
use tidegate_server::config_store::{MongoConfigOptions, MongoConfigStore, MongoUrl};
use tidegate_testing::config_store::{put, write_one};
use tidegate_testing::ferretdb_server::FerretDbServer;

use super::{all_changes, open_with, wait_until};

async fn assert_away(store: &MongoConfigStore) {
    let scan = Scan { prefix: "", after: None, entries_max: 10 };
    let errors = [
        store.get("key").await.err(),
        store.write(&[put("key", b"lost")]).await.err(),
        store.scan(scan).await.err(),
        store.changes(ConfigVersion::new(1), 10).await.err(),
        store.latest().await.err(),
    ];
    for error in errors {
        let error = error.expect("the server is away");
        assert!(matches!(error, ConfigStoreError::Unavailable(_)), "{error}");
        assert!(error.to_string().contains("(hint: "), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_works_when_its_server_comes_back() {
    let mut server = FerretDbServer::start();
    let timeout = Duration::from_secs(2);
    let store = open_with(&server.url(), MongoConfigOptions { timeout, ..MongoConfigOptions::default() });
    server.kill();
    assert_away(&store).await;
    server.start_again();
    wait_until("the store answers", async || store.latest().await.is_ok()).await;
    let start = store.latest().await.expect("the store answers");
    write_one(&*store, put("key", b"kept")).await;
    server.kill();
    assert_away(&store).await;
    server.start_again();
    wait_until("the store answers again", async || store.latest().await.is_ok()).await;
    let entry = store.get("key").await.expect("the store answers").expect("it was written");
    assert_eq!(&*entry.value, b"kept");
    let (changes, _) = all_changes(&*store, start).await;
    assert_eq!(changes, [("key".to_owned(), entry.version)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_login_shows_no_password() {
    let server = FerretDbServer::start();
    let url = server.url().replace("mongodb://", "mongodb://ann:hunter2@");
    let store = open_with(
        &url,
        MongoConfigOptions { timeout: Duration::from_secs(5), ..MongoConfigOptions::default() },
    );
    let error = store.latest().await.expect_err("there is no such user").to_string();
    assert!(error.contains("(hint: ") && !error.contains("hunter2"), "{error}");
    assert!(!format!("{store:?}").contains("hunter2"));
}

#[test]
fn futures_may_be_polled_without_a_runtime() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let url = MongoUrl::parse("mongodb://127.0.0.1:1/db").expect("a valid URL");
    let store = MongoConfigStore::new(url, runtime.handle().clone(), MongoConfigOptions::default());
    let mut context = Context::from_waker(Waker::noop());
    let mut reading = store.get("key");
    assert!(matches!(reading.as_mut().poll(&mut context), Poll::Pending));
    drop((reading, runtime));
    let mut reading = store.get("key");
    let error = match reading.as_mut().poll(&mut context) {
        Poll::Ready(Err(error)) => error,
        other => panic!("the runtime is gone, but: {other:?}"),
    };
    assert!(matches!(error, ConfigStoreError::Unavailable(_)), "{error}");
}
