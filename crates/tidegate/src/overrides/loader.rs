//! Loads keys from the config store into the cache.
//!
//! A key that the cache does not have is loaded once for all requests that need it. An entry that is old or has changed is read
//! again by the feed. After an error, no load from the same shard of the store is started for a while.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use indexmap::IndexMap;
use smallvec::SmallVec;
use tidegate_core::rules::{MatchedLimits, OverrideTarget, Ruleset};

use super::cache::OverrideCache;
use super::join_all::{AT_ONCE_MAX, join_all};
use super::key_name::KeyName;
use super::key_table::{CachedKey, KeyHash};
use super::load::{Load, LoadWait};
use super::record;
use crate::config::{ConfigFuture, ConfigStoreError};

/// How many loads are in progress at most. Further keys are decided by their rules.
const LOADS_MAX: usize = 1_024;
/// How many entries wait to be read again at most.
const REFRESHES_MAX: usize = 1_000;
/// How many records that cannot be used are reported by one poll at most. Others are only counted.
const UNUSABLE_MAX: usize = 64;
/// How long no load is started from a shard after one failed. Without this pause, each request would wait for its deadline.
const PAUSE_AFTER_ERROR_MS: u64 = 1_000;
/// How many pauses there are at most. If a store has more shards, some share a pause.
const PAUSES_MAX: usize = 64;

