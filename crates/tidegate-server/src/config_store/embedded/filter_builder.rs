//! Builds the filter of keys from the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tidegate::config::ConfigStoreError;

use super::database_file::DatabaseFile;
use super::key_filter::{KeyFilter, NextFilter};
use super::tables;

const THREAD_NAME: &str = "config-filter";
/// Up to this many entries, opening the store waits for the filter: less than a second.
const ENTRIES_WAITED_FOR: u64 = 1_000_000;
/// How many keys are read in one transaction. A long transaction makes the file grow, because its pages are not reused.
const KEYS_AT_ONCE: usize = 10_000;

/// Builds the filter, on a thread of its own if there are many entries. On drop, a build in progress is given up.
pub(super) struct FilterBuilder {
    file: Arc<DatabaseFile>,
    filter: Arc<KeyFilter>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FilterBuilder {
    pub(super) fn new(file: Arc<DatabaseFile>, filter: Arc<KeyFilter>) -> Self {
        Self { file, filter, is_stopped: Arc::default(), thread: None }
    }

    /// Builds the filter if that is due for this many entries. Only the writer calls this, or nothing is written yet.
    pub(super) fn build_if_due(&mut self, entries: u64) {
        let Some(next) = self.filter.begin_build(entries) else { return };
        let (file, filter) = (Arc::clone(&self.file), Arc::clone(&self.filter));
        let is_stopped = Arc::clone(&self.is_stopped);
        let build = move || finish(&filter, next, |next| add_all(&file, &filter, next, &is_stopped));
        if entries <= ENTRIES_WAITED_FOR {
            build();
            return;
        }
        match thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(build) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                tracing::warn!("cannot start a thread to build the filter of config keys: {error}");
                self.filter.cancel_build();
            }
        }
    }
}

impl Drop for FilterBuilder {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was reported by its hook.
            let _ = thread.join();
        }
    }
}

/// What became of a build.
enum Built {
    Whole,
    Stopped,
}

fn finish(
    filter: &KeyFilter,
    next: NextFilter,
    add_all: impl FnOnce(&NextFilter) -> Result<Built, ConfigStoreError>,
) {
    match add_all(&next) {
        Ok(Built::Whole) => {
            filter.finish_build(next);
            if let Some(warning) = filter.warning() {
                tracing::warn!("{warning}");
            }
        }
        Ok(Built::Stopped) => filter.cancel_build(),
        Err(error) => {
            tracing::warn!(
                "cannot build the filter of config keys, so every look-up reads the file: {error}"
            );
            filter.cancel_build();
        }
    }
}

fn add_all(
    file: &DatabaseFile,
    filter: &KeyFilter,
    next: &NextFilter,
    is_stopped: &AtomicBool,
) -> Result<Built, ConfigStoreError> {
    let mut last_key: Option<Vec<u8>> = None;
    loop {
        if is_stopped.load(Ordering::Relaxed) {
            return Ok(Built::Stopped);
        }
        let after = last_key.take();
        last_key = file.read(|reading| {
            tables::visit_keys(reading, after.as_deref(), KEYS_AT_ONCE, |key| filter.insert_into(next, key))
        })?;
        if last_key.is_none() {
            return Ok(Built::Whole);
        }
    }
}
