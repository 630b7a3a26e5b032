//! A disk that becomes full or fails, below the store.
//!
//! The disk is in memory, so these tests need no rights to mount one and are never skipped. It acts as a file system that
//! overwrites in place: only a block that was never written takes space. The lab has the same test with a real process
//! and a real limit of the file's size.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{BackendError, Builder, StorageBackend};
use tidegate::config::{ConfigStore as _, ConfigStoreError, ConfigVersion, WriteResult};
use tidegate_testing::config_store::{delete, put, scan_all};

use super::EmbeddedConfigStore;
use super::database_file::DatabaseFile;
use super::writer::FreeSpace;

const BLOCK_BYTES: usize = 4_096;
const CACHE_BYTES: usize = 1 << 20;

/// Kept while the store is closed and opened again, as a real disk is.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<DiskState>>);

#[derive(Debug, Default)]
struct DiskState {
    blocks: BTreeMap<u64, Box<[u8]>>,
    file_bytes: u64,
    /// A write that needs more blocks fails with "no space left".
    blocks_max: Option<usize>,
    /// Every call after this many fails with an I/O error.
    calls_left: Option<u64>,
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if the disk works.
    fn call(&self) -> io::Result<MutexGuard<'_, DiskState>> {
        let mut state = self.state();
        match &mut state.calls_left {
            Some(0) => return Err(io::Error::other("the disk does not answer")),
            Some(calls) => *calls -= 1,
            None => {}
        }
        Ok(state)
    }

    fn open(&self) -> EmbeddedConfigStore {
        self.try_open().unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_open(&self) -> Result<EmbeddedConfigStore, ConfigStoreError> {
        let disk = self.clone();
        let open =
            move || Ok(Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(disk.clone())?);
        let file = DatabaseFile::open_with(Path::new("simulated.redb"), Box::new(open))?;
        EmbeddedConfigStore::start(file, FreeSpace::Unchecked)
    }
}

/// Each block of a range, with the part of it that the range covers.
fn blocks(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let end = offset + bytes as u64;
    (offset / BLOCK_BYTES as u64..end.div_ceil(BLOCK_BYTES as u64)).map(move |block| {
        let start = block * BLOCK_BYTES as u64;
        let within = |position: u64| usize::try_from(position.saturating_sub(start)).unwrap_or(BLOCK_BYTES);
        (block, within(offset).min(BLOCK_BYTES)..within(end).min(BLOCK_BYTES))
    })
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.call()?.file_bytes)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.call()?;
        if offset + out.len() as u64 > state.file_bytes {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut rest = out;
        for (block, range) in blocks(offset, rest.len()) {
            let (part, later) = rest.split_at_mut(range.len());
            match state.blocks.get(&block) {
                Some(content) => part.copy_from_slice(&content[range]),
                None => part.fill(0),
            }
            rest = later;
        }
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.call()?;
        state.file_bytes = bytes;
        drop(state.blocks.split_off(&bytes.div_ceil(BLOCK_BYTES as u64)));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call().map(drop)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.call()?;
        let mut rest = data;
        for (block, range) in blocks(offset, data.len()) {
            let blocks_max = state.blocks_max.unwrap_or(usize::MAX);
            if state.blocks.len() >= blocks_max && !state.blocks.contains_key(&block) {
                return Err(ErrorKind::StorageFull.into());
            }
            let (part, later) = rest.split_at(range.len());
            let content = state.blocks.entry(block).or_insert_with(|| vec![0; BLOCK_BYTES].into());
            content[range].copy_from_slice(part);
            rest = later;
        }
        Ok(())
    }

    // One process uses the disk, so every lock is free.
    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }
    fn try_lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }
    fn lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
    fn lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
}

fn key(number: u32) -> String {
    format!("full/{number:06}")
}

