//! The last file stays until the next is complete.

use std::fs;

use tidegate::MemoryStore;

use crate::snapshot::{MEMORY_MAX, NOW, PACKED, TestDirectory, charge, counter, restored, units_used};

#[test]
fn a_leftover_temporary_file_is_overwritten() {
    let (directory, counter) = (TestDirectory::new(), counter(PACKED));
    let store = MemoryStore::bounded(MEMORY_MAX);
    charge(&store, &counter, 1, NOW);
    // Longer than what is written over it.
    fs::write(directory.0.join(".limits.snapshot.tmp"), vec![b'x'; 1 << 20]).unwrap();
    store.snapshot(directory.file(), NOW).unwrap();
    assert_eq!(units_used(&restored(&directory.file(), NOW), &counter, 1, NOW), 1);
    assert_eq!(directory.names(), ["limits.snapshot"]);
}

#[test]
fn two_processes_do_not_write_into_one_file() {
    let (directory, counter) = (TestDirectory::new(), counter(PACKED));
    let store = MemoryStore::bounded(MEMORY_MAX);
    charge(&store, &counter, 1, NOW);
    store.snapshot(directory.file(), NOW).unwrap();
    let other = fs::File::create(directory.0.join(".limits.snapshot.tmp")).unwrap();
    other.lock().unwrap();
    charge(&store, &counter, 1, NOW);
    let error = store.snapshot(directory.file(), NOW).unwrap_err();
    assert!(error.is_being_written(), "{error}");
    assert!(error.to_string().contains("another process is writing it (hint: "), "{error}");
    assert_eq!(units_used(&restored(&directory.file(), NOW), &counter, 1, NOW), 1);
    drop(other);
    store.snapshot(directory.file(), NOW).unwrap();
    assert_eq!(units_used(&restored(&directory.file(), NOW), &counter, 1, NOW), 2);
}

#[test]
fn threads_that_write_one_snapshot_take_turns() {
    let (directory, counter) = (TestDirectory::new(), counter(PACKED));
    let store = MemoryStore::bounded(MEMORY_MAX);
    (0..1_000).for_each(|key| charge(&store, &counter, key, NOW));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(store.snapshot(directory.file(), NOW).unwrap().entries, 1_000);
                }
            });
        }
    });
    let again = restored(&directory.file(), NOW);
    assert!((0..1_000).all(|key| units_used(&again, &counter, key, NOW) == 1));
}

#[test]
fn a_path_that_cannot_be_written_is_named() {
    let directory = TestDirectory::new();
    let store = MemoryStore::bounded(MEMORY_MAX);
    let path = directory.0.join("missing").join("limits.snapshot");
    let error = store.snapshot(&path, NOW).unwrap_err();
    assert_eq!(error.path(), path);
    assert!(error.to_string().contains("its directory does not exist (hint: create"), "{error}");
    let error = store.snapshot("/", NOW).unwrap_err();
    assert!(error.to_string().contains("the path does not name a file"), "{error}");
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_seed() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TestDirectory::new();
    MemoryStore::bounded(MEMORY_MAX).snapshot(directory.file(), NOW).unwrap();
    let mode = fs::metadata(directory.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

/// Also if the temporary file existed before, with other permissions.
#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_seed_in_a_file_that_was_there() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TestDirectory::new();
    let temporary = directory.0.join(".limits.snapshot.tmp");
    fs::write(&temporary, "").unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o666)).unwrap();
    MemoryStore::bounded(MEMORY_MAX).snapshot(directory.file(), NOW).unwrap();
    let mode = fs::metadata(directory.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
}

#[cfg(unix)]
#[test]
fn a_link_in_place_of_the_temporary_file_is_not_followed() {
    use std::os::unix::fs::symlink;
    let directory = TestDirectory::new();
    let (temporary, other) = (directory.0.join(".limits.snapshot.tmp"), directory.0.join("other"));
    let store = MemoryStore::bounded(MEMORY_MAX);
    // A link to a missing file, which would be created.
    symlink(&other, &temporary).unwrap();
    let error = store.snapshot(directory.file(), NOW).unwrap_err();
    assert!(error.to_string().contains(".limits.snapshot.tmp` is a link, "), "{error}");
    assert!(error.to_string().contains("(hint: remove it"), "{error}");
    assert_eq!(directory.names(), [".limits.snapshot.tmp"]);
    // A link to an existing file, which would be truncated.
    fs::write(&other, "precious").unwrap();
    store.snapshot(directory.file(), NOW).unwrap_err();
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
    assert_eq!(directory.names(), [".limits.snapshot.tmp", "other"]);
    fs::remove_file(&temporary).unwrap();
    store.snapshot(directory.file(), NOW).unwrap();
}
