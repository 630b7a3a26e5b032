//! redb, as the server uses it.

use std::ops::Range;
use std::sync::mpsc;
use std::time::Duration;

use tidegate::config::{ConfigWrite, WriteCondition};
use tidegate_server::config_store::{CONFIG_FILE, EmbeddedConfigOptions, EmbeddedConfigStore};

use super::engine::{Engine, EngineOptions};
use super::{present_key, value};

/// How often to look whether the filter is built.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Half an hour of polls.
const POLLS_MAX: usize = 360_000;

pub(super) struct RedbEngine {
    store: EmbeddedConfigStore,
    has_filter: bool,
}

impl RedbEngine {
    pub(super) fn open(options: &EngineOptions<'_>) -> Result<Self, String> {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let store_options = EmbeddedConfigOptions {
            cache_bytes: bytes(options.cache.0),
            filter_bytes_max: bytes(options.filter.0),
        };
        let store = EmbeddedConfigStore::open_with(&options.directory.join(CONFIG_FILE), store_options)
            .map_err(|error| error.to_string())?;
        Ok(Self { store, has_filter: options.filter.0 > 0 })
    }
}

impl Engine for RedbEngine {
    fn load(&self, numbers: Range<u64>) -> Result<(), String> {
        let write = |number| ConfigWrite {
            key: present_key(number).into(),
            value: Some(value(number).into_bytes().into()),
            condition: WriteCondition::Always,
        };
        self.store.write_blocking(numbers.map(write).collect()).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Option<usize>, String> {
        let entry = self.store.get_blocking(key).map_err(|error| error.to_string())?;
        Ok(entry.map(|entry| entry.value.len()))
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        let (_never, nothing) = mpsc::channel::<()>();
        for _ in 0..POLLS_MAX {
            if !self.has_filter || self.store.filter_is_built() {
                return Ok(());
            }
            let _ = nothing.recv_timeout(POLL_INTERVAL);
        }
        Err("the filter of keys was not built within half an hour".to_owned())
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        // Dropping the store closes the file.
        Ok(())
    }
}
