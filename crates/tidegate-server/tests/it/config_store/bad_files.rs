//! Files that the embedded store cannot open: an error with a hint, no panic, and the file is left as it is.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tidegate::config::{
    ConfigStore as _, ConfigStoreError, ConfigVersion, ConfigWrite, WriteCondition, WriteResult,
};
use tidegate_server::config_store::EmbeddedConfigStore;
use tidegate_testing::config_store::{put, scan_all};

use super::{CACHE_BYTES, open, path};
use crate::support::Directory;

#[track_caller]
fn error(directory: &Directory) -> ConfigStoreError {
    let error = EmbeddedConfigStore::open(&path(directory), CACHE_BYTES).expect_err("it does not open");
    assert!(error.to_string().contains("(hint: "), "{error}");
    error
}

/// A file with some entries.
async fn filled(directory: &Directory) -> Vec<u8> {
    let store = open(directory);
    let writes: Vec<_> = (0..2_000).map(|number| put(&format!("key/{number}"), b"value")).collect();
    store.write(&writes).await.expect("it is written");
    drop(store);
    fs::read(path(directory)).expect("it is there")
}

#[test]
fn files_of_other_programs_are_kept() {
    let long = "precious\n".repeat(100_000);
    for content in ["precious\n", &long, "redb", "redb\u{1a}\n"] {
        let directory = Directory::new();
        fs::write(path(&directory), content).expect("it is written");
        assert!(matches!(error(&directory), ConfigStoreError::Broken(_)));
        assert_eq!(fs::read_to_string(path(&directory)).expect("it is there"), content);
    }
}

#[test]
fn redb_files_of_other_programs_are_refused() {
    const TABLE: redb::TableDefinition<u64, u64> = redb::TableDefinition::new("numbers of another program");
    let directory = Directory::new();
    let database = redb::Database::create(path(&directory)).expect("it is created");
    let writing = database.begin_write().expect("it begins");
    writing.open_table(TABLE).expect("it opens").insert(1, 2).expect("it is inserted");
    writing.commit().expect("it is committed");
    drop(database);
    let error = error(&directory);
    assert!(error.to_string().contains("another program"), "{error}");
}

#[test]
fn a_newer_format_is_refused() {
    const NUMBERS: redb::TableDefinition<&[u8], u64> = redb::TableDefinition::new("numbers");
    let directory = Directory::new();
    drop(open(&directory));
    let database = redb::Database::create(path(&directory)).expect("it opens");
    let writing = database.begin_write().expect("it begins");
    writing.open_table(NUMBERS).expect("it opens").insert(&b"format"[..], 2).expect("it is inserted");
    writing.commit().expect("it is committed");
    drop(database);
    let error = error(&directory);
    assert!(error.to_string().contains("format 2"), "{error}");
}

#[test]
fn a_file_in_use_is_refused() {
    let directory = Directory::new();
    let _store = open(&directory);
    let error = error(&directory);
    assert!(matches!(error, ConfigStoreError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("another process"), "{error}");
}

#[test]
fn links_and_missing_directories_are_refused() {
    let directory = Directory::new();
    let target = directory.write("target", "precious");
    symlink(&target, path(&directory)).expect("it is created");
    assert!(matches!(error(&directory), ConfigStoreError::Unavailable(_)));
    assert_eq!(fs::read_to_string(&target).expect("it is there"), "precious");

    let missing = path(&directory).with_file_name("missing").join("config.redb");
    let error = EmbeddedConfigStore::open(&missing, CACHE_BYTES).expect_err("there is no directory");
    assert!(matches!(error, ConfigStoreError::Unavailable(_)), "{error}");
}

#[test]
fn only_the_user_of_the_server_reads_the_file() {
    let directory = Directory::new();
    let _store = open(&directory);
    let mode = fs::metadata(path(&directory)).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Opens what may be damaged and reads all of it. Any result is fine; a panic fails the test.
async fn try_all(directory: &Directory) -> bool {
    match EmbeddedConfigStore::open(&path(directory), CACHE_BYTES) {
        Ok(store) => {
            for number in (0..2_000).step_by(97) {
                let _ = store.get(&format!("key/{number}")).await;
            }
            let scan = tidegate::config::Scan { prefix: "", after: None, entries_max: 10_000 };
            let _ = store.scan(scan).await;
            let _ = store.changes(tidegate::config::ConfigVersion::ZERO, 10_000).await;
            let _ = store.write(&[put("new", b"value")]).await;
            true
        }
        Err(error) => {
            assert!(error.to_string().contains("(hint: "), "{error}");
            false
        }
    }
}

#[tokio::test]
async fn truncated_files_are_errors() {
    let directory = Directory::new();
    let whole = filled(&directory).await;
    for parts in 1..16 {
        fs::write(path(&directory), &whole[..whole.len() * parts / 16]).expect("it is written");
        assert!(!try_all(&directory).await, "{parts} of 16 parts");
    }
    // An empty file is a new store.
    fs::write(path(&directory), "").expect("it is written");
    assert_eq!(scan_all(&open(&directory), "", 10).await, []);
}

#[tokio::test]
async fn damaged_files_do_not_panic() {
    let directory = Directory::new();
    let whole = filled(&directory).await;
    // The header, and then some of each page.
    let positions = (0..512).step_by(5).chain((512..whole.len()).step_by(7_919));
    for (round, position) in positions.enumerate() {
        let mut damaged = whole.clone();
        let end = whole.len().min(position + if round % 2 == 0 { 1 } else { 64 });
        damaged[position..end].iter_mut().for_each(|byte| *byte ^= 0xa5);
        fs::write(path(&directory), &damaged).expect("it is written");
        try_all(&directory).await;
    }
}

/// An entry that is damaged is returned for the caller to report, and does not hide the others.
#[tokio::test]
async fn damaged_entries_do_not_hide_others() {
    const ENTRIES: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("entries");
    let directory = Directory::new();
    filled(&directory).await;
    let database = redb::Database::create(path(&directory)).expect("it opens");
    let writing = database.begin_write().expect("it begins");
    {
        let mut entries = writing.open_table(ENTRIES).expect("it opens");
        entries.insert(&b"key/1"[..], &b"short"[..]).expect("it is inserted");
        entries.insert(&b"key/\xff"[..], &b"no text"[..]).expect("it is inserted");
    }
    writing.commit().expect("it is committed");
    drop(database);
    let store = open(&directory);
    let damaged = store.get("key/1").await.expect("it is read").expect("it is there");
    assert_eq!((&*damaged.value, damaged.version), (&b"short"[..], ConfigVersion::ZERO));
    assert_eq!(scan_all(&store, "key/", 900).await.len(), 2_000);
    // It can be mended.
    let write = ConfigWrite { condition: WriteCondition::Version(damaged.version), ..put("key/1", b"whole") };
    let written = store.write(&[write]).await.expect("it is written");
    assert!(matches!(written[..], [WriteResult::Written(_)]), "{written:?}");
}
