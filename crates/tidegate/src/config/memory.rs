//! A config store in memory. What it holds is lost when the process ends.

use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    CONFIG_PAGE_MAX, Changes, ConfigEntry, ConfigFuture, ConfigStore, ConfigStoreError, ConfigVersion,
    ConfigWrite, Scan, ScanPage, WriteResult, check_writes,
};

/// How many changes the log holds. A reader that is further behind reads everything again.
const LOG_MAX: usize = 100_000;

/// A config store in memory.
#[derive(Debug)]
pub struct MemoryConfigStore {
    state: Mutex<State>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    values: BTreeMap<Box<str>, (Box<[u8]>, ConfigVersion)>,
    /// Keys and values together.
    bytes: usize,
    log: VecDeque<(Box<str>, ConfigVersion)>,
    /// The version of the last write.
    last: u64,
}

impl MemoryConfigStore {
    /// An empty store that takes up to this many bytes of keys and values.
    pub fn bounded(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), bytes_max }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A write changes the state only where nothing can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn write(&mut self, write: &ConfigWrite, bytes_max: usize) -> Result<WriteResult, ConfigStoreError> {
        let current = self.values.get(&write.key);
        let current_bytes = current.map_or(0, |(value, _)| write.key.len() + value.len());
        let current_version = current.map(|(_, version)| *version);
        if !write.condition.holds(current_version) {
            return Ok(WriteResult::Conflict(current_version));
        }
        let new_bytes = write.value.as_ref().map_or(0, |value| write.key.len() + value.len());
        let bytes = self.bytes - current_bytes + new_bytes;
        if bytes > bytes_max && new_bytes > current_bytes {
            let reason = format!("it holds {} bytes of at most {bytes_max}", self.bytes);
            return Err(ConfigStoreError::Full(reason.into()));
        }
        self.bytes = bytes;
        self.last += 1;
        let version = ConfigVersion::new(self.last);
        match &write.value {
            Some(value) => drop(self.values.insert(write.key.clone(), (value.clone(), version))),
            None => drop(self.values.remove(&write.key)),
        }
        self.log.push_back((write.key.clone(), version));
        if self.log.len() > LOG_MAX {
            self.log.pop_front();
        }
        Ok(WriteResult::Written(version))
    }
}

#[allow(clippy::borrowed_box, reason = "an item of the map")]
fn entry((key, (value, version)): (&Box<str>, &(Box<[u8]>, ConfigVersion))) -> ConfigEntry {
    ConfigEntry { key: key.clone(), value: value.clone(), version: *version }
}

impl ConfigStore for MemoryConfigStore {
    fn get<'a>(&'a self, key: &'a str) -> ConfigFuture<'a, Option<ConfigEntry>> {
        Box::pin(ready(Ok(self.state().values.get_key_value(key).map(entry))))
    }

    fn write<'a>(&'a self, writes: &'a [ConfigWrite]) -> ConfigFuture<'a, Vec<WriteResult>> {
        let mut state = self.state();
        let results = check_writes(writes)
            .and_then(|()| writes.iter().map(|write| state.write(write, self.bytes_max)).collect());
        Box::pin(ready(results))
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> ConfigFuture<'a, ScanPage> {
        let Scan { prefix, after, entries_max } = scan;
        let entries_max = entries_max.clamp(1, CONFIG_PAGE_MAX);
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let state = self.state();
        let range = state.values.range::<str, _>((from, Bound::Unbounded));
        let mut matching = range.take_while(|(key, _)| key.starts_with(prefix)).map(entry);
        let entries: Vec<ConfigEntry> = matching.by_ref().take(entries_max).collect();
        let page = ScanPage { entries, has_more: matching.next().is_some() };
        drop(matching);
        drop(state);
        Box::pin(ready(Ok(page)))
    }

    fn changes(&self, since: ConfigVersion, changes_max: usize) -> ConfigFuture<'_, Changes> {
        let state = self.state();
        let latest = ConfigVersion::new(state.last);
        // The versions in the log are consecutive.
        let first = state.log.front().map_or(latest.get() + 1, |(_, version)| version.get());
        let is_gap = since.get() + 1 < first || since > latest;
        let changes = if is_gap {
            Changes { next: latest, is_gap, ..Changes::default() }
        } else {
            let skipped = usize::try_from(since.get() + 1 - first).unwrap_or(usize::MAX);
            let changes_max = changes_max.clamp(1, CONFIG_PAGE_MAX);
            let keys: Vec<_> = state.log.iter().skip(skipped).take(changes_max).cloned().collect();
            let next = keys.last().map_or(since, |(_, version)| *version);
            Changes { keys, next, has_more: next < latest, is_gap }
        };
        Box::pin(ready(Ok(changes)))
    }

    fn latest(&self) -> ConfigFuture<'_, ConfigVersion> {
        Box::pin(ready(Ok(ConfigVersion::new(self.state().last))))
    }

    fn kind(&self) -> &'static str {
        "memory"
    }
}
