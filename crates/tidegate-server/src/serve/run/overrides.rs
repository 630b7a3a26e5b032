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
/// How long the start waits for the wildcards.
const FIRST_READ_MAX: Duration = Duration::from_secs(5);
/// How often a node asks whether a purge is due. Purges are a day apart.
const PURGE_CHECK_INTERVAL: Duration = Duration::from_secs(3_600);
/// The pause between the steps of a purge, so that requests do not notice it. A step reads 1,000 records: the pauses of a
/// billion records take 11 hours, so such a purge ends before the next one if a step takes up to 46 ms.
const PURGE_PAUSE: Duration = Duration::from_millis(40);
/// The pause before a step that failed is tried again.
const PURGE_RETRY_PAUSE: Duration = Duration::from_secs(10);
/// How often Redis is asked whether it keeps overrides over a restart, until it answers.
const PERSISTENCE_INTERVAL: Duration = Duration::from_secs(2);
/// How much memory the embedded store takes for pages of its file.
const EMBEDDED_CACHE_BYTES: usize = 64 << 20;
/// The default of the largest filter of overridden keys. A filter for a store on this node has room for 67 million keys.
const LOCAL_FILTER_BYTES_MAX: usize = 128 << 20;
/// The same for a store that nodes share. Each node reads all keys to build it, so it is smaller: room for 4.2 million keys.
const SHARED_FILTER_BYTES_MAX: usize = 8 << 20;
/// How much a config store in memory holds.
const MEMORY_STORE_BYTES: usize = 64 << 20;
/// How many lines about records that cannot be used are logged in a window, and how long that is.
const LOG_LINES_MAX: u32 = 10;
const LOG_WINDOW_NS: u64 = 60 * SECOND_NS;

/// How much memory overrides take, and how long decisions wait for them.
#[derive(Clone, Copy, Debug)]
pub struct OverrideBounds {
    /// Those that were used lately.
    pub cache_max: ByteSize,
    /// The filter of overridden keys. If `None`, the default for the store.
    pub filter_max: Option<ByteSize>,
    /// How long a decision waits for the config store.
    pub timeout: Duration,
}

/// Opens the config store: the one that the settings name, else that of the fleet on its Redis servers, else a file in the
/// data directory, else in memory.
pub fn start(
    runtime: &Handle,
    location: &ConfigStoreLocation,
    fleet: Option<&Fleet>,
    data_dir: Option<&DataDir>,
    bounds: OverrideBounds,
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
        .cache_bytes(bounds.cache_max.bytes())
        .filter_bytes_max(bounds.filter_max.map_or(filter_default, as_bytes))
        .load_timeout(bounds.timeout);
    Ok(builder.build(store, Arc::new(move |load| drop(runtime.spawn(load)))))
}

/// Warns if overrides are lost when Redis restarts. If Redis cannot be reached, the log says so elsewhere, and this asks until
/// it can be.
async fn warn_if_not_persistent(store: Arc<RedisConfigStore>) {
    let mut interval = tokio::time::interval(PERSISTENCE_INTERVAL);
    loop {
        interval.tick().await;
        match store.persistence_warning().await {
            Ok(Some(warning)) => return tracing::warn!("{warning}"),
            Ok(None) => return,
            Err(_) => {}
        }
    }
}

/// Reads the wildcards before the first request is decided, unless the config store takes too long: a wildcard may block keys.
pub async fn read_first(app: &Arc<App>) {
    let reading = {
        let app = Arc::clone(app);
        async move {
            let Some(overrides) = app.engine.overrides() else { return };
            overrides.tick(app.status.now());
            // If it fails, the task that follows the changes says so and tries again.
            if let Ok(changes) = overrides.follow_changes().await {
                apply(&app, &changes, &LineLimiter::new(LOG_LINES_MAX, LOG_WINDOW_NS));
            }
        }
    };
    // A task, because a call that is dropped does not give the position in the changes back.
    let reading = tokio::spawn(reading);
    if tokio::time::timeout(FIRST_READ_MAX, reading).await.is_err() {
        tracing::warn!(
            "the overrides were not read within {FIRST_READ_MAX:?}; until then, decisions use the rules (hint: check the \
             config store)"
        );
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
                    app.status.set_config_store_failure(None);
                    if std::mem::take(&mut is_away) {
                        tracing::info!(store = overrides.store().kind(), "the config store answers again");
                    }
                    apply(&app, &changes, &lines);
                    if !changes.has_more {
                        break;
                    }
                }
                Err(error) => {
                    app.status.set_config_store_failure(Some(&error));
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

/// Deletes overrides that have ended, once a day, until the server drains.
pub async fn purge(app: Arc<App>) {
    let Some(overrides) = app.engine.overrides() else { return };
    let mut interval = tokio::time::interval(PURGE_CHECK_INTERVAL);
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            _ = interval.tick() => {}
        }
        // If the store is away, the task that follows its changes says so.
        let mut rest = overrides.begin_purge(app.status.now()).await.ok().flatten();
        while let Some(purge) = &rest {
            let pause = match overrides.purge_some(purge, app.status.now()).await {
                Ok(next) => {
                    rest = next;
                    PURGE_PAUSE
                }
                Err(_) => PURGE_RETRY_PAUSE,
            };
            tokio::select! {
                () = app.drain.wait() => return,
                () = tokio::time::sleep(pause) => {}
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
