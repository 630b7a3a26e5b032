//! The conformance suite, and what holds beyond it.

use std::sync::Arc;

use tidegate::config::{ConfigStore, ConfigVersion, Scan, WriteResult};
use tidegate_testing::config_store::{check_config_store, put, write_one};

use super::open;
use crate::support::Directory;

/// More than the log of changes keeps.
const CHANGES: u64 = 1_020_000;
const CHANGES_KEPT: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_store_keeps_the_promises_of_config_stores() {
    let directory = Directory::new();
    let store: Arc<dyn ConfigStore> = Arc::new(open(&directory));
    // One process uses the file, so both handles are of the same store.
    check_config_store(Arc::clone(&store), Arc::clone(&store)).await;
    assert_eq!(store.kind(), "embedded");
}

#[tokio::test]
async fn everything_is_kept_when_the_store_is_opened_again() {
    let directory = Directory::new();
    let mut last = ConfigVersion::ZERO;
    for round in 0..5_u8 {
        let store = open(&directory);
        assert_eq!(store.latest().await, Ok(last));
        let WriteResult::Written(version) = write_one(&store, put("key", &[round])).await else {
            panic!("the write has no condition");
        };
        assert!(version > last);
        last = version;
        drop(store);
        let store = open(&directory);
        let entry = store.get("key").await.expect("it is readable").expect("it was written");
        assert_eq!((&*entry.value, entry.version), (&[round][..], version));
        assert_eq!(store.changes(ConfigVersion::ZERO, 100).await.expect("it is readable").next, last);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_are_all_done_and_have_their_own_versions() {
    const CALLS: usize = 500;
    let directory = Directory::new();
    let store = Arc::new(open(&directory));
    let calls: Vec<_> = (0..CALLS)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { write_one(&*store, put(&format!("call/{number:03}"), b"x")).await })
        })
        .collect();
    let mut versions = Vec::new();
    for call in calls {
        match call.await.expect("it does not panic") {
            WriteResult::Written(version) => versions.push(version),
            WriteResult::Conflict(_) => panic!("the write has no condition"),
        }
    }
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), CALLS);
    assert_eq!(store.entries_blocking(), Ok(CALLS as u64));
    drop(store);
    assert_eq!(open(&directory).entries_blocking(), Ok(CALLS as u64));
}

#[tokio::test]
async fn the_log_of_changes_is_bounded() {
    let directory = Directory::new();
    let store = open(&directory);
    // Few entries and many changes.
    let writes: Vec<_> = (0..10_000).map(|number| put(&format!("key/{}", number % 10), b"x")).collect();
    for _ in 0..CHANGES / writes.len() as u64 {
        store.write(&writes).await.expect("it is written");
    }
    let read = async |since| store.changes(ConfigVersion::new(since), 10).await.expect("it is readable");
    let behind = read(0).await;
    assert!(behind.is_gap && behind.keys.is_empty() && behind.next.get() == CHANGES);
    assert!(read(CHANGES - CHANGES_KEPT - 20_000).await.is_gap);
    let oldest = read(CHANGES - CHANGES_KEPT).await;
    assert!(!oldest.is_gap && oldest.has_more && oldest.keys.len() == 10);
    let newest = read(CHANGES).await;
    assert!(!newest.is_gap && !newest.has_more && newest.keys.is_empty());
    assert!(read(CHANGES + 1).await.is_gap);
}

#[tokio::test]
async fn a_page_of_a_scan_is_bounded_in_bytes() {
    const ENTRIES: usize = 100;
    let directory = Directory::new();
    let store = open(&directory);
    let value = vec![b'v'; 256 << 10];
    for number in 0..ENTRIES {
        write_one(&store, put(&format!("large/{number:03}"), &value)).await;
    }
    let (mut after, mut seen, mut pages): (Option<Box<str>>, usize, usize) = (None, 0, 0);
    loop {
        let scan = Scan { prefix: "large/", after: after.as_deref(), entries_max: 10_000 };
        let page = store.scan(scan).await.expect("it is readable");
        assert!(page.entries.iter().map(|entry| entry.value.len()).sum::<usize>() <= 16 << 20);
        (seen, pages) = (seen + page.entries.len(), pages + 1);
        if !page.has_more {
            break;
        }
        after = page.entries.last().map(|entry| entry.key.clone());
    }
    assert_eq!((seen, pages), (ENTRIES, 2));
}

#[test]
fn it_works_without_a_runtime() {
    let directory = Directory::new();
    let store = open(&directory);
    // A future of the store needs no runtime to be polled.
    let mut writing = store.write(&[]);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(writing.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(_))));
    drop(writing);
    let mut reading = store.get("none");
    assert!(matches!(reading.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(None))));
}
