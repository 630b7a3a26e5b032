//! fjall, with the same tables and the same guarantees as the server's store on redb.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::engine::{BuiltFilter, Engine, EngineOptions};
use super::{present_key, value};

/// How many changes the log keeps, as in the server's store.
const CHANGES_KEPT: u64 = 1_000_000;
const LAST_VERSION: &str = "last-version";

pub(super) struct FjallEngine {
    database: Database,
    entries: Keyspace,
    changes: Keyspace,
    numbers: Keyspace,
    last_version: AtomicU64,
}

fn failed(error: fjall::Error) -> String {
    format!("fjall: {error}")
}

impl FjallEngine {
    pub(super) fn open(options: &EngineOptions<'_>) -> Result<Self, String> {
        let database = Database::builder(options.directory).cache_size(options.cache.0).open();
        let database = database.map_err(failed)?;
        let keyspace = |name| database.keyspace(name, KeyspaceCreateOptions::default).map_err(failed);
        let (entries, changes, numbers) = (keyspace("entries")?, keyspace("changes")?, keyspace("numbers")?);
        let last = numbers.get(LAST_VERSION).map_err(failed)?;
        let last = last.and_then(|last| Some(u64::from_be_bytes(last.as_ref().try_into().ok()?)));
        Ok(Self { database, entries, changes, numbers, last_version: AtomicU64::new(last.unwrap_or(0)) })
    }
}

impl Engine for FjallEngine {
    fn load(&self, numbers: Range<u64>) -> Result<(), String> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        let mut version = self.last_version.load(Ordering::Relaxed);
        for number in numbers {
            version += 1;
            let key = present_key(number);
            let mut stored = version.to_le_bytes().to_vec();
            stored.extend_from_slice(value(number).as_bytes());
            batch.insert(&self.entries, key.as_str(), stored);
            batch.insert(&self.changes, version.to_be_bytes(), key.as_str());
            if let Some(old @ 1..) = version.checked_sub(CHANGES_KEPT) {
                // Each version is written once, so the weak removal is enough, and cheaper.
                batch.remove_weak(&self.changes, old.to_be_bytes());
            }
        }
        batch.insert(&self.numbers, LAST_VERSION, version.to_be_bytes());
        batch.commit().map_err(failed)?;
        self.last_version.store(version, Ordering::Relaxed);
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Option<usize>, String> {
        Ok(self.entries.get(key).map_err(failed)?.map(|value| value.len()))
    }

    fn build_filter(&self, _: usize) -> Result<Option<BuiltFilter>, String> {
        Ok(None)
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        self.database.persist(PersistMode::SyncAll).map_err(failed)
    }
}
