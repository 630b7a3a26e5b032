//! The store, and its calls.

use std::future::ready;
use std::path::Path;
use std::sync::Arc;

use tidegate::config::{
    Changes, ConfigEntry, ConfigFuture, ConfigStore, ConfigStoreError, ConfigVersion, ConfigWrite, Scan,
    ScanPage, WriteResult, check_writes,
};
use tokio::runtime::Handle;

use super::database_file::DatabaseFile;
use super::tables;
use super::writer::{FreeSpace, Writer, stopped};

/// The name of the file in the data directory.
pub const CONFIG_FILE: &str = "config.redb";

/// A config store in one file, for one server.
///
/// Calls read the file on a thread for blocking work, because a page that is not in memory is read from the disk. Outside of
/// a tokio runtime they read it on the caller's thread.
#[derive(Debug)]
pub struct EmbeddedConfigStore {
    // Dropped first: it writes what is queued.
    writer: Writer,
    file: Arc<DatabaseFile>,
}

impl EmbeddedConfigStore {
    /// Opens the file, or creates it. Its directory must exist. `cache_bytes` bounds the memory for pages of the file.
    ///
    /// A damaged file, a file of another program or one that another process uses is an error with a hint, and is not
    /// changed.
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, ConfigStoreError> {
        Self::start(DatabaseFile::open(path, cache_bytes)?, FreeSpace::Checked)
    }

    pub(super) fn start(file: DatabaseFile, free_space: FreeSpace) -> Result<Self, ConfigStoreError> {
        let file = Arc::new(file);
        let writer = Writer::start(Arc::clone(&file), free_space)?;
        Ok(Self { writer, file })
    }

    /// [`write`](ConfigStore::write) on the caller's thread, which waits for the disk. Not for a thread of a runtime.
    pub fn write_blocking(&self, writes: Vec<ConfigWrite>) -> Result<Vec<WriteResult>, ConfigStoreError> {
        check_writes(&writes)?;
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.send(writes)?.blocking_recv().unwrap_or_else(|_| Err(stopped()))
    }

    /// [`get`](ConfigStore::get) on the caller's thread, which may wait for the disk.
    pub fn get_blocking(&self, key: &str) -> Result<Option<ConfigEntry>, ConfigStoreError> {
        self.file.read(|reading| tables::get(reading, key))
    }

    /// The number of entries. May wait for the disk.
    pub fn entries_blocking(&self) -> Result<u64, ConfigStoreError> {
        self.file.read(tables::entries)
    }

    /// Reads on a thread for blocking work.
    fn read<'a, T: Send + 'static>(
        &self,
        read: impl FnOnce(&DatabaseFile) -> Result<T, ConfigStoreError> + Send + 'static,
    ) -> ConfigFuture<'a, T> {
        let Ok(runtime) = Handle::try_current() else { return Box::pin(ready(read(&self.file))) };
        let file = Arc::clone(&self.file);
        Box::pin(async move {
            // It fails only while the runtime shuts down.
            runtime.spawn_blocking(move || read(&file)).await.unwrap_or_else(|_| Err(stopped()))
        })
    }
}

impl ConfigStore for EmbeddedConfigStore {
    fn get<'a>(&'a self, key: &'a str) -> ConfigFuture<'a, Option<ConfigEntry>> {
        let key: Box<str> = key.into();
        self.read(move |file| file.read(|reading| tables::get(reading, &key)))
    }

    fn write<'a>(&'a self, writes: &'a [ConfigWrite]) -> ConfigFuture<'a, Vec<WriteResult>> {
        Box::pin(async move {
            check_writes(writes)?;
            if writes.is_empty() {
                return Ok(Vec::new());
            }
            let results = self.writer.send(writes.to_vec())?;
            results.await.unwrap_or_else(|_| Err(stopped()))
        })
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> ConfigFuture<'a, ScanPage> {
        let (prefix, after, entries_max) =
            (scan.prefix.to_owned(), scan.after.map(str::to_owned), scan.entries_max);
        self.read(move |file| {
            let scan = Scan { prefix: &prefix, after: after.as_deref(), entries_max };
            file.read(|reading| tables::scan(reading, &scan))
        })
    }

    fn changes(&self, since: ConfigVersion, changes_max: usize) -> ConfigFuture<'_, Changes> {
        self.read(move |file| file.read(|reading| tables::changes(reading, since, changes_max)))
    }

    fn latest(&self) -> ConfigFuture<'_, ConfigVersion> {
        self.read(|file| file.read(tables::last_version))
    }

    fn kind(&self) -> &'static str {
        "embedded"
    }
}
