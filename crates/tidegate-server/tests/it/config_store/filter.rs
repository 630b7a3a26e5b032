//! The filter of keys, built at the start and kept up while entries are written.

use std::collections::BTreeSet;

use tidegate::config::ConfigStore as _;
use tidegate_server::config_store::{EmbeddedConfigOptions, EmbeddedConfigStore};
use tidegate_testing::config_store::{delete, put};

use super::{CACHE_BYTES, open, path};
use crate::support::{Directory, wait_until};

fn key(number: usize) -> String {
    format!("filter/{number:08}")
}

async fn write(store: &EmbeddedConfigStore, numbers: impl Iterator<Item = usize>) {
    let writes: Vec<_> = numbers.map(|number| put(&key(number), b"x")).collect();
    for writes in writes.chunks(10_000) {
        store.write(writes).await.expect("it is written");
    }
}

/// How many of these keys may have an entry, by the filter.
fn passing(store: &EmbeddedConfigStore, numbers: impl Iterator<Item = usize>) -> usize {
    numbers.filter(|number| store.may_contain(&key(*number))).count()
}

#[tokio::test]
async fn keys_with_an_entry_pass_and_few_others_do() {
    let directory = Directory::new();
    for round in 0..2 {
        let store = open(&directory);
        assert!(store.filter_is_built());
        if round == 0 {
            // More than the first filter is made for, so that a larger one is built.
            write(&store, (0..200_000).step_by(2)).await;
        }
        assert_eq!(passing(&store, (0..200_000).step_by(2)), 100_000);
        let others = passing(&store, (1..200_000).step_by(2));
        assert!(others < 2_000, "{others} of 100,000");
        assert_eq!(store.get(&key(1)).await, Ok(None));
        assert!(store.get(&key(2)).await.expect("it is readable").is_some());
        assert_eq!(store.filter_warning(), None);
    }
}

#[tokio::test]
async fn a_deleted_key_is_absent_and_can_be_written_again() {
    let directory = Directory::new();
    let store = open(&directory);
    for _ in 0..3 {
        write(&store, 0..1).await;
        assert!(store.get(&key(0)).await.expect("it is readable").is_some());
        store.write(&[delete(&key(0))]).await.expect("it is written");
        assert_eq!(store.get(&key(0)).await, Ok(None));
    }
}

#[tokio::test]
async fn a_filter_that_is_too_small_is_reported_and_not_wrong() {
    let directory = Directory::new();
    write(&open(&directory), 0..100_000).await;
    let options = EmbeddedConfigOptions { cache_bytes: CACHE_BYTES, filter_bytes_max: 16 << 10 };
    let store = EmbeddedConfigStore::open_with(&path(&directory), options).expect("it opens");
    let warning = store.filter_warning().expect("it is too small");
    assert!(warning.contains("(hint: "), "{warning}");
    assert_eq!(passing(&store, 0..100_000), 100_000);
    assert_eq!(store.get(&key(100_000)).await, Ok(None));
    assert!(store.filter_bytes() <= 16 << 10);
    drop(store);
    let options = EmbeddedConfigOptions { filter_bytes_max: 0, ..options };
    let store = EmbeddedConfigStore::open_with(&path(&directory), options).expect("it opens");
    assert!(!store.filter_is_built());
    assert_eq!(store.get(&key(100_000)).await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_built_in_the_background_misses_no_key_that_is_written_meanwhile() {
    const ENTRIES: usize = 1_050_000;
    let directory = Directory::new();
    write(&open(&directory), 0..ENTRIES).await;
    let store = open(&directory);
    let mut written = BTreeSet::new();
    // Writes in all parts of the store while it is built, and some after.
    let mut number = ENTRIES;
    let mut rounds_after = 0;
    while rounds_after < 3 {
        rounds_after += usize::from(store.filter_is_built());
        let more = [format!("a/{number}"), key(number), format!("z/{number}")];
        let writes: Vec<_> = more.iter().map(|key| put(key, b"x")).collect();
        store.write(&writes).await.expect("it is written");
        written.extend(more);
        number += 1;
    }
    wait_until("the filter is built", || store.filter_is_built());
    assert!(written.iter().all(|key| store.may_contain(key)));
    assert_eq!(passing(&store, 0..ENTRIES), ENTRIES);
}
