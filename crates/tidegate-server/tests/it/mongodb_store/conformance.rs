//! The conformance suite, and what holds beyond it.

use tidegate::config::{ConfigStore as _, ConfigVersion, Scan, WriteResult};
use tidegate::{Clock as _, SystemClock};
use tidegate_testing::config_store::{check_config_store, delete, put, scan_all, write_one};
use tidegate_testing::ferretdb_server::FerretDbServer;

use super::{all_changes, elapsed, open};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_the_promises_of_config_stores() {
    let server = FerretDbServer::start();
    let (store, other) = (open(&server), open(&server));
    assert_eq!(store.kind(), "mongodb");
    check_config_store(store, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_store_is_empty_and_its_first_change_is_no_gap() {
    let server = FerretDbServer::start();
    let (store, other) = (open(&server), open(&server));
    // Both create the collection.
    let (one, two) = tokio::join!(store.latest(), other.latest());
    let start = one.expect("the store answers");
    assert_eq!(two, Ok(start));
    assert!(start > ConfigVersion::ZERO);
    let nothing = store.changes(start, 10).await.expect("the store answers");
    assert!(!nothing.is_gap && nothing.keys.is_empty() && nothing.next == start);
    assert_eq!(scan_all(&*store, "", 10).await, []);
    assert_eq!(store.get("").await, Ok(None));
    let WriteResult::Written(version) = write_one(&*other, put("key", b"value")).await else {
        panic!("the write has no condition");
    };
    assert_eq!(all_changes(&*store, start).await, (vec![("key".to_owned(), version)], version));
    // A reader that starts before everything reads everything.
    assert!(store.changes(ConfigVersion::ZERO, 10).await.expect("the store answers").is_gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writes_of_one_call_are_done_in_order() {
    const WRITES: usize = 10_000;
    let server = FerretDbServer::start();
    let (store, other) = (open(&server), open(&server));
    let start = store.latest().await.expect("the store answers");
    let writes: Vec<_> =
        (0..WRITES).map(|number| put(&format!("many/{number:05}"), b"a value of some bytes")).collect();
    let clock = SystemClock::new();
    let begin = clock.now();
    let results = store.write(&writes).await.expect("the store answers");
    println!("{WRITES} writes took {:?}", elapsed(&clock, begin));
    let versions: Vec<u64> = (1..=WRITES as u64).map(|number| start.get() + number).collect();
    let expected: Vec<_> =
        versions.iter().map(|version| WriteResult::Written(ConfigVersion::new(*version))).collect();
    assert_eq!(results, expected);
    let (changes, next) = all_changes(&*other, start).await;
    let listed: Vec<u64> = changes.iter().map(|(_, version)| version.get()).collect();
    assert_eq!((listed, next.get()), (versions, start.get() + WRITES as u64));
    assert_eq!(scan_all(&*other, "many/", 10_000).await.len(), WRITES);
    assert_eq!(scan_all(&*other, "many/0000", 3).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_return_the_newest_versions_and_bounded_pages() {
    let server = FerretDbServer::start();
    let store = open(&server);
    for round in 0..5_u8 {
        for key in ["a", "b", "c\u{10ffff}d", "d"] {
            write_one(&*store, put(key, &[round])).await;
        }
    }
    write_one(&*store, delete("b")).await;
    let newest = |keys: &[&str]| -> Vec<(String, Vec<u8>)> {
        keys.iter().map(|key| ((*key).to_owned(), vec![4])).collect()
    };
    for entries_max in [1, 2, 10] {
        assert_eq!(scan_all(&*store, "", entries_max).await, newest(&["a", "c\u{10ffff}d", "d"]));
        assert_eq!(scan_all(&*store, "c\u{10ffff}", entries_max).await, newest(&["c\u{10ffff}d"]));
    }
    let large = vec![7; 256 << 10];
    for number in 0..40 {
        write_one(&*store, put(&format!("large/{number:02}"), &large)).await;
    }
    let page = store
        .scan(Scan { prefix: "large/", after: None, entries_max: 10_000 })
        .await
        .expect("the store answers");
    assert!(page.has_more && page.entries.len() == 16, "{}", page.entries.len());
    assert_eq!(scan_all(&*store, "large/", 10_000).await.len(), 40);
}
