//! Several nodes write and read at the same time, some of them slowly: no change is missed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::config::{
    ConfigStore as _, ConfigStoreError, ConfigVersion, ConfigWrite, WriteCondition, WriteResult,
};
use tidegate_server::config_store::{MongoConfigOptions, MongoConfigStore};
use tidegate_testing::config_store::{delete, put, scan_all, write_one};
use tidegate_testing::ferretdb_server::FerretDbServer;

use super::proxy::Proxy;
use super::{LONG_TIMEOUT, all_changes, open, open_with, wait_until};

const WRITERS: usize = 6;
const READERS: usize = 3;
const CALLS: usize = 25;
const KEYS: usize = 10;

/// Writes and deletes some keys, with one to three writes in each call. Returns the versions.
async fn write_some(store: Arc<MongoConfigStore>, writer: usize) -> Vec<ConfigVersion> {
    let mut versions = Vec::new();
    for call in 0..CALLS {
        let write = |number: usize| {
            let key = format!("key/{}", (writer + call * 3 + number) % KEYS);
            match (call + number) % 5 {
                0 => delete(&key),
                _ => put(&key, format!("{writer} {call} {number}").as_bytes()),
            }
        };
        let writes: Vec<_> = (0..=call % 3).map(write).collect();
        for result in store.write(&writes).await.expect("the store answers") {
            let WriteResult::Written(version) = result else { panic!("the write has no condition") };
            versions.push(version);
        }
    }
    versions
}

type Values = BTreeMap<String, Vec<u8>>;

