//! The conformance suite of config stores. Every implementation runs it, over its real server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate::config::{
    CONFIG_KEY_BYTES_MAX, CONFIG_VALUE_BYTES_MAX, Changes, ConfigStore, ConfigStoreError, ConfigVersion,
    ConfigWrite, Scan, WriteCondition, WriteResult,
};

/// How often changes are read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Ten seconds of polls.
const POLLS_MAX: usize = 1_000;

/// Runs the suite over an empty store. `other` is a second handle of the same store, as another node has it.
///
/// # Panics
///
/// If the store breaks a promise of [`ConfigStore`].
pub async fn check_config_store(store: Arc<dyn ConfigStore>, other: Arc<dyn ConfigStore>) {
    values_are_kept_and_versions_grow(&*store, &*other).await;
    conditions_hold(&*store, &*other).await;
    invalid_writes_are_refused(&*store).await;
    scans_are_ordered_and_paged(&*store, &*other).await;
    changes_are_listed(&*store, &*other).await;
    concurrent_conditional_writes_have_one_winner(&store, &other).await;
}

/// A write that is always done.
pub fn put(key: &str, value: &[u8]) -> ConfigWrite {
    ConfigWrite { key: key.into(), value: Some(value.into()), condition: WriteCondition::Always }
}

/// A deletion that is always done.
pub fn delete(key: &str) -> ConfigWrite {
    ConfigWrite { key: key.into(), value: None, condition: WriteCondition::Always }
}

/// Does one write and returns its result.
///
/// # Panics
///
/// If the store fails.
pub async fn write_one(store: &dyn ConfigStore, write: ConfigWrite) -> WriteResult {
    let results = store.write(&[write]).await.expect("the store answers");
    assert_eq!(results.len(), 1);
    results[0]
}

async fn written(store: &dyn ConfigStore, write: ConfigWrite) -> ConfigVersion {
    match write_one(store, write).await {
        WriteResult::Written(version) => version,
        WriteResult::Conflict(current) => {
            panic!("a write without a condition has a conflict with {current:?}")
        }
    }
}

async fn value(store: &dyn ConfigStore, key: &str) -> Option<(Vec<u8>, ConfigVersion)> {
    let entry = store.get(key).await.expect("the store answers")?;
    assert_eq!(&*entry.key, key);
    Some((entry.value.into(), entry.version))
}

async fn values_are_kept_and_versions_grow(store: &dyn ConfigStore, other: &dyn ConfigStore) {
    assert_eq!(value(store, "kept/a").await, None);
    let first = written(store, put("kept/a", b"one")).await;
    assert!(first > ConfigVersion::ZERO);
    assert_eq!(value(other, "kept/a").await, Some((b"one".to_vec(), first)));
    // Any bytes, also none, and keys with any text.
    let second = written(other, put("kept/a", b"\x00\xff\n")).await;
    assert!(second > first);
    assert_eq!(value(store, "kept/a").await, Some((b"\x00\xff\n".to_vec(), second)));
    for key in ["kept/\u{1f}user=Zoë Ångström", "kept/*", "kept/%2f'\"{}[]\\$:", "kept/ "] {
        let version = written(store, put(key, b"")).await;
        assert_eq!(value(other, key).await, Some((Vec::new(), version)), "{key}");
    }
    let longest = format!("kept/{}", "k".repeat(CONFIG_KEY_BYTES_MAX - 5));
    let version = written(store, put(&longest, b"long")).await;
    assert_eq!(value(other, &longest).await, Some((b"long".to_vec(), version)));
    let large = vec![7; CONFIG_VALUE_BYTES_MAX];
    let version = written(store, put("kept/large", &large)).await;
    assert_eq!(value(other, "kept/large").await, Some((large, version)));
    // A deleted key starts with a greater version.
    let deleted = written(store, delete("kept/a")).await;
    assert!(deleted > second);
    assert_eq!(value(other, "kept/a").await, None);
    assert!(written(other, put("kept/a", b"again")).await > deleted);
    // A deletion of nothing is not an error.
    written(store, delete("kept/none")).await;
}

