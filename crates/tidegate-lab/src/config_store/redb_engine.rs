//! redb, as the server uses it.

use std::ops::Range;
use std::sync::Arc;

use tidegate::config::{ConfigStore, ConfigWrite, WriteCondition};
use tidegate::overrides::OverrideCache;
use tidegate_server::config_store::{CONFIG_FILE, EmbeddedConfigStore};

use super::engine::{BuiltFilter, Engine, EngineOptions};
use super::{present_key, value};
use crate::measure::WallTime;

pub(super) struct RedbEngine {
    store: Arc<EmbeddedConfigStore>,
}

impl RedbEngine {
    pub(super) fn open(options: &EngineOptions<'_>) -> Result<Self, String> {
        let cache_bytes = usize::try_from(options.cache.0).unwrap_or(usize::MAX);
        let store = EmbeddedConfigStore::open(&options.directory.join(CONFIG_FILE), cache_bytes)
            .map_err(|error| error.to_string())?;
        Ok(Self { store: Arc::new(store) })
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

    fn build_filter(&self, bytes_max: usize) -> Result<Option<BuiltFilter>, String> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
        let store = Arc::clone(&self.store) as Arc<dyn ConfigStore>;
        // Nothing is loaded, so nothing runs in the background.
        let cache = OverrideCache::builder().filter_bytes_max(bytes_max).build(store, Arc::new(drop));
        let watch = WallTime::start();
        while runtime.block_on(cache.follow_changes()).map_err(|error| error.to_string())?.has_more {}
        let (build_ns, stats) = (watch.elapsed_ns(), cache.stats());
        let bytes = if stats.is_filter_built { stats.filter_bytes } else { 0 };
        Ok(Some(BuiltFilter { build_ns, bytes }))
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        // Dropping the store closes the file.
        Ok(())
    }
}