/// Follows the changes as a node does, until the writers are done. Returns the versions that were listed, and the values.
async fn follow(
    store: Arc<MongoConfigStore>,
    mut since: ConfigVersion,
    is_done: Arc<AtomicBool>,
) -> (Vec<ConfigVersion>, Values) {
    let (mut listed, mut values) = (Vec::new(), Values::new());
    loop {
        let is_last = is_done.load(Ordering::SeqCst);
        let changes = store.changes(since, 7).await.expect("the store answers");
        assert!(!changes.is_gap);
        since = changes.next;
        for (key, version) in changes.keys {
            listed.push(version);
            match store.get(&key).await.expect("the store answers") {
                Some(entry) => {
                    assert!(entry.version >= version, "a change is visible before its value");
                    drop(values.insert(key.into(), entry.value.into()));
                }
                None => drop(values.remove(&*key)),
            }
        }
        if is_last && !changes.has_more {
            return (listed, values);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_every_change_of_concurrent_writers_in_order() {
    let server = FerretDbServer::start();
    let start = open(&server).latest().await.expect("the store answers");
    let is_done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> =
        (0..READERS).map(|_| tokio::spawn(follow(open(&server), start, Arc::clone(&is_done)))).collect();
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write_some(open(&server), writer))).collect();
    let mut written = Vec::new();
    for writer in writers {
        let versions = writer.await.expect("it does not panic");
        assert!(versions.is_sorted(), "a later write of a node has a greater version");
        written.extend(versions);
    }
    is_done.store(true, Ordering::SeqCst);
    written.sort_unstable();
    // No version is used twice, and none is left out.
    let dense: Vec<_> =
        (1..=written.len() as u64).map(|number| ConfigVersion::new(start.get() + number)).collect();
    assert_eq!(written, dense);
    let stored: Values = scan_all(&*open(&server), "", 100).await.into_iter().collect();
    for reader in readers {
        let (listed, values) = reader.await.expect("it does not panic");
        assert_eq!(listed, written, "each change is listed once, in order");
        assert_eq!(values, stored);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_writer_gets_a_later_version() {
    let server = FerretDbServer::start();
    let (reader, fast) = (open(&server), open(&server));
    let proxy = Proxy::start(server.port);
    let slow = open_with(
        &proxy.url(),
        MongoConfigOptions { timeout: LONG_TIMEOUT, ..MongoConfigOptions::default() },
    );
    write_one(&*slow, put("warm", b"up")).await;
    let start = reader.latest().await.expect("the store answers");
    // The slow writer has read the end of the log, and its insert is under way.
    proxy.hold_inserts();
    let writing = tokio::spawn({
        let slow = Arc::clone(&slow);
        async move {
            let write = ConfigWrite { condition: WriteCondition::Absent, ..put("shared", b"slow") };
            slow.write(&[put("slow", b"value"), write]).await.expect("the store answers")
        }
    });
    wait_until("the insert is held", async || proxy.held() == 1).await;
    for number in 0..3_u8 {
        write_one(&*fast, put("fast", &[number])).await;
    }
    let WriteResult::Written(shared) = write_one(&*fast, put("shared", b"fast")).await else {
        panic!("no condition")
    };
    let (seen, next) = all_changes(&*reader, start).await;
    assert_eq!((seen.len(), next), (4, shared));
    proxy.release();
    let results = writing.await.expect("it does not panic");
    let [WriteResult::Written(version), WriteResult::Conflict(current)] = results[..] else {
        panic!("{results:?}")
    };
    assert!(version > shared && current == Some(shared));
    assert_eq!(all_changes(&*reader, next).await, (vec![("slow".to_owned(), version)], version));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_comes_after_its_deadline_is_seen_or_refused() {
    let server = FerretDbServer::start();
    let (reader, fast) = (open(&server), open(&server));
    let proxy = Proxy::start(server.port);
    // Each command may take a while on a busy machine, but this is shorter than the insert is held.
    let timeout = Duration::from_secs(3);
    let late = open_with(&proxy.url(), MongoConfigOptions { timeout, ..MongoConfigOptions::default() });
    write_one(&*late, put("warm", b"up")).await;
    for another_is_faster in [false, true] {
        let start = reader.latest().await.expect("the store answers");
        let held = proxy.held();
        proxy.hold_inserts();
        let result = late.write(&[put("late", b"value")]).await;
        assert!(matches!(result, Err(ConfigStoreError::Unavailable(_))), "{result:?}");
        assert_eq!(proxy.held(), held + 1);
        let mut expected = vec!["late".to_owned()];
        if another_is_faster {
            write_one(&*fast, put("fast", b"value")).await;
            expected = vec!["fast".to_owned()];
        }
        let (mut seen, next) = all_changes(&*reader, start).await;
        proxy.release();
        // The store is usable again, after the late insert in the same order.
        if !another_is_faster {
            wait_until("the late insert is done", async || {
                reader.latest().await.expect("the store answers") > next
            })
            .await;
        }
        write_one(&*fast, put("end", b"value")).await;
        expected.push("end".to_owned());
        seen.extend(all_changes(&*reader, next).await.0);
        assert_eq!(seen.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_count_up_one_key_without_losing_a_step() {
    const STEPS: u32 = 20;
    let server = FerretDbServer::start();
    let count_up = async |store: Arc<MongoConfigStore>| {
        let mut done = 0;
        while done < STEPS {
            let entry = store.get("count").await.expect("the store answers");
            let count: u32 =
                entry.as_ref().map_or(0, |entry| String::from_utf8_lossy(&entry.value).parse().unwrap());
            let condition =
                entry.map_or(WriteCondition::Absent, |entry| WriteCondition::Version(entry.version));
            let write = ConfigWrite { condition, ..put("count", (count + 1).to_string().as_bytes()) };
            if let WriteResult::Written(_) = write_one(&*store, write).await {
                done += 1;
            }
        }
    };
    let (one, two) = (open(&server), open(&server));
    tokio::join!(count_up(Arc::clone(&one)), count_up(two));
    let entry = one.get("count").await.expect("the store answers").expect("it was written");
    assert_eq!(*entry.value, *(2 * STEPS).to_string().as_bytes());
}