async fn conditions_hold(store: &dyn ConfigStore, other: &dyn ConfigStore) {
    let write = |value: Option<&[u8]>, condition| ConfigWrite {
        key: "conditional".into(),
        value: value.map(Into::into),
        condition,
    };
    let unknown = WriteCondition::Version(ConfigVersion::new(u64::from(u32::MAX)));
    assert_eq!(write_one(store, write(Some(b"x"), unknown)).await, WriteResult::Conflict(None));
    assert_eq!(write_one(store, write(None, unknown)).await, WriteResult::Conflict(None));
    let WriteResult::Written(first) = write_one(store, write(Some(b"1"), WriteCondition::Absent)).await
    else {
        panic!("the key is absent");
    };
    let conflict = WriteResult::Conflict(Some(first));
    assert_eq!(write_one(other, write(Some(b"2"), WriteCondition::Absent)).await, conflict);
    assert_eq!(write_one(other, write(None, WriteCondition::Absent)).await, conflict);
    let at_first = WriteCondition::Version(first);
    let WriteResult::Written(second) = write_one(other, write(Some(b"2"), at_first)).await else {
        panic!("the version is the current one");
    };
    let conflict = WriteResult::Conflict(Some(second));
    assert_eq!(write_one(store, write(Some(b"3"), at_first)).await, conflict);
    assert_eq!(write_one(store, write(None, at_first)).await, conflict);
    assert_eq!(value(store, "conditional").await, Some((b"2".to_vec(), second)));
    let deleted = write_one(store, write(None, WriteCondition::Version(second))).await;
    assert!(matches!(deleted, WriteResult::Written(version) if version > second));
    assert_eq!(value(other, "conditional").await, None);

    // The writes of one call are done in order, each by its own condition.
    let writes = [
        write(Some(b"a"), WriteCondition::Absent),
        write(Some(b"b"), WriteCondition::Absent),
        write(Some(b"c"), WriteCondition::Always),
        put("conditional/2", b"d"),
    ];
    let results = store.write(&writes).await.expect("the store answers");
    let [
        WriteResult::Written(a),
        WriteResult::Conflict(Some(b)),
        WriteResult::Written(c),
        WriteResult::Written(_),
    ] = results[..]
    else {
        panic!("{results:?}");
    };
    assert!(a == b && a < c);
    assert_eq!(value(other, "conditional").await, Some((b"c".to_vec(), c)));
    assert_eq!(store.write(&[]).await, Ok(Vec::new()));
}

async fn invalid_writes_are_refused(store: &dyn ConfigStore) {
    let long = "k".repeat(CONFIG_KEY_BYTES_MAX + 1);
    let large = vec![0; CONFIG_VALUE_BYTES_MAX + 1];
    let before = store.latest().await.expect("the store answers");
    for write in [put("", b"x"), put(&long, b"x"), put("a\nb", b"x"), put("large", &large)] {
        // Nothing of the call is done.
        let result = store.write(&[put("beside", b"x"), write]).await;
        assert!(matches!(result, Err(ConfigStoreError::Invalid(_))), "{result:?}");
    }
    assert_eq!(value(store, "beside").await, None);
    assert_eq!(store.latest().await, Ok(before));
}

/// All entries with a prefix, read in pages of this many.
///
/// # Panics
///
/// If the store fails or its pages are out of order.
pub async fn scan_all(store: &dyn ConfigStore, prefix: &str, entries_max: usize) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    loop {
        let after = all.last().map(|(key, _)| key.clone());
        let page = store
            .scan(Scan { prefix, after: after.as_deref(), entries_max })
            .await
            .expect("the store answers");
        assert!(page.entries.len() <= entries_max);
        assert!(!page.has_more || !page.entries.is_empty());
        for entry in page.entries {
            assert!(
                all.last().is_none_or(|(last, _)| last.as_bytes() < entry.key.as_bytes()),
                "{}",
                entry.key
            );
            all.push((entry.key.into(), entry.value.into()));
        }
        if !page.has_more {
            return all;
        }
    }
}

