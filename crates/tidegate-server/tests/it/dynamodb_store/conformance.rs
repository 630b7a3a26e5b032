//! The conformance suite, and what holds beyond it.

use std::sync::Arc;

use tidegate::config::{ConfigStore, Scan};
use tidegate_testing::config_store::{check_config_store, put, scan_all};

use super::Table;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamodb_keeps_the_promises_of_config_stores() {
    let table = Table::new();
    let other = table.other();
    assert_eq!(table.store.kind(), "dynamodb");
    check_config_store(Arc::new(table.store), Arc::new(other)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writes_of_one_call_share_transactions() {
    const WRITES: usize = 1_000;
    let table = Table::new();
    let writes: Vec<_> = (0..WRITES).map(|number| put(&format!("bulk/{number:04}"), b"value")).collect();
    let results = table.store.write(&writes).await.expect("the store answers");
    assert_eq!(results.len(), WRITES);
    // 98 writes in a transaction. The last item is the head.
    let entries = table.server.sort_keys(&table.name, "log").len() - 1;
    assert_eq!(entries, WRITES.div_ceil(98));
    let all = scan_all(&table.store, "bulk/", 300).await;
    assert_eq!(all.len(), WRITES);
    // A reader that starts now begins near the end of the log.
    let latest = table.store.latest().await.expect("the store answers");
    let changes = table.store.changes(latest, 10_000).await.expect("the store answers");
    assert!(!changes.is_gap && !changes.has_more && changes.keys.len() < WRITES, "{latest}");
    assert_eq!(changes.keys.last().map(|(key, _)| &**key), Some("bulk/0999"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_scan_is_bounded_in_bytes() {
    const ENTRIES: usize = 40;
    let table = Table::new();
    let value = vec![b'v'; 256 << 10];
    let writes: Vec<_> = (0..ENTRIES).map(|number| put(&format!("large/{number:03}"), &value)).collect();
    table.store.write(&writes).await.expect("the store answers");
    let scan = Scan { prefix: "large/", after: None, entries_max: 10_000 };
    let page = table.store.scan(scan).await.expect("the store answers");
    // Each of the 16 buckets returns up to 1 MB.
    assert!(page.entries.len() < ENTRIES || !page.has_more);
    assert_eq!(scan_all(&table.store, "large/", 10_000).await.len(), ENTRIES);
}

#[tokio::test]
async fn scans_begin_after_any_key() {
    let table = Table::new();
    for key in ["a/1", "a/2", "b/1"] {
        table.put(key, b"x").await;
    }
    for (prefix, after, expected) in [
        ("a/", Some("a/1"), &["a/2"][..]),
        ("a/", Some("a/11"), &["a/2"]),
        ("a/", Some("A"), &["a/1", "a/2"]),
        ("a/", Some("b"), &[]),
        ("", Some("a/2"), &["b/1"]),
        ("", None, &["a/1", "a/2", "b/1"]),
    ] {
        let scan = Scan { prefix, after, entries_max: 10 };
        let page = table.store.scan(scan).await.expect("the store answers");
        let keys: Vec<&str> = page.entries.iter().map(|entry| &*entry.key).collect();
        assert_eq!(keys, expected, "{prefix:?} {after:?}");
    }
}
