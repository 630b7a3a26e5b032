//! The overrides of single keys: opens their config store, and follows its changes.

use std::sync::Arc;
use std::time::Duration;

use tidegate::config::{ConfigStore, MemoryConfigStore};
use tidegate::overrides::{FeedChanges, OverrideCache};
use tidegate::redis::RedisConfigStore;
use tokio::runtime::Handle;

use super::data_dir::DataDir;
use crate::config_store::{ConfigStoreLocation, EmbeddedConfigStore};
use crate::output::Failure;
use crate::serve::App;
use crate::serve::fleet::Fleet;
use crate::serve::line_limiter::{LineBudget, LineLimiter};
use crate::serve::rounding::SECOND_NS;
use crate::size::ByteSize;

/// How often the changes of the config store are read.
const FEED_INTERVAL: Duration = Duration::from_millis(500);
/// How much memory the embedded store takes for pages of its file.
const EMBEDDED_CACHE_BYTES: usize = 64 << 20;
/// The default of the largest filter of overridden keys. A filter for a store on this node has room for 89 million keys.
const LOCAL_FILTER_BYTES_MAX: usize = 128 << 20;
/// The same for a store that nodes share. Each node reads all keys to build it, so it is smaller: room for 5.5 million keys.
const SHARED_FILTER_BYTES_MAX: usize = 8 << 20;
/// How much a config store in memory holds.
const MEMORY_STORE_BYTES: usize = 64 << 20;
/// How many lines about records that cannot be used are logged in a window, and how long that is.
const LOG_LINES_MAX: u32 = 10;
const LOG_WINDOW_NS: u64 = 60 * SECOND_NS;

/// How much memory overrides take.
#[derive(Clone, Copy, Debug)]
pub struct OverrideMemory {
    /// Those that were used lately.
    pub cache_max: ByteSize,
    /// The filter of overridden keys. If `None`, the default for the store.
    pub filter_max: Option<ByteSize>,
}

/// Opens the config store: the one that the settings name, else that of the fleet on its Redis servers, else a file in the
/// data directory, else in memory.
pub fn start(
    runtime: &Handle,
    location: &ConfigStoreLocation,
    fleet: Option<&Fleet>,
    data_dir: Option<&DataDir>,
    memory: OverrideMemory,
) -> Result<OverrideCache, Failure> {
    let named = location.open(runtime).map_err(|error| Failure::usage(error.to_string()))?;
    let is_shared = named.is_some() || fleet.is_some();
    let store: Arc<dyn ConfigStore> = match (named, fleet, data_dir) {
        (Some(named), _, _) => named,
        (None, Some(fleet), _) => {
            let store = Arc::new(fleet.store.config_store());
            runtime.spawn(warn_if_not_persistent(Arc::clone(&store)));
            store
        }
        (None, None, Some(data_dir)) => {
            let store = EmbeddedConfigStore::open(&data_dir.config_path(), EMBEDDED_CACHE_BYTES);
            Arc::new(store.map_err(|error| Failure::usage(error.to_string()))?)
        }
        (None, None, None) => {
            tracing::info!(
                "overrides of single keys are in memory and end with the process (hint: set --data-dir)"
            );
            Arc::new(MemoryConfigStore::bounded(MEMORY_STORE_BYTES))
        }
    };
    let runtime = runtime.clone();
    let filter_default = if is_shared { SHARED_FILTER_BYTES_MAX } else { LOCAL_FILTER_BYTES_MAX };
    let as_bytes = |size: ByteSize| usize::try_from(size.bytes()).unwrap_or(usize::MAX);
    let builder = OverrideCache::builder()
        .cache_bytes(memory.cache_max.bytes())
        .filter_bytes_max(memory.filter_max.map_or(filter_default, as_bytes));
    Ok(builder.build(store, Arc::new(move |load| drop(runtime.spawn(load)))))
}

/// Warns if overrides are lost when Redis restarts.
async fn warn_if_not_persistent(store: Arc<RedisConfigStore>) {
    // If Redis cannot be reached now, the log says so elsewhere.
    if let Ok(Some(warning)) = store.persistence_warning().await {
        tracing::warn!("{warning}");
    }
}

/// Follows the changes of the config store until the server drains.
pub async fn watch(app: Arc<App>) {
    let Some(overrides) = app.engine.overrides() else { return };
    let lines = LineLimiter::new(LOG_LINES_MAX, LOG_WINDOW_NS);
    let mut interval = tokio::time::interval(FEED_INTERVAL);
    let mut is_away = false;
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            _ = interval.tick() => {}
        }
        // Read everything that can be read now. With many overrides, the first time takes minutes.
        while !app.drain.is_draining() {
            overrides.tick(app.status.now());
            match overrides.follow_changes().await {
                Ok(changes) => {
                    if std::mem::take(&mut is_away) {
                        tracing::info!(store = overrides.store().kind(), "the config store answers again");
                    }
                    apply(&app, &changes, &lines);
                    if !changes.has_more {
                        break;
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(
                            "{error}; decisions use the overrides that are known, and the rules for other keys (hint: see \
                             tidegate_override_feed_age_seconds)"
                        );
                    }
                    break;
                }
            }
        }
    }
}

/// Wakes requests that wait for changed keys, and logs records that cannot be used.
fn apply(app: &App, changes: &FeedChanges, lines: &LineLimiter) {
    if changes.any {
        app.engine.all_overrides_changed();
    } else {
        app.engine.overrides_changed(&changes.keys);
    }
    for problem in &changes.unusable {
        if let LineBudget::Write { .. } = lines.take_line(app.status.now()) {
            tracing::error!("{problem}");
        }
    }
}
