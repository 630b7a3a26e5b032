//! Sweeps delete superseded versions and old deletions. Readers that are too far behind get a gap.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::doc;
use tidegate::config::{ConfigStore as _, ConfigVersion, WriteResult};
use tidegate::{ManualClock, Timestamp};
use tidegate_server::config_store::{MongoConfigOptions, MongoConfigStore};
use tidegate_testing::config_store::{delete, put, scan_all, write_one};
use tidegate_testing::ferretdb_server::FerretDbServer;

use super::{LONG_TIMEOUT, all_changes, collection, open_with, wait_until};

const MORE_THAN_AN_HOUR: Duration = Duration::from_secs(61 * 60);
const START_NS: u64 = 1_800_000_000_000_000_000;

async fn written(store: &MongoConfigStore, write: tidegate::config::ConfigWrite) -> ConfigVersion {
    match write_one(store, write).await {
        WriteResult::Written(version) => version,
        WriteResult::Conflict(_) => panic!("the write has no condition"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_behind_a_sweep_gets_a_gap_and_others_do_not() {
    let server = FerretDbServer::start();
    let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(START_NS)));
    let options = MongoConfigOptions { timeout: LONG_TIMEOUT, clock: Arc::clone(&clock) as _ };
    let (store, other) = (open_with(&server.url(), options.clone()), open_with(&server.url(), options));
    let documents = collection(&server).await;
    let count = async || documents.count_documents(doc! {}).await.expect("the server answers");
    let floors = async || documents.count_documents(doc! { "key": "" }).await.expect("the server answers");
    let start = store.latest().await.expect("the store answers");
    assert_eq!(start.get(), START_NS / 1_000_000);
    for round in 0..3_u8 {
        written(&store, put("kept", &[round])).await;
    }
    written(&store, put("gone", b"value")).await;
    let deleted = written(&store, delete("gone")).await;
    let poll = async |since| store.changes(since, 100).await.expect("the store answers");

    // The first sweep only notes how far the log was: everything may be under way somewhere.
    clock.advance(MORE_THAN_AN_HOUR);
    poll(deleted).await;
    wait_until("the first sweep is noted", async || floors().await == 2).await;
    assert_eq!(count().await, 7);
    assert!(!poll(start).await.is_gap);
    let after_first = store.latest().await.expect("the store answers");
    let late = written(&other, delete("late")).await;

    // The next one deletes what was old then. Both nodes try, and one of them sweeps.
    clock.advance(MORE_THAN_AN_HOUR);
    poll(deleted).await;
    other.changes(deleted, 100).await.expect("the store answers");
    // Left: the first document, two floors, "kept", and the late deletion.
    wait_until("old versions are deleted", async || count().await == 5).await;
    assert_eq!(floors().await, 3);
    let gap = poll(deleted).await;
    assert!(gap.is_gap && gap.keys.is_empty());
    assert!(poll(start).await.is_gap);
    let (changes, last) = all_changes(&*store, after_first).await;
    assert_eq!(changes, [("late".to_owned(), late)]);
    assert_eq!(gap.next, last);
    assert_eq!(scan_all(&*store, "", 10).await, [("kept".to_owned(), vec![2])]);
    assert_eq!(store.get("gone").await, Ok(None));
    // After the gap, changes are listed again.
    let next = written(&other, put("gone", b"again")).await;
    assert_eq!(all_changes(&*store, gap.next).await.0, [("gone".to_owned(), next)]);

    // Without writes there is nothing to sweep: the hourly entries do not add up.
    for _ in 0..3 {
        clock.advance(MORE_THAN_AN_HOUR);
        poll(next).await;
        wait_until("one floor is left besides the first", async || floors().await <= 4).await;
    }
}