async fn scans_are_ordered_and_paged(store: &dyn ConfigStore, other: &dyn ConfigStore) {
    let mut model = BTreeMap::new();
    let names = ["", "a", "ab", "b", "é", "\u{1f}x", "~", "10", "9", "A"];
    for (name, number) in names.into_iter().zip(0_u8..) {
        let key = format!("scan/{name}");
        written(store, put(&key, &[number])).await;
        model.insert(key, vec![number]);
    }
    // Neighbours that do not have the prefix.
    for key in ["scan", "scan.", "scan0", "scam/z"] {
        written(store, put(key, b"neighbour")).await;
    }
    let expected: Vec<(String, Vec<u8>)> = model.into_iter().collect();
    for entries_max in [1, 2, 3, 10, 1_000] {
        assert_eq!(scan_all(other, "scan/", entries_max).await, expected, "{entries_max}");
    }
    assert_eq!(scan_all(other, "scan/ab", 10).await.len(), 1);
    assert_eq!(scan_all(other, "scan/none", 10).await, []);
}

/// Reads changes until there are no more and `is_enough`. A store may list a change some time after its write.
async fn read_changes(
    store: &dyn ConfigStore,
    mut since: ConfigVersion,
    is_enough: impl Fn(&BTreeMap<String, ConfigVersion>) -> bool,
) -> (BTreeMap<String, ConfigVersion>, ConfigVersion) {
    let mut seen = BTreeMap::new();
    let mut polls = tokio::time::interval(POLL_INTERVAL);
    for _ in 0..POLLS_MAX {
        let Changes { keys, next, has_more, is_gap } =
            store.changes(since, 3).await.expect("the store answers");
        assert!(!is_gap, "the log has all of these changes");
        for (key, version) in keys {
            let last = seen.entry(key.to_string()).or_insert(version);
            *last = version.max(*last);
        }
        since = next;
        if !has_more && is_enough(&seen) {
            break;
        }
        if !has_more {
            polls.tick().await;
        }
    }
    (seen, since)
}

async fn changes_are_listed(store: &dyn ConfigStore, other: &dyn ConfigStore) {
    let start = store.latest().await.expect("the store answers");
    let mut expected = BTreeMap::new();
    for number in 0..20 {
        let key = format!("changes/{}", number % 12);
        let version = written(if number % 2 == 0 { store } else { other }, put(&key, b"x")).await;
        expected.insert(key, version);
    }
    let version = written(other, delete("changes/3")).await;
    expected.insert("changes/3".to_owned(), version);
    let holds_all = |seen: &BTreeMap<String, ConfigVersion>| {
        expected.iter().all(|(key, version)| seen.get(key) >= Some(version))
    };
    let (seen, next) = read_changes(store, start, holds_all).await;
    let of_this_test: BTreeMap<_, _> =
        seen.into_iter().filter(|(key, _)| key.starts_with("changes/")).collect();
    assert_eq!(of_this_test, expected);
    // A conflict changes nothing and is no change. From `next` on, a later change is listed.
    let condition = WriteCondition::Absent;
    write_one(store, ConfigWrite { condition, ..put("changes/0", b"y") }).await;
    let version = written(store, put("changes/later", b"x")).await;
    let (seen, _) = read_changes(other, next, |seen| seen.contains_key("changes/later")).await;
    assert_eq!(seen.get("changes/later"), Some(&version));
    assert!(seen.get("changes/0").is_none_or(|listed| *listed <= expected["changes/0"]));
    // A version from the future, as after the loss of the store's data, is a gap.
    let future = ConfigVersion::new(version.get() + 1_000_000_000);
    assert!(store.changes(future, 10).await.expect("the store answers").is_gap);
}

async fn concurrent_conditional_writes_have_one_winner(
    store: &Arc<dyn ConfigStore>,
    other: &Arc<dyn ConfigStore>,
) {
    for round in 0..20_u8 {
        let key = format!("contended/{}", round / 5);
        let current = value(&**store, &key).await.map(|(_, version)| version);
        let condition = current.map_or(WriteCondition::Absent, WriteCondition::Version);
        let write = |value: u8| [ConfigWrite { condition, ..put(&key, &[value]) }];
        let (one, two) = (write(1), write(2));
        let (one, two) = tokio::join!(store.write(&one), other.write(&two));
        let results = [one.expect("the store answers")[0], two.expect("the store answers")[0]];
        let written: Vec<_> =
            results.iter().filter(|result| matches!(result, WriteResult::Written(_))).collect();
        assert_eq!(written.len(), 1, "{results:?}");
        let (_, version) = value(&**store, &key).await.expect("one of the writes was done");
        assert_eq!(*written[0], WriteResult::Written(version));
        assert!(results.contains(&WriteResult::Conflict(Some(version))), "{results:?}");
    }
}
