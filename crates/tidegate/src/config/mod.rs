//! The config store: data that operators change while the server runs, such as the limits of single keys.
//!
//! A config store is a map from keys to values. Each write gets a version that is greater than all versions before it in
//! this store. The store keeps a log of changed keys, so that every node sees a change within seconds.
//!
//! ```text
//! mod.rs     the interface: ConfigStore
//! memory.rs  a config store in memory, for tests and for servers without a data directory
//! page.rs    merges the pages of shards
//! error.rs   why a config store did not answer
//! record.rs  values as JSON, with a format number
//! ```
//!
//! Other implementations: `redis::RedisConfigStore` in this crate, and the embedded store and the stores for other databases
//! in the server. The same conformance suite runs against all of them (`tidegate-testing`, `config_store.rs`).

mod error;
mod memory;
mod page;
mod record;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use error::ConfigStoreError;
pub use memory::MemoryConfigStore;
pub use page::{MergedPage, ShardPage, merge_pages, shard_share};
pub use record::RecordError;
pub(crate) use record::{Fields, encode_record, put};

/// The longest key, in bytes. The smallest bound of the databases that implement [`ConfigStore`].
pub const CONFIG_KEY_BYTES_MAX: usize = 1_024;
/// The largest value, in bytes.
pub const CONFIG_VALUE_BYTES_MAX: usize = 256 << 10;
/// The most writes of one call.
pub const CONFIG_WRITES_MAX: usize = 10_000;
/// The most entries or changes that one call returns.
pub const CONFIG_PAGE_MAX: usize = 10_000;

/// The reply of a config store, later.
pub type ConfigFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ConfigStoreError>> + Send + 'a>>;

/// A number that grows with each write to a config store. 0 comes before the first write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigVersion(u64);

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key.
    pub key: Box<str>,
    /// The value. The store does not look into it.
    pub value: Box<[u8]>,
    /// The version of the write that set it.
    pub version: ConfigVersion,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWrite {
    /// The key: not empty, at most [`CONFIG_KEY_BYTES_MAX`] bytes, and without control characters except U+001F.
    pub key: Box<str>,
    /// The new value, at most [`CONFIG_VALUE_BYTES_MAX`] bytes. `None` deletes the key.
    pub value: Option<Box<[u8]>>,
    /// When the write is done.
    pub condition: WriteCondition,
}

/// When a write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteCondition {
    /// Always.
    #[default]
    Always,
    /// If the key has no value.
    Absent,
    /// If the key has a value of this version.
    Version(ConfigVersion),
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// It was done, and the store will not lose it. Carries its version. The deletion of a key without a value has a version
    /// too.
    Written(ConfigVersion),
    /// Its condition did not hold. Carries the version of the current value, if there is one.
    Conflict(Option<ConfigVersion>),
}

/// Where a scan begins and how many entries it returns.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Only keys that begin with this text.
    pub prefix: &'a str,
    /// Only keys after this one, in the order of their bytes.
    pub after: Option<&'a str>,
    /// How many entries at most, from 1 to [`CONFIG_PAGE_MAX`].
    pub entries_max: usize,
}

/// A page of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// The entries, in the order of the bytes of their keys.
    pub entries: Vec<ConfigEntry>,
    /// Whether more entries may follow. If so, the next page begins after the last key of this one.
    pub has_more: bool,
}

/// The keys that changed after a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The changed keys with the versions of their changes. A key may be listed several times, also by several calls.
    pub keys: Vec<(Box<str>, ConfigVersion)>,
    /// Where to continue: pass it to the next call. Not every change up to this version has to be visible yet.
    pub next: ConfigVersion,
    /// Whether more changes can be read immediately.
    pub has_more: bool,
    /// The log no longer reaches back to the version that was asked for, so changes are missing. Everything has to be read
    /// again; then changes are read from `next` on.
    pub is_gap: bool,
}

/// A map from keys to values with versions, and a log of changed keys.
///
/// Several nodes may use one store at the same time. An implementation promises:
///
/// - A write that is reported as [`Written`](WriteResult::Written) is not lost if the process is killed.
/// - Writes of one key are ordered by their versions. Versions never repeat, not even for a key that was deleted.
/// - [`changes`](Self::changes), called again and again with the last `next`, lists each change at least once, or reports a
///   gap. A change is listed within a second after its write was reported.
/// - A damaged value is returned as it is; it is up to the caller to report it. No call panics.
pub trait ConfigStore: fmt::Debug + Send + Sync {
    /// The value of a key.
    fn get<'a>(&'a self, key: &'a str) -> ConfigFuture<'a, Option<ConfigEntry>>;

    /// Does up to [`CONFIG_WRITES_MAX`] writes, in order, each by its own condition. Returns a result for each. After an error,
    /// any number of them may have been done.
    fn write<'a>(&'a self, writes: &'a [ConfigWrite]) -> ConfigFuture<'a, Vec<WriteResult>>;

    /// A page of entries.
    fn scan<'a>(&'a self, scan: Scan<'a>) -> ConfigFuture<'a, ScanPage>;

    /// Up to `changes_max` changes after a version, in the order of their versions as far as the store can tell.
    fn changes(&self, since: ConfigVersion, changes_max: usize) -> ConfigFuture<'_, Changes>;

    /// Where to start with [`changes`](Self::changes) before reading everything: all writes that this store reported before this
    /// call have at most this version or are listed after it.
    fn latest(&self) -> ConfigFuture<'_, ConfigVersion>;

    /// The number of the part of the store that has a key. Parts fail independently: an error for a key of one part says nothing
    /// about the others. By default, there is one part.
    fn shard_of(&self, _key: &str) -> usize {
        0
    }

    /// The name of the kind of store in logs and metrics, such as `embedded` or `redis`.
    fn kind(&self) -> &'static str;
}

impl ConfigVersion {
    /// Before the first write.
    pub const ZERO: Self = Self(0);

    /// The version with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ConfigVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl WriteCondition {
    /// Whether a write may be done to a key whose value has this version, if it has one.
    pub fn holds(self, current: Option<ConfigVersion>) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => current.is_none(),
            Self::Version(version) => current == Some(version),
        }
    }
}

/// Checks keys, values and their number, so that all stores refuse the same writes.
pub fn check_writes(writes: &[ConfigWrite]) -> Result<(), ConfigStoreError> {
    if writes.len() > CONFIG_WRITES_MAX {
        let error =
            format!("{} writes in one call, but at most {CONFIG_WRITES_MAX} are allowed", writes.len());
        return Err(ConfigStoreError::Invalid(error.into()));
    }
    for write in writes {
        let (key, bytes) = (&write.key, write.value.as_ref().map_or(0, |value| value.len()));
        let problem = if key.is_empty() {
            "a key is empty".to_owned()
        } else if key.len() > CONFIG_KEY_BYTES_MAX {
            format!("a key has {} bytes, but at most {CONFIG_KEY_BYTES_MAX} are allowed", key.len())
        } else if key.chars().any(|c| c.is_control() && c != '\u{1f}') {
            "a key has a control character".to_owned()
        } else if bytes > CONFIG_VALUE_BYTES_MAX {
            format!("a value has {bytes} bytes, but at most {CONFIG_VALUE_BYTES_MAX} are allowed")
        } else {
            continue;
        };
        return Err(ConfigStoreError::Invalid(problem.into()));
    }
    Ok(())
}