/// Writes entries until one fails. Returns how many were acknowledged, the last version and the error.
async fn fill(store: &EmbeddedConfigStore, from: u32) -> (u32, ConfigVersion, ConfigStoreError) {
    const ENTRIES_MAX: u32 = 100_000;
    let (value, mut last) = ([b'v'; 2_000], ConfigVersion::ZERO);
    for number in from..ENTRIES_MAX {
        match store.write(&[put(&key(number), &value)]).await {
            Ok(results) => match results[..] {
                [WriteResult::Written(version)] if version > last => last = version,
                _ => panic!("{results:?} after {last}"),
            },
            Err(error) => return (number, last, error),
        }
    }
    panic!("the disk never failed");
}

#[tokio::test]
async fn a_full_disk_is_an_error_of_the_write_and_reads_go_on() {
    for blocks_max in [100, 107, 120, 200] {
        let disk = Disk::default();
        disk.state().blocks_max = Some(blocks_max);
        let store = disk.open();
        let (acknowledged, last, error) = fill(&store, 0).await;
        assert!(matches!(error, ConfigStoreError::Full(_)), "{error}");
        assert!(error.to_string().contains("(hint: "), "{error}");
        assert!(acknowledged > 10, "{acknowledged}");

        // Reads go on, and a write is refused again.
        let held = scan_all(&store, "full/", 1_000).await.len();
        assert!(held == acknowledged as usize || held == acknowledged as usize + 1, "{held} {acknowledged}");
        assert!(store.get_blocking(&key(0)).expect("it is readable").is_some());
        let (_, _, error) = fill(&store, acknowledged).await;
        assert!(matches!(error, ConfigStoreError::Full(_)), "{error}");

        // With space again, writes go on where they ended.
        disk.state().blocks_max = None;
        let results = store.write(&[put("after", b"x"), delete(&key(0))]).await.expect("there is space");
        assert!(matches!(results[0], WriteResult::Written(version) if version > last), "{results:?} {last}");
        drop(store);
        let store = disk.open();
        let held = scan_all(&store, "full/", 1_000).await;
        assert!(held.len() >= acknowledged as usize - 1);
        assert!((1..acknowledged).all(|number| held.iter().any(|(held, _)| *held == key(number))));
    }
}

#[tokio::test]
async fn a_disk_that_fails_at_any_call_loses_nothing_acknowledged() {
    for calls in (0..400).step_by(7) {
        let disk = Disk::default();
        let store = disk.open();
        store.write(&[put("first", b"1")]).await.expect("the disk works");
        disk.state().calls_left = Some(calls);
        let (acknowledged, last, error) = fill(&store, 0).await;
        assert!(matches!(error, ConfigStoreError::Unavailable(_)), "{error}");
        let error = store.latest().await.expect_err("the disk fails");
        assert!(matches!(error, ConfigStoreError::Unavailable(_)), "{error}");

        disk.state().calls_left = None;
        let results = store.write(&[put("after", b"x")]).await.expect("the disk works");
        assert!(matches!(results[0], WriteResult::Written(version) if version > last), "{results:?} {last}");
        for number in 0..acknowledged {
            assert!(store.get_blocking(&key(number)).expect("it is readable").is_some(), "{number}");
        }
        assert!(store.get_blocking("first").expect("it is readable").is_some());
    }
}

#[tokio::test]
async fn reads_alone_open_a_file_again_that_a_disk_error_closed() {
    // More than the cache holds, so that some read goes to the disk.
    const ENTRIES: u32 = 2_000;
    let disk = Disk::default();
    let store = disk.open();
    let value = [b'v'; 2_000];
    let writes: Vec<_> = (0..ENTRIES).map(|number| put(&key(number), &value)).collect();
    store.write(&writes).await.expect("the disk works");
    disk.state().calls_left = Some(0);
    assert!((0..ENTRIES).any(|number| store.get_blocking(&key(number)).is_err()));
    disk.state().calls_left = None;
    // The writer opens it once a second.
    let mut polls = tokio::time::interval(std::time::Duration::from_millis(10));
    for _ in 0..3_000 {
        polls.tick().await;
        if store.get_blocking(&key(0)).is_ok() {
            return;
        }
    }
    panic!("the file was not opened again");
}
