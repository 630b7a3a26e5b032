//! [`RedisConfigStore`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::Value;

use super::call::ShardCall;
use super::error::unexpected_reply;
use super::shard::{SHARDS, Shard, ShardKey};
use crate::config::{
    Changes, ConfigEntry, ConfigFuture, ConfigStore, ConfigStoreError, ConfigVersion, ConfigWrite, Scan,
    ScanPage, WriteResult,
};
use crate::redis::RedisStore;
use crate::redis::store::RedisInner;

/// A config store on the Redis servers of a [`RedisStore`], with the same connections, login, namespace and runtime.
///
/// A call takes at most as long as the timeout of the store, or one second if that is more: the timeout of a decision is
/// too short for calls that transfer a lot. Calls with many writes and reads of changes take several round trips, each
/// with this timeout.
///
/// ```no_run
/// use tidegate::config::ConfigStore;
/// use tidegate::redis::RedisStore;
///
/// # async fn read() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
/// let config = store.config_store();
/// if let Some(warning) = config.persistence_warning().await? {
///     eprintln!("{warning}");
/// }
/// let entry = config.get("some key").await?;
/// # Ok(())
/// # }
/// ```
pub struct RedisConfigStore {
    pub(super) inner: Arc<RedisInner>,
    /// The greatest version that this handle knows of. Its own writes get greater ones.
    highest: AtomicU64,
    /// For each shard, the last log entry that was read, or 0.
    last_read: [AtomicU64; SHARDS],
}

impl RedisStore {
    /// A config store on the same servers.
    pub fn config_store(&self) -> RedisConfigStore {
        RedisConfigStore {
            inner: self.inner.clone(),
            highest: AtomicU64::new(0),
            last_read: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl RedisConfigStore {
    pub(super) fn namespace(&self) -> &str {
        &self.inner.settings.namespace
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest.load(Ordering::Relaxed)
    }

    pub(super) fn record_version(&self, version: u64) {
        self.highest.fetch_max(version, Ordering::Relaxed);
    }

    pub(super) fn last_read(&self, shard: Shard) -> u64 {
        self.last_read[shard.index()].load(Ordering::Relaxed)
    }

    pub(super) fn record_read(&self, shard: Shard, version: u64) {
        self.last_read[shard.index()].fetch_max(version, Ordering::Relaxed);
    }

    /// After a gap: the entries that were read may be gone for good.
    pub(super) fn forget_reads(&self) {
        self.last_read.iter().for_each(|version| version.store(0, Ordering::Relaxed));
    }

    async fn get_entry(&self, key: &str) -> Result<Option<ConfigEntry>, ConfigStoreError> {
        let shard = Shard::of_key(key);
        let mut command = redis::cmd("HGET");
        command.arg(shard.key_name(self.namespace(), ShardKey::Values)).arg(key);
        match self.send_one(ShardCall { shard, command }).await? {
            Value::Nil => Ok(None),
            Value::BulkString(stored) => Ok(Some(parse_entry(key.into(), &stored))),
            other => Err(unexpected_reply(shard, &other)),
        }
    }
}

impl ConfigStore for RedisConfigStore {
    fn get<'a>(&'a self, key: &'a str) -> ConfigFuture<'a, Option<ConfigEntry>> {
        Box::pin(self.get_entry(key))
    }

    fn write<'a>(&'a self, writes: &'a [ConfigWrite]) -> ConfigFuture<'a, Vec<WriteResult>> {
        Box::pin(self.write_all(writes))
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> ConfigFuture<'a, ScanPage> {
        Box::pin(self.scan_page(scan))
    }

    fn changes(&self, since: ConfigVersion, changes_max: usize) -> ConfigFuture<'_, Changes> {
        Box::pin(self.read_changes(since, changes_max))
    }

    fn latest(&self) -> ConfigFuture<'_, ConfigVersion> {
        Box::pin(self.read_latest())
    }

    fn shard_of(&self, key: &str) -> usize {
        Shard::of_key(key).index()
    }

    fn kind(&self) -> &'static str {
        "redis"
    }
}

/// An entry from what is stored: the version, a space, and the value. Other data is returned whole, as version 0: the
/// caller finds out that it is no value.
pub(super) fn parse_entry(key: Box<str>, stored: &[u8]) -> ConfigEntry {
    let split = stored.iter().position(|byte| *byte == b' ').and_then(|space| {
        let version = std::str::from_utf8(&stored[..space]).ok()?.parse().ok()?;
        Some((ConfigVersion::new(version), &stored[space + 1..]))
    });
    let (version, value) = split.unwrap_or((ConfigVersion::ZERO, stored));
    ConfigEntry { key, value: value.into(), version }
}

impl fmt::Debug for RedisConfigStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfigStore").field("namespace", &self.namespace()).finish_non_exhaustive()
    }
}
