//! The overrides that decisions use: a bounded cache in front of a config store.
//!
//! A decision never reads the config store. It asks the cache, which knows that a key has overrides, that it has none, or that
//! it has to be loaded. Loads of one key are shared. A request waits for its loads up to a short deadline, and is then decided by
//! the rule. What is loaded stays until the config store reports a change of the key; an entry is read again from time to time
//! while it is used, and stays in use while the store cannot be reached.
//!
//! The cache finds a key by a 64-bit hash under a random seed. Entries with overrides also have the key itself, so no key gets
//! the overrides of another.

use std::future::Future;
use std::hash::{BuildHasher as _, Hasher as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arc_swap::ArcSwap;
use indexmap::IndexMap;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use smallvec::SmallVec;
use tidegate_core::Timestamp;
use tidegate_core::rules::{
    FoundOverrides, KeyOverrides, MatchedLimits, OverrideLookup, OverrideScope, OverrideSource,
    OverrideTarget, Ruleset,
};

use super::feed::{FeedChanges, FeedPosition};
use super::key_name::KeyName;
use super::load::{Load, LoadWait};
use super::record;
use super::wildcards::Wildcards;
use crate::config::{ConfigStore, ConfigStoreError};

/// The default of how much memory the cache takes.
const CACHE_BYTES_DEFAULT: u64 = 64 << 20;
/// The default of how long a decision waits for the config store.
const LOAD_TIMEOUT_DEFAULT: Duration = Duration::from_millis(5);
/// How many loads are in progress at most. Further keys are decided by their rules.
const LOADS_MAX: usize = 1_024;
/// How old an entry is when it is read again.
const REFRESH_AFTER_MS: u64 = 600_000;
/// How many entries wait to be read again at most.
const REFRESHES_MAX: usize = 1_000;
/// How long no load is started after one failed. Without this pause, each request would wait for its deadline.
const PAUSE_AFTER_ERROR_MS: u64 = 1_000;
/// How many changed keys are read again at once. They are read one after the other, so not for longer than a second.
const CHANGED_REFRESHES_MAX: usize = 64;
/// What an entry takes besides its key and its overrides.
const ENTRY_BYTES: u64 = 96;
/// What one override takes, roughly.
const OVERRIDE_BYTES: u64 = 256;

/// Runs a future in the background, on the caller's runtime.
pub type Spawn = Arc<dyn Fn(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + Sync>;

/// The overrides that decisions use.
pub struct OverrideCache {
    store: Arc<dyn ConfigStore>,
    keys: Cache<u64, Arc<CachedKey>, EntryWeighter, IdentityHasher>,
    hasher: foldhash::fast::FixedState,
    wildcards: ArcSwap<Wildcards>,
    has_wildcards: AtomicBool,
    /// Whether the store has overrides of exact keys, as far as the feed knows. While it has none, nothing is looked up.
    has_exact: AtomicBool,
    loads: Mutex<IndexMap<u64, Arc<Load>, IdentityHasher>>,
    /// The names of entries that have to be read again.
    old_names: Mutex<Vec<Box<str>>>,
    feed: Mutex<Option<FeedPosition>>,
    spawn: Spawn,
    load_timeout: Duration,
    /// The time of the last [`tick`](Self::tick), in milliseconds.
    now_ms: AtomicU64,
    /// Until when no load is started.
    paused_until_ms: AtomicU64,
    /// When the feed was last up to date.
    followed_ms: AtomicU64,
    counts: Counts,
}

/// Makes an [`OverrideCache`].
#[derive(Clone, Copy, Debug)]
pub struct OverrideCacheBuilder {
    cache_bytes: u64,
    load_timeout: Duration,
}

/// What the cache has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverrideCacheStats {
    /// Keys that had to be loaded.
    pub misses: u64,
    /// Loads that were started.
    pub loads: u64,
    /// Loads that failed.
    pub load_errors: u64,
    /// Records that cannot be used.
    pub unusable_records: u64,
    /// Keys in the cache, with and without overrides.
    pub entries: u64,
    /// The memory that they take.
    pub bytes: u64,
    /// Wildcards.
    pub wildcards: u64,
    /// How long ago the feed was up to date, in milliseconds. `None` if it never was.
    pub feed_age_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Counts {
    misses: AtomicU64,
    loads: AtomicU64,
    load_errors: AtomicU64,
    unusable_records: AtomicU64,
}

/// What is known about a key.
#[derive(Debug)]
struct CachedKey {
    /// `None` if it has no overrides.
    found: Option<(Box<[u8]>, Arc<KeyOverrides>)>,
    /// The version of the record, or of its deletion. 0 if the key was not in the store.
    version: u64,
    loaded_ms: u64,
    /// Whether it is being read again.
    is_refreshing: AtomicBool,
}

/// What a load needs to know about a key.
struct LoadKey {
    hash: u64,
    key: Box<[u8]>,
    name: Box<str>,
}

#[derive(Clone, Debug)]
struct EntryWeighter;

impl Weighter<u64, Arc<CachedKey>> for EntryWeighter {
    fn weight(&self, _: &u64, cached: &Arc<CachedKey>) -> u64 {
        let found = cached.found.as_ref().map_or(0, |(key, overrides)| {
            (key.len() + overrides.id.len()) as u64 + OVERRIDE_BYTES * (overrides.overrides.len() as u64 + 1)
        });
        ENTRY_BYTES + found
    }
}

/// The keys of the cache are hashes already.
#[derive(Clone, Debug, Default)]
struct IdentityHasher;

impl std::hash::BuildHasher for IdentityHasher {
    type Hasher = IdentityHash;

    fn build_hasher(&self) -> IdentityHash {
        IdentityHash(0)
    }
}

struct IdentityHash(u64);

impl std::hash::Hasher for IdentityHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl OverrideCacheBuilder {
    /// Sets how much memory the cache takes.
    #[must_use]
    pub fn cache_bytes(self, cache_bytes: u64) -> Self {
        Self { cache_bytes, ..self }
    }

    /// Sets how long a decision waits for the config store.
    #[must_use]
    pub fn load_timeout(self, load_timeout: Duration) -> Self {
        Self { load_timeout, ..self }
    }

    /// The cache in front of a store. `spawn` runs loads in the background.
    pub fn build(self, store: Arc<dyn ConfigStore>, spawn: Spawn) -> OverrideCache {
        let entries_expected = usize::try_from(self.cache_bytes / ENTRY_BYTES).unwrap_or(usize::MAX);
        let options = quick_cache::OptionsBuilder::new()
            .estimated_items_capacity(entries_expected.min(1 << 20))
            .weight_capacity(self.cache_bytes)
            .build()
            .expect("both capacities are set");
        OverrideCache {
            store,
            keys: Cache::with_options(
                options,
                EntryWeighter,
                IdentityHasher,
                quick_cache::sync::DefaultLifecycle::default(),
            ),
            hasher: foldhash::fast::FixedState::with_seed(random_seed()),
            wildcards: ArcSwap::default(),
            has_wildcards: AtomicBool::new(false),
            has_exact: AtomicBool::new(true),
            loads: Mutex::default(),
            old_names: Mutex::default(),
            feed: Mutex::new(Some(FeedPosition::Start)),
            spawn,
            load_timeout: self.load_timeout,
            now_ms: AtomicU64::new(0),
            paused_until_ms: AtomicU64::new(0),
            followed_ms: AtomicU64::new(0),
            counts: Counts::default(),
        }
    }
}

fn random_seed() -> u64 {
    foldhash::fast::RandomState::default().build_hasher().finish()
}

impl OverrideCache {
    /// Makes a cache.
    pub fn builder() -> OverrideCacheBuilder {
        OverrideCacheBuilder { cache_bytes: CACHE_BYTES_DEFAULT, load_timeout: LOAD_TIMEOUT_DEFAULT }
    }

    /// The config store.
    pub fn store(&self) -> &Arc<dyn ConfigStore> {
        &self.store
    }

    /// Tells the cache the time. Call it some times a second.
    pub fn tick(&self, now: Timestamp) {
        self.now_ms.store(now.as_nanos() / 1_000_000, Ordering::Relaxed);
    }

    /// What the cache has done.
    pub fn stats(&self) -> OverrideCacheStats {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { misses, loads, load_errors, unusable_records } = &self.counts;
        let followed_ms = load(&self.followed_ms);
        OverrideCacheStats {
            misses: load(misses),
            loads: load(loads),
            load_errors: load(load_errors),
            unusable_records: load(unusable_records),
            entries: self.keys.len() as u64,
            bytes: self.keys.weight(),
            wildcards: self.wildcards.load().len() as u64,
            feed_age_ms: (followed_ms > 0).then(|| load(&self.now_ms).saturating_sub(followed_ms)),
        }
    }

    /// Whether no key has an override, as far as the feed knows.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_exact.load(Ordering::Acquire) && !self.has_wildcards.load(Ordering::Acquire)
    }

    #[inline]
    fn hash(&self, scope: OverrideScope, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(scope.get());
        hasher.write(key);
        hasher.finish()
    }

    fn loads(&self) -> MutexGuard<'_, IndexMap<u64, Arc<Load>, IdentityHasher>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to load the overrides of a request's keys. Returns `None` if there is nothing to wait for: they were read
    /// immediately, or cannot be read now.
    pub(crate) fn load(self: &Arc<Self>, rules: &Ruleset, matched: &MatchedLimits) -> Option<LoadWait> {
        let mut waits: SmallVec<[Arc<Load>; 2]> = SmallVec::new();
        for target in matched.override_targets(rules) {
            let hash = self.hash(target.scope, target.key);
            if self.keys.peek(&hash).is_none() {
                waits.extend(self.start_load(rules, target, hash));
            }
        }
        (!waits.is_empty()).then(|| LoadWait::new(waits, self.load_timeout))
    }

    /// Starts to load a key, or joins the load that is in progress. `None` if there is nothing to wait for.
    fn start_load(
        self: &Arc<Self>,
        rules: &Ruleset,
        target: OverrideTarget<'_>,
        hash: u64,
    ) -> Option<Arc<Load>> {
        if self.is_paused() {
            return None;
        }
        let place = rules.override_place(target.position);
        let Some(name) = KeyName::encode_key(place.domain, place.rule, place.key, target.key) else {
            // Its values are too long to have overrides.
            self.keys.insert(hash, self.cached(None, 0));
            return None;
        };
        let load = {
            let mut loads = self.loads();
            if let Some(load) = loads.get(&hash) {
                return Some(Arc::clone(load));
            }
            // A load has ended since the caller looked.
            if self.keys.peek(&hash).is_some() || loads.len() >= LOADS_MAX {
                return None;
            }
            let load = Arc::new(Load::default());
            loads.insert(hash, Arc::clone(&load));
            load
        };
        self.counts.loads.fetch_add(1, Ordering::Relaxed);
        let key = LoadKey { hash, key: target.key.into(), name };
        let (cache, its_load) = (Arc::clone(self), Arc::clone(&load));
        // An error is counted, and the feed reports that the store cannot be reached.
        let mut reading: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(async move { drop(cache.read(key, its_load).await) });
        // A store in memory answers immediately.
        match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(()) => None,
            Poll::Pending => {
                (self.spawn)(reading);
                Some(load)
            }
        }
    }

    /// Reads a key into the cache.
    async fn read(&self, key: LoadKey, load: Arc<Load>) -> Result<(), ConfigStoreError> {
        let LoadKey { hash, key, name } = key;
        loop {
            let result = self.store.get(&name).await;
            let mut loads = self.loads();
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
                        Some(Ok(overrides)) => Some((key, Arc::new(overrides))),
                        Some(Err(_)) => {
                            self.counts.unusable_records.fetch_add(1, Ordering::Relaxed);
                            None
                        }
                    };
                    self.keys.insert(hash, self.cached(found, version));
                    Ok(())
                }
                Err(error) => {
                    self.counts.load_errors.fetch_add(1, Ordering::Relaxed);
                    let paused_until = self.now_ms.load(Ordering::Relaxed) + PAUSE_AFTER_ERROR_MS;
                    self.paused_until_ms.store(paused_until, Ordering::Relaxed);
                    Err(error)
                }
            };
            loads.swap_remove(&hash);
            drop(loads);
            load.finish();
            return result;
        }
    }

    fn cached(&self, found: Option<(Box<[u8]>, Arc<KeyOverrides>)>, version: u64) -> Arc<CachedKey> {
        let loaded_ms = self.now_ms.load(Ordering::Relaxed);
        Arc::new(CachedKey { found, version, loaded_ms, is_refreshing: AtomicBool::new(false) })
    }

    fn is_paused(&self) -> bool {
        self.now_ms.load(Ordering::Relaxed) < self.paused_until_ms.load(Ordering::Relaxed)
    }

    /// Lets an entry be read again that is old and in use. One without overrides is dropped: its key is loaded when it is used
    /// again.
    #[cold]
    fn refresh(&self, hash: u64, cached: &CachedKey) {
        if self.is_paused() || cached.is_refreshing.swap(true, Ordering::Relaxed) {
            return;
        }
        match &cached.found {
            None => drop(self.keys.remove(&hash)),
            Some((_, overrides)) => {
                let mut old_names = self.old_names();
                if old_names.len() < REFRESHES_MAX {
                    old_names.push(overrides.id.clone());
                }
            }
        }
    }

    /// Reads the entries again that are old, or have changed. After an error, the rest is read the next time.
    pub(super) async fn refresh_old(&self) -> Result<(), ConfigStoreError> {
        let mut names = std::mem::take(&mut *self.old_names());
        while let Some(name) = names.pop() {
            if let Err(error) = self.refresh_name(&name).await {
                names.push(name);
                let mut old_names = self.old_names();
                names.truncate(REFRESHES_MAX.saturating_sub(old_names.len()));
                old_names.append(&mut names);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn refresh_name(&self, name: &str) -> Result<(), ConfigStoreError> {
        let Some((key_name, key)) = KeyName::decode(name).ok().and_then(|name| {
            let key = name.key_bytes()?;
            Some((name, key))
        }) else {
            return Ok(());
        };
        let hash = self.hash(key_name.scope(), &key);
        let load = Arc::new(Load::default());
        {
            let mut loads = self.loads();
            // Requests already wait for a load of this key.
            if loads.contains_key(&hash) {
                return Ok(());
            }
            loads.insert(hash, Arc::clone(&load));
        }
        self.read(LoadKey { hash, key: key.as_slice().into(), name: name.into() }, load).await
    }

    fn old_names(&self) -> MutexGuard<'_, Vec<Box<str>>> {
        self.old_names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_old(&self, cached: &CachedKey) -> bool {
        self.now_ms.load(Ordering::Relaxed).saturating_sub(cached.loaded_ms) > REFRESH_AFTER_MS
    }

    /// Forgets what is known about a key. It is loaded again when it is used.
    pub fn forget_key(&self, name: &KeyName) {
        self.set_has_exact(true);
        let Some(key) = name.key_bytes() else { return };
        let hash = self.hash(name.scope(), &key);
        let loads = self.loads();
        if let Some(load) = loads.get(&hash) {
            load.mark_stale();
        }
        self.keys.remove(&hash);
        drop(loads);
    }

    /// Puts what this node has written, so that its next decision uses it, however slow the store is.
    pub(super) fn put_key(&self, name: &KeyName, version: u64, overrides: Option<KeyOverrides>) {
        // Wildcards are in the list of all wildcards.
        let Some(key) = name.key_bytes().filter(|_| !name.is_wildcard()) else { return };
        self.set_has_exact(true);
        let hash = self.hash(name.scope(), &key);
        let loads = self.loads();
        if let Some(load) = loads.get(&hash) {
            load.mark_stale();
        }
        if self.keys.peek(&hash).is_none_or(|cached| cached.version < version) {
            let found = overrides.map(|overrides| (key.as_slice().into(), Arc::new(overrides)));
            self.keys.insert(hash, self.cached(found, version));
        }
        drop(loads);
    }

    /// A key has changed. What is known about it is used until it is read again, which [`refresh_old`](Self::refresh_old) does
    /// for some keys; the others are loaded when they are used.
    pub(super) fn key_changed(&self, name: &KeyName, id: &str, version: u64) {
        let Some(key) = name.key_bytes() else { return };
        self.set_has_exact(true);
        let hash = self.hash(name.scope(), &key);
        let loads = self.loads();
        if let Some(load) = loads.get(&hash) {
            // It may have read the old record.
            load.mark_stale();
        }
        let is_older = |cached: Arc<CachedKey>| cached.version < version;
        // A newer one is an edit of this node.
        if self.keys.peek(&hash).is_some_and(is_older) {
            let mut old_names = self.old_names();
            if old_names.len() < CHANGED_REFRESHES_MAX {
                old_names.push(id.into());
            } else {
                self.keys.remove(&hash);
            }
        }
        drop(loads);
    }

    pub(super) fn set_has_exact(&self, has_exact: bool) {
        self.has_exact.store(has_exact, Ordering::Release);
    }

    /// Forgets what is known about all keys.
    pub(super) fn forget_keys(&self) {
        let loads = self.loads();
        loads.values().for_each(|load| load.mark_stale());
        self.keys.clear();
        drop(loads);
    }

    pub(super) fn change_wildcards(
        &self,
        changes: Vec<(Box<str>, Option<Arc<KeyOverrides>>)>,
        seen: &mut FeedChanges,
    ) {
        let (wildcards, refused) = self.wildcards.load().with_changes(changes);
        self.set_wildcards(wildcards, refused, seen);
    }

    pub(super) fn replace_wildcards(
        &self,
        all: Vec<(Box<str>, Option<Arc<KeyOverrides>>)>,
        seen: &mut FeedChanges,
    ) {
        let (wildcards, refused) = Wildcards::default().with_changes(all);
        self.set_wildcards(wildcards, refused, seen);
    }

    fn set_wildcards(&self, wildcards: Wildcards, refused: usize, seen: &mut FeedChanges) {
        if refused > 0 {
            seen.unusable.push(format!(
                "{refused} wildcards are not used, because there are more than {} (hint: put them into the rules)",
                super::WILDCARDS_MAX
            ));
        }
        self.counts.unusable_records.fetch_add(seen.unusable.len() as u64, Ordering::Relaxed);
        let has_wildcards = !wildcards.is_empty();
        self.wildcards.store(Arc::new(wildcards));
        self.has_wildcards.store(has_wildcards, Ordering::Release);
    }

    /// Takes the position of the feed, unless another call has it.
    pub(super) fn take_feed(&self) -> Option<FeedPosition> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn return_feed(&self, position: FeedPosition, is_followed: bool) {
        *self.feed.lock().unwrap_or_else(PoisonError::into_inner) = Some(position);
        if is_followed && position != FeedPosition::Start {
            self.followed_ms.store(self.now_ms.load(Ordering::Relaxed).max(1), Ordering::Relaxed);
            // The store answers.
            self.paused_until_ms.store(0, Ordering::Relaxed);
        }
    }
}

impl OverrideSource for OverrideCache {
    #[inline]
    fn find(&self, target: OverrideTarget<'_>) -> OverrideLookup {
        let wildcards = match self.has_wildcards.load(Ordering::Acquire) {
            false => Vec::new(),
            true => self.wildcards.load().find(target.scope, target.key),
        };
        if !self.has_exact.load(Ordering::Acquire) {
            return match wildcards.is_empty() {
                true => OverrideLookup::None,
                false => OverrideLookup::Found(Box::new(FoundOverrides { exact: None, wildcards })),
            };
        }
        let hash = self.hash(target.scope, target.key);
        let Some(cached) = self.keys.get(&hash) else {
            self.counts.misses.fetch_add(1, Ordering::Relaxed);
            return OverrideLookup::NotLoaded(wildcards);
        };
        if self.is_old(&cached) {
            self.refresh(hash, &cached);
        }
        let exact = match &cached.found {
            Some((key, overrides)) if **key == *target.key => Some(Arc::clone(overrides)),
            _ => None,
        };
        if exact.is_none() && wildcards.is_empty() {
            return OverrideLookup::None;
        }
        OverrideLookup::Found(Box::new(FoundOverrides { exact, wildcards }))
    }
}

impl std::fmt::Debug for OverrideCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OverrideCache")
            .field("store", &self.store)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
