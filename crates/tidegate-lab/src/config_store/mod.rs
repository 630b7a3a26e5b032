//! The config store at scale: disk space, load time, look-ups cold and warm, and memory, for redb and (with `--features fjall`)
//! fjall.
//!
//! redb is measured as the server uses it: `EmbeddedConfigStore`, with its log of changes. fjall does the same
//! writes with the same guarantees: each batch is synced before the next one, and the log of changes is kept and trimmed.
//!
//! Each kind of look-up has a store of its own that was just opened, because one kind would warm the pages of the next. The
//! filter of keys that the server has in front of its store is built at the end, because it reads the whole store.
//!
//! Loaded keys have even numbers, and absent keys have odd ones, so both are spread over the whole store.

mod disk;
mod engine;
#[cfg(feature = "fjall")]
mod fjall_engine;
mod lookups;
mod redb_engine;
mod report;

use std::path::PathBuf;

use self::disk::DiskSpace;
pub use self::engine::EngineName;
use self::engine::EngineOptions;
use self::lookups::{Keys, Lookups};
pub use self::report::ConfigStoreReport;
use self::report::{Phase, Size};
use crate::Bytes;
use crate::measure::WallTime;
use crate::process;

/// Entries of one commit.
const COMMIT_ENTRIES: u64 = 10_000;
/// Disk space for an entry while the store is loaded, for either engine. redb doubles its file, and fjall rewrites its files.
const DISK_BYTES_PER_ENTRY: u64 = 200;
/// Disk space that is not for entries: the log of changes, journals.
const DISK_BYTES_MIN: u64 = 512 << 20;

/// What to measure.
#[derive(Clone, Debug)]
pub struct ConfigStoreMeasurement {
    /// The number of overrides.
    pub entries: u64,
    /// The engine.
    pub engine: EngineName,
    /// Memory for pages or blocks.
    pub cache: Bytes,
    /// The most memory for the filter of keys.
    pub filter: Bytes,
    /// Where the store is made. It is removed at the end.
    pub directory: PathBuf,
}

impl ConfigStoreMeasurement {
    /// How much disk the measurement needs, and how much is free; an error if that is too little.
    pub fn check_disk(&self) -> Result<String, String> {
        let needed_bytes = self.entries.saturating_mul(DISK_BYTES_PER_ENTRY).saturating_add(DISK_BYTES_MIN);
        DiskSpace::of(&self.directory)?.check(needed_bytes)
    }

    /// Runs the measurement. It calls `progress` with the number of loaded entries.
    pub fn run(&self, mut progress: impl FnMut(u64)) -> Result<ConfigStoreReport, String> {
        let directory = disk::StoreDir::new(&self.directory)?;
        let options = EngineOptions { cache: self.cache, directory: directory.path() };
        let watch = WallTime::start();
        let engine = self.engine.open(&options)?;
        let mut number = 0;
        while number < self.entries {
            let end = self.entries.min(number + COMMIT_ENTRIES);
            engine.load(number..end)?;
            number = end;
            progress(number);
        }
        engine.close()?;
        let load_ns = watch.elapsed_ns();
        let load_resident = process::resident();
        let size = Size::of(directory.path())?;

        let lookups = Lookups::choose(self.entries);
        let present = self.measure(&options, &lookups, Keys::Present)?;
        let absent = self.measure(&options, &lookups, Keys::Absent)?;
        let engine = self.engine.open(&options)?;
        let single_writes = lookups::measure_single_writes(&*engine, self.entries)?;
        let filter = engine.build_filter(usize::try_from(self.filter.0).unwrap_or(usize::MAX))?;
        let resident = process::resident();
        engine.close()?;
        let measurement = self.clone();
        Ok(ConfigStoreReport {
            measurement,
            load_ns,
            load_resident,
            size,
            present,
            absent,
            filter,
            single_writes,
            resident,
        })
    }

    /// Opens the store with nothing in memory, and looks keys up for the first time, and then the same keys again.
    fn measure(&self, options: &EngineOptions<'_>, lookups: &Lookups, keys: Keys) -> Result<Phase, String> {
        disk::drop_page_cache(options.directory)?;
        let watch = WallTime::start();
        let engine = self.engine.open(options)?;
        let open_ns = watch.elapsed_ns();
        let (cold, warm) = (lookups.run(&*engine, keys)?, lookups.run(&*engine, keys)?);
        engine.close()?;
        Ok(Phase { open_ns, cold, warm })
    }
}

/// The key of an override.
fn key(number: u64) -> String {
    format!("o\u{1f}api\u{1f}per-user\u{1f}user={number:012}")
}

/// The key of a loaded override.
fn present_key(number: u64) -> String {
    key(2 * number)
}

/// A key without an override, between two that have one.
fn absent_key(number: u64) -> String {
    key(2 * number + 1)
}

/// The value of an override. The limit differs, as it does in a real store.
fn value(number: u64) -> String {
    format!(r#"{{"v":1,"limit":{},"per":"1s"}}"#, number % 1_000 + 1)
}
