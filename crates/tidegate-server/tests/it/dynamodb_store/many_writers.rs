//! Several nodes that write at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate::config::{ConfigStore, ConfigVersion};
use tidegate_testing::config_store::{put, scan_all};

use super::{Table, written};

const NODES: usize = 3;
const CALLS_PER_NODE: usize = 40;

/// Reads changes until every version of `expected` was listed, while they are written.
async fn read_all(
    store: Arc<dyn ConfigStore>,
    mut since: ConfigVersion,
    count: usize,
) -> BTreeMap<u64, String> {
    let mut seen = BTreeMap::new();
    for _ in 0..100_000 {
        let changes = store.changes(since, 7).await.expect("the store answers");
        assert!(!changes.is_gap && changes.next >= since, "{changes:?}");
        for (key, version) in changes.keys {
            // The value is not older than the change that was listed.
            let entry = store.get(&key).await.expect("the store answers").expect("nothing is deleted");
            assert!(entry.version >= version, "{key}: {} is older than {version}", entry.version);
            assert!(seen.insert(version.get(), key.into()).is_none(), "{version} was listed twice");
        }
        since = changes.next;
        if seen.len() == count {
            return seen;
        }
    }
    panic!("only {} of {count} changes were listed", seen.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_misses_nothing_while_several_nodes_write() {
    let table = Table::new();
    let start = table.store.latest().await.expect("the store answers");
    let reader: Arc<dyn ConfigStore> = Arc::new(table.other());
    let reading = tokio::spawn(read_all(reader, start, NODES * CALLS_PER_NODE));
    let mut writing = Vec::new();
    for _ in 0..NODES {
        let store = Arc::new(table.other());
        for number in 0..CALLS_PER_NODE {
            let store = Arc::clone(&store);
            writing.push(tokio::spawn(async move {
                // All nodes write the same few keys.
                let key = format!("key/{}", number % 7);
                let version = written(&*store, &key, number.to_string().as_bytes()).await;
                (version, key, number)
            }));
        }
    }
    let mut expected = BTreeMap::new();
    let mut newest: BTreeMap<String, (ConfigVersion, usize)> = BTreeMap::new();
    for call in writing {
        let (version, key, number) = call.await.expect("it does not panic");
        assert_eq!(expected.insert(version.get(), key.clone()), None, "{version} was given twice");
        let last = newest.entry(key).or_insert((version, number));
        *last = (*last).max((version, number));
    }
    assert_eq!(reading.await.expect("it does not panic"), expected);
    for (key, (version, number)) in newest {
        let entry = table.store.get(&key).await.expect("the store answers").expect("it was written");
        assert_eq!((entry.version, &*entry.value), (version, number.to_string().as_bytes()), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_import_and_single_writes_of_another_node_are_all_done() {
    let table = Table::new();
    let importer = Arc::new(table.other());
    let writes: Vec<_> = (0..1_500).map(|number| put(&format!("import/{number}"), b"x")).collect();
    let importing = tokio::spawn(async move { importer.write(&writes).await });
    for number in 0..20_u8 {
        table.put("single", &[number]).await;
    }
    assert_eq!(importing.await.expect("it does not panic").expect("the store answers").len(), 1_500);
    let entry = table.store.get("single").await.expect("the store answers").expect("it was written");
    assert_eq!(&*entry.value, [19]);
    assert_eq!(scan_all(&table.store, "import/", 1_000).await.len(), 1_500);
}
