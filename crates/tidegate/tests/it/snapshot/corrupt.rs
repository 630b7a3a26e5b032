//! A file with an error is not restored at all, and the error says what was wrong.

use std::fs;

use tidegate::MemoryStore;
use tidegate::snapshot::{RestoreStatus, SnapshotError};

use crate::snapshot::{MEMORY_MAX, NOW, PACKED, TestDirectory, USAGE_LOG, charge, counter, units_used};

/// A snapshot with a few states of each kind.
fn small_snapshot(directory: &TestDirectory) -> Vec<u8> {
    let store = MemoryStore::bounded(MEMORY_MAX);
    for key in 0..3 {
        charge(&store, &counter(PACKED), key, NOW);
        charge(&store, &counter(USAGE_LOG), key, NOW);
    }
    assert_eq!(store.snapshot(directory.file(), NOW).unwrap().entries, 6);
    fs::read(directory.file()).unwrap()
}

/// Restores these bytes, which must be refused: the store is empty and works, the message says so, and the file is
/// moved aside unchanged.
fn refusal(directory: &TestDirectory, bytes: &[u8]) -> SnapshotError {
    fs::write(directory.file(), bytes).unwrap();
    let restored = MemoryStore::restore(directory.file(), MEMORY_MAX, NOW);
    let RestoreStatus::Refused(error) = restored.status else {
        panic!("it was restored: {}", restored.status)
    };
    let empty = MemoryStore::bounded(MEMORY_MAX).stats();
    assert_eq!(restored.store.stats(), empty, "{error}");
    for counter in [counter(PACKED), counter(USAGE_LOG)] {
        charge(&restored.store, &counter, 0, NOW);
        assert_eq!(units_used(&restored.store, &counter, 0, NOW), 1, "{error}");
    }
    let aside = directory.file().with_file_name("limits.snapshot.refused");
    assert_eq!(error.moved_to(), Some(aside.as_path()), "{error}");
    assert_eq!(fs::read(aside).unwrap(), bytes, "{error}");
    assert!(!directory.file().exists(), "{error}");
    let text = error.to_string();
    for part in ["limits.snapshot`", "the store starts empty", "limits.snapshot.refused", "(hint: "] {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
    error
}

#[test]
fn every_truncation_is_refused() {
    let directory = TestDirectory::new();
    let whole = small_snapshot(&directory);
    for length in 0..whole.len() {
        let error = refusal(&directory, &whole[..length]);
        if length == 0 {
            assert!(error.to_string().contains("does not start with the magic bytes"), "{error}");
        } else {
            assert!(error.is_damaged(), "{error}");
            assert!(error.to_string().contains(&format!("it ends at byte {length}")), "{error}");
        }
    }
    fs::write(directory.file(), &whole).unwrap();
    assert!(matches!(
        MemoryStore::restore(directory.file(), MEMORY_MAX, NOW).status,
        RestoreStatus::Restored { restored: 6, .. }
    ));
}

#[test]
fn every_changed_byte_is_noticed() {
    let directory = TestDirectory::new();
    let whole = small_snapshot(&directory);
    for at in 0..whole.len() {
        for change in [0x01, 0x80, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            let error = refusal(&directory, &bytes);
            match at {
                0..8 => assert!(error.to_string().contains("does not start with the magic bytes"), "{error}"),
                8..12 => assert!(error.is_newer_version() || error.is_damaged(), "{error}"),
                _ => assert!(error.is_damaged(), "byte {at}: {error}"),
            }
        }
    }
}

#[test]
fn a_newer_version_is_refused() {
    let directory = TestDirectory::new();
    let mut bytes = small_snapshot(&directory);
    bytes[8..12].copy_from_slice(&3_u32.to_le_bytes());
    let error = refusal(&directory, &bytes);
    assert!(error.is_newer_version() && !error.is_damaged());
    assert!(error.to_string().contains("version 3, newer than version 2"), "{error}");
    // Of a newer version nothing else is known, not even how long its header is.
    assert!(refusal(&directory, &bytes[..12]).is_newer_version());
}

#[test]
fn other_files_are_refused() {
    let directory = TestDirectory::new();
    for bytes in [&b""[..], b"TIDY", b"limits: none\n", &[0; 4096]] {
        let error = refusal(&directory, bytes);
        assert!(error.to_string().contains("does not start with the magic bytes"), "{error}");
        assert!(!error.is_damaged() && !error.is_newer_version());
    }
}

#[test]
fn bytes_after_the_last_block_are_refused() {
    let directory = TestDirectory::new();
    let whole = small_snapshot(&directory);
    for tail in [&b"\0"[..], &whole] {
        let error = refusal(&directory, &[&whole, tail].concat());
        let expected = format!("at byte {}: extra data follows the last block", whole.len());
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[test]
fn a_different_hash_is_refused() {
    let directory = TestDirectory::new();
    let mut bytes = small_snapshot(&directory);
    bytes[40] ^= 1;
    let rest = [&bytes[..12], &bytes[16..48]].concat();
    bytes[12..16].copy_from_slice(&crc32fast::hash(&rest).to_le_bytes());
    let error = refusal(&directory, &bytes);
    assert!(error.to_string().contains("a build with a different hash of keys"), "{error}");
}

#[test]
fn a_directory_is_left_where_it_is() {
    let directory = TestDirectory::new();
    fs::create_dir(directory.file()).unwrap();
    let status = MemoryStore::restore(directory.file(), MEMORY_MAX, NOW).status;
    let RestoreStatus::Refused(error) = status else { panic!("{status}") };
    assert!(error.to_string().contains("not a regular file; the store starts empty (hint: "), "{error}");
    assert_eq!((error.moved_to(), directory.names()), (None, vec!["limits.snapshot".to_owned()]));
    let error = MemoryStore::bounded(MEMORY_MAX).snapshot(directory.file(), NOW).unwrap_err();
    assert!(error.to_string().contains("was not written: it is a directory"), "{error}");
}

#[test]
fn a_path_that_cannot_be_read_is_refused() {
    let directory = TestDirectory::new();
    fs::write(directory.file(), "a file is no directory").unwrap();
    let status = MemoryStore::restore(directory.file().join("below"), MEMORY_MAX, NOW).status;
    let RestoreStatus::Refused(error) = status else { panic!("{status}") };
    assert!(error.to_string().contains("cannot read it: "), "{error}");
    assert!(error.to_string().contains("the store starts empty"), "{error}");
}

/// The next snapshot must not replace the file, because it may be intact. The hint says that it may be moved back.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_read_is_moved_aside_and_can_be_moved_back() {
    let directory = TestDirectory::new();
    // The first address is not mapped, so a read fails, whatever the permissions.
    std::os::unix::fs::symlink("/proc/self/mem", directory.file()).unwrap();
    let status = MemoryStore::restore(directory.file(), MEMORY_MAX, NOW).status;
    let RestoreStatus::Refused(error) = status else { panic!("{status}") };
    assert!(error.to_string().contains("cannot read it: "), "{error}");
    assert!(error.to_string().contains("(hint: the file may be intact: "), "{error}");
    assert!(error.to_string().contains("move the file back and start again)"), "{error}");
    assert_eq!(error.moved_to(), Some(directory.0.join("limits.snapshot.refused").as_path()));
    assert!(!error.is_damaged());
    assert_eq!(directory.names(), ["limits.snapshot.refused"]);
}

#[test]
fn no_file_is_no_error() {
    let directory = TestDirectory::new();
    for path in [directory.file(), directory.0.join("no such directory").join("limits.snapshot")] {
        let restored = MemoryStore::restore(path, MEMORY_MAX, NOW);
        assert_eq!(restored.status, RestoreStatus::NoSnapshot);
        assert_eq!(restored.status.to_string(), "there is no snapshot; the store starts empty");
        charge(&restored.store, &counter(PACKED), 0, NOW);
    }
}