/// Runs a future in the background, on the caller's runtime.
pub type Spawn = Arc<dyn Fn(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + Sync>;

/// The loads of a cache.
pub(super) struct Loader {
    loads: Mutex<Loads>,
    /// The names of entries that have to be read again.
    old_names: Mutex<Vec<Box<str>>>,
    /// Why records of keys cannot be used, for the log.
    unusable: Mutex<Vec<String>>,
    spawn: Spawn,
    timeout: Duration,
    pauses: Pauses,
}

/// Until when no load is started, for each shard of the store. A store of which one server is away answers for the keys of the
/// others, which may be blocked.
struct Pauses {
    until_ms: [AtomicU64; PAUSES_MAX],
}

/// Loads in progress, by the first halves of the hashes of their keys.
pub(super) type Loads = IndexMap<u64, Arc<Load>, foldhash::fast::RandomState>;

/// What a load needs to know about a key.
struct LoadKey {
    hash: KeyHash,
    name: Box<str>,
}

impl Loader {
    pub fn new(spawn: Spawn, timeout: Duration) -> Self {
        Self {
            loads: Mutex::default(),
            old_names: Mutex::default(),
            unusable: Mutex::default(),
            spawn,
            timeout,
            pauses: Pauses { until_ms: std::array::from_fn(|_| AtomicU64::new(0)) },
        }
    }

    /// The loads in progress. While this lock is held, no load ends.
    pub fn loads(&self) -> MutexGuard<'_, Loads> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn old_names(&self) -> MutexGuard<'_, Vec<Box<str>>> {
        self.old_names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unusable(&self) -> MutexGuard<'_, Vec<String>> {
        self.unusable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why records of keys cannot be used that were read since the last call.
    pub fn take_unusable(&self) -> Vec<String> {
        std::mem::take(&mut *self.unusable())
    }

    /// The store answers: loads may start.
    pub fn resume(&self) {
        self.pauses.until_ms.iter().for_each(|until_ms| until_ms.store(0, Ordering::Relaxed));
    }

    /// Lets a key be read again soon. Returns false if too many wait for that.
    #[must_use]
    pub fn read_again(&self, name: &str, waiting_max: usize) -> bool {
        let mut old_names = self.old_names();
        let has_room = old_names.len() < waiting_max;
        if has_room {
            old_names.push(name.into());
        }
        has_room
    }
}

impl Pauses {
    fn of_shard(&self, shard: usize) -> &AtomicU64 {
        &self.until_ms[shard % PAUSES_MAX]
    }
}

impl OverrideCache {
    /// Starts to load the overrides of a request's keys. Returns `None` if there is nothing to wait for: they were read
    /// immediately, or cannot be read now.
    pub(crate) fn load(self: &Arc<Self>, rules: &Ruleset, matched: &MatchedLimits) -> Option<LoadWait> {
        self.load_within(rules, matched, self.loader.timeout)
    }

    /// As [`load`](Self::load), with another bound on the wait.
    pub(crate) fn load_within(
        self: &Arc<Self>,
        rules: &Ruleset,
        matched: &MatchedLimits,
        timeout: Duration,
    ) -> Option<LoadWait> {
        let mut waits: SmallVec<[Arc<Load>; 2]> = SmallVec::new();
        for target in matched.override_targets(rules) {
            let hash = self.hash(target.scope, target.key);
            if self.filter.may_contain(hash.place) && self.keys.needs_read(hash) {
                waits.extend(self.start_load(rules, target, hash));
            }
        }
        (!waits.is_empty()).then(|| LoadWait::new(waits, timeout))
    }

    /// Starts to load a key, or joins the load that is in progress. `None` if there is nothing to wait for.
    fn start_load(
        self: &Arc<Self>,
        rules: &Ruleset,
        target: OverrideTarget<'_>,
        hash: KeyHash,
    ) -> Option<Arc<Load>> {
        let Some(name) = KeyName::encode_key(&rules.override_place(target.position), target.key) else {
            // Its values are too long to have overrides.
            self.keys.insert(hash, self.cached(None, 0));
            return None;
        };
        if self.is_paused(&name) {
            return None;
        }
        let load = {
            let mut loads = self.loader.loads();
            if let Some(load) = loads.get(&hash.place) {
                return Some(Arc::clone(load));
            }
            // A load has ended since the caller looked.
            if !self.keys.needs_read(hash) || loads.len() >= LOADS_MAX {
                return None;
            }
            let load = Arc::new(Load::default());
            loads.insert(hash.place, Arc::clone(&load));
            load
        };
        self.counts.loads.fetch_add(1, Ordering::Relaxed);
        let key = LoadKey { hash, name };
        let (cache, its_load) = (Arc::clone(self), Arc::clone(&load));
        // An error is counted, and the feed reports that the store cannot be reached.
        let mut reading: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(async move { drop(cache.read(key, its_load).await) });
        // A store in memory answers immediately.
        match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(()) => None,
            Poll::Pending => {
                (self.loader.spawn)(reading);
                Some(load)
            }
        }
    }

    /// Reads a key into the cache.
    async fn read(&self, key: LoadKey, load: Arc<Load>) -> Result<(), ConfigStoreError> {
        let LoadKey { hash, name } = key;
        loop {
            let result = self.store().get(&name).await;
            let mut loads = self.loader.loads();
            // The key changed while it was read.
            if load.take_stale() && result.is_ok() {
                continue;
            }
            let result = match result {
                Ok(entry) => {
                    let version = entry.as_ref().map_or(0, |entry| entry.version.get());
                    let decoded = entry.map(|entry| record::decode(&name, entry.version.get(), &entry.value));
                    let found = match decoded {
                        None => None,
                        Some(Ok(decoded)) => Some(decoded.overrides),
                        Some(Err(error)) => {
                            self.counts.unusable_records.fetch_add(1, Ordering::Relaxed);
                            let mut unusable = self.loader.unusable();
                            if unusable.len() < UNUSABLE_MAX {
                                unusable.push(record::unusable(&name, &error));
                            }
                            None
                        }
                    };
                    self.keys.insert(hash, self.cached(found, version));
                    self.pause_of(&name).store(0, Ordering::Relaxed);
                    Ok(())
                }
                Err(error) => {
                    self.counts.load_errors.fetch_add(1, Ordering::Relaxed);
                    let paused_until = self.now_ms.load(Ordering::Relaxed) + PAUSE_AFTER_ERROR_MS;
                    self.pause_of(&name).store(paused_until, Ordering::Relaxed);
                    Err(error)
                }
            };
            loads.swap_remove(&hash.place);
            drop(loads);
            load.finish();
            return result;
        }
    }

    fn pause_of(&self, name: &str) -> &AtomicU64 {
        self.loader.pauses.of_shard(self.store().shard_of(name))
    }

    fn is_paused(&self, name: &str) -> bool {
        self.now_ms.load(Ordering::Relaxed) < self.pause_of(name).load(Ordering::Relaxed)
    }

    /// Lets an entry be read again that is old and in use. One without overrides is dropped: its key is loaded when it is used
    /// again.
    #[cold]
    pub(super) fn refresh(
        &self,
        rules: &Ruleset,
        target: OverrideTarget<'_>,
        hash: KeyHash,
        cached: &CachedKey,
    ) {
        let place = rules.override_place(target.position);
        let name = KeyName::encode_key(&place, target.key);
        if name.as_deref().is_some_and(|name| self.is_paused(name)) {
            return;
        }
        match name.filter(|_| cached.overrides.is_some()) {
            None => self.keys.remove(hash),
            Some(name) if self.loader.read_again(&name, REFRESHES_MAX) => self.keys.set_refreshing(hash),
            // Too many wait. A later request tries again.
            Some(_) => {}
        }
    }

    /// Reads entries again that are old, or have changed. After an error, the rest is read the next time.
    pub(super) async fn refresh_old(&self) -> Result<(), ConfigStoreError> {
        for _ in 0..REFRESHES_MAX / AT_ONCE_MAX {
            let names = {
                let mut old_names = self.loader.old_names();
                let rest = old_names.len().saturating_sub(AT_ONCE_MAX);
                old_names.split_off(rest)
            };
            if names.is_empty() {
                break;
            }
            let reads =
                names.iter().map(|name| -> ConfigFuture<'_, ()> { Box::pin(self.refresh_name(name)) });
            let results = join_all(reads.collect()).await;
            let mut result = Ok(());
            for (name, read) in names.into_iter().zip(results) {
                if let Err(error) = read {
                    // At most as many above the bound as are read at once.
                    self.loader.old_names().push(name);
                    result = Err(error);
                }
            }
            result?;
        }
        Ok(())
    }

    async fn refresh_name(&self, name: &str) -> Result<(), ConfigStoreError> {
        let hash = KeyName::decode(name).ok().and_then(|name| self.hash_of_name(&name));
        let Some(hash) = hash else { return Ok(()) };
        let load = Arc::new(Load::default());
        {
            let mut loads = self.loader.loads();
            // Requests already wait for a load of this key.
            if loads.contains_key(&hash.place) {
                return Ok(());
            }
            loads.insert(hash.place, Arc::clone(&load));
        }
        self.read(LoadKey { hash, name: name.into() }, load).await
    }
}
