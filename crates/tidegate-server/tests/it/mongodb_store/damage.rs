//! Documents that the store would not write. They are reported or ignored, and never fatal.

use mongodb::bson::{doc, oid::ObjectId};
use tidegate::config::{ConfigStore as _, ConfigStoreError};
use tidegate_testing::config_store::{put, scan_all, write_one};
use tidegate_testing::ferretdb_server::FerretDbServer;

use super::{all_changes, collection, open};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_documents_are_returned_or_ignored() {
    let server = FerretDbServer::start();
    let store = open(&server);
    let start = store.latest().await.expect("the store answers");
    write_one(&*store, put("good", b"value")).await;
    let documents = collection(&server).await;
    let next = i64::try_from(start.get()).expect("a version") + 2;
    for damaged in [
        // As if a person had edited it: a text, a number, no value, no key, and a key that is not a text.
        doc! { "_id": next, "key": "text", "value": "not binary" },
        doc! { "_id": next + 1, "key": "number", "value": 5 },
        doc! { "_id": next + 2, "key": "none" },
        doc! { "_id": next + 3, "value": "no key" },
        doc! { "_id": next + 4, "key": 7, "value": "a number as key" },
        // These have no version.
        doc! { "_id": "a text", "key": "good", "value": "wrong" },
        doc! { "_id": ObjectId::new(), "key": "bad" },
        doc! { "_id": 1e300, "key": "good" },
        doc! { "_id": -5_i64, "key": "negative" },
    ] {
        documents.insert_one(damaged).await.expect("it is inserted");
    }
    let value =
        async |key| store.get(key).await.expect("the store answers").map(|entry| entry.value.to_vec());
    assert_eq!(value("text").await, Some(b"not binary".to_vec()));
    assert_eq!(value("number").await, Some(b"5".to_vec()));
    assert_eq!(value("none").await, Some(Vec::new()));
    assert_eq!(value("bad").await, None);
    assert_eq!(value("good").await, Some(b"value".to_vec()));
    let (changes, last) = all_changes(&*store, start).await;
    let keys: Vec<&str> = changes.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["good", "text", "number", "none"]);
    assert_eq!(last.get(), u64::try_from(next).expect("a version") + 4);
    let scanned = scan_all(&*store, "", 2).await;
    let keys: Vec<&str> = scanned.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["good", "none", "number", "text"]);
    // Writes go on, and repair.
    for key in ["text", "number", "none", "good"] {
        write_one(&*store, put(key, b"good")).await;
    }
    assert_eq!(value("text").await, Some(b"good".to_vec()));
    assert_eq!(all_changes(&*store, last).await.0.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_greatest_version_is_an_error_with_a_hint() {
    let server = FerretDbServer::start();
    let store = open(&server);
    store.latest().await.expect("the store answers");
    collection(&server)
        .await
        .insert_one(doc! { "_id": (1_i64 << 53) - 1, "key": "k" })
        .await
        .expect("it is inserted");
    let error = store.write(&[put("key", b"value")]).await.expect_err("there is no further version");
    assert!(matches!(error, ConfigStoreError::Broken(_)) && error.to_string().contains("(hint: "), "{error}");
    assert_eq!(store.get("key").await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_collection_is_a_gap_and_versions_do_not_repeat() {
    let server = FerretDbServer::start();
    let store = open(&server);
    write_one(&*store, put("key", b"value")).await;
    let before = store.latest().await.expect("the store answers");
    collection(&server).await.drop().await.expect("it is dropped");
    let changes = store.changes(before, 10).await.expect("the store answers");
    assert!(changes.is_gap, "{changes:?}");
    write_one(&*store, put("other", b"value")).await;
    assert!(store.latest().await.expect("the store answers") > before);
    assert!(store.changes(before, 10).await.expect("the store answers").is_gap);
    assert_eq!(store.get("key").await, Ok(None));
}
