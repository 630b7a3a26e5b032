//! The store, and its calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::{Collection, Cursor};
use tidegate::config::{
    Changes, ConfigEntry, ConfigFuture, ConfigStore, ConfigStoreError, ConfigVersion, ConfigWrite, Scan,
    ScanPage, WriteResult, check_writes,
};
use tidegate::{Clock, SystemClock};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::database::Database;
use super::document::{ID, entries_of, entry_of, public_version};
use super::error::{call_error, task_error};
use super::scan::OwnedScan;
use super::sweep::SweepTimer;
use super::url::MongoUrl;

/// The default of [`MongoConfigOptions::timeout`].
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
const MILLISECOND_NS: u64 = 1_000_000;

/// How a store behaves.
#[derive(Clone)]
pub struct MongoConfigOptions {
    /// The deadline of each command. A call with many writes or entries sends several commands.
    pub timeout: Duration,
    /// The time, for the first version of a new collection and for sweeps.
    pub clock: Arc<dyn Clock + Send + Sync>,
}

/// A config store on a server with MongoDB's wire protocol.
///
/// Its calls run on the runtime that it was opened with. They fail while the server is away, and the driver reconnects by
/// itself.
pub struct MongoConfigStore {
    inner: Arc<Inner>,
    runtime: Handle,
}

/// What the tasks of calls share.
pub(super) struct Inner {
    pub database: Database,
    /// Held during a write.
    pub append_turn: Mutex<()>,
    pub sweep_timer: SweepTimer,
    clock: Arc<dyn Clock + Send + Sync>,
}

impl MongoConfigStore {
    /// A store at a URL. Does not connect yet.
    pub fn new(url: MongoUrl, runtime: Handle, options: MongoConfigOptions) -> Self {
        let inner = Inner {
            database: Database::new(url, options.timeout),
            append_turn: Mutex::new(()),
            sweep_timer: SweepTimer::default(),
            clock: options.clock,
        };
        Self { inner: Arc::new(inner), runtime }
    }

    /// Runs a call on the runtime of the store. The driver needs a runtime, and the caller may be on none. Dropping the future
    /// ends the call.
    fn run<'a, T, F>(&'a self, call: impl FnOnce(Arc<Inner>) -> F + Send + 'a) -> ConfigFuture<'a, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ConfigStoreError>> + Send + 'static,
    {
        Box::pin(async move {
            let task = AbortOnDropHandle::new(self.runtime.spawn(call(Arc::clone(&self.inner))));
            task.await.unwrap_or_else(|error| Err(task_error(&error)))
        })
    }
}

impl Inner {
    /// The collection. Creates it if it does not exist.
    pub async fn collection(&self) -> Result<&Collection<Document>, ConfigStoreError> {
        self.database.collection(|| self.first_write()).await
    }

    /// The document at a cursor.
    pub fn current(&self, cursor: &Cursor<Document>) -> Result<Document, ConfigStoreError> {
        cursor.deserialize_current().map_err(|error| call_error(&error))
    }

    /// The time in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.clock.now().as_nanos() / MILLISECOND_NS).unwrap_or(i64::MAX)
    }

    async fn read_entry(&self, key: &str) -> Result<Option<ConfigEntry>, ConfigStoreError> {
        if key.is_empty() {
            return Ok(None);
        }
        let found = self.collection().await?.find_one(entries_of(key)).sort(doc! { ID: -1 });
        Ok(self.database.call(found).await?.and_then(entry_of))
    }
}

impl ConfigStore for MongoConfigStore {
    fn get<'a>(&'a self, key: &'a str) -> ConfigFuture<'a, Option<ConfigEntry>> {
        let key = key.to_owned();
        self.run(async move |inner| inner.read_entry(&key).await)
    }

    fn write<'a>(&'a self, writes: &'a [ConfigWrite]) -> ConfigFuture<'a, Vec<WriteResult>> {
        self.run(move |inner| {
            let writes = check_writes(writes).map(|()| writes.to_vec());
            async move {
                match writes?.as_slice() {
                    [] => Ok(Vec::new()),
                    writes => inner.append(writes).await,
                }
            }
        })
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> ConfigFuture<'a, ScanPage> {
        let scan = OwnedScan::from(scan);
        self.run(async move |inner| inner.read_scan(&scan).await)
    }

    fn changes(&self, since: ConfigVersion, changes_max: usize) -> ConfigFuture<'_, Changes> {
        self.run(async move |inner| {
            inner.start_sweep_if_due();
            inner.read_changes(since, changes_max).await
        })
    }

    fn latest(&self) -> ConfigFuture<'_, ConfigVersion> {
        self.run(async move |inner| inner.read_latest().await.map(public_version))
    }

    fn kind(&self) -> &'static str {
        "mongodb"
    }
}

impl Default for MongoConfigOptions {
    fn default() -> Self {
        Self { timeout: TIMEOUT_DEFAULT, clock: Arc::new(SystemClock::new()) }
    }
}

impl fmt::Debug for MongoConfigStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the client, whose settings contain the password.
        f.debug_struct("MongoConfigStore").finish_non_exhaustive()
    }
}
