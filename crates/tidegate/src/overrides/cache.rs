//! The overrides that decisions use: a bounded cache in front of a config store.
//!
//! A decision never reads the config store. It asks the cache, which knows that a key has overrides, that it has none, or that
//! it has to be loaded. Most keys have no overrides: a filter says so before the cache is asked. Loads of one key are shared. A request waits for its loads up to a short deadline, and is then decided by
//! the rule. What is loaded stays until the config store reports a change of the key; an entry is read again from time to time
//! while it is used, and stays in use while the store cannot be reached.
//!
//! `key_filter.rs` has the filter, `key_table.rs` the cached keys, and `loader.rs` the loads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_core::Timestamp;
use tidegate_core::rules::{
    Descriptor, FoundEntry, FoundOverrides, Override, OverrideHint, OverrideLookup, OverrideScope,
    OverrideSource, OverrideTarget, Ruleset, key_value,
};

use super::feed::{FeedChanges, FeedPosition, FeedState};
use super::key_filter::KeyFilter;
use super::key_name::KeyName;
use super::key_table::{CachedKey, KeyHash, KeyTable};
use super::loader::{Loader, Spawn};
use super::wildcards::{WildcardChange, Wildcards};
use crate::config::ConfigStore;
use crate::memory::Seed;

/// The default of how much memory the cache takes.
const CACHE_BYTES_DEFAULT: u64 = 64 << 20;
/// The default of how much memory the filter takes: room for 67 million keys.
const FILTER_BYTES_MAX_DEFAULT: usize = 128 << 20;
/// The default of how long a decision waits for the config store.
const LOAD_TIMEOUT_DEFAULT: Duration = Duration::from_millis(5);
/// How old an entry is when it is read again.
const REFRESH_AFTER_S: u32 = 600;
/// How many changed keys are read again by the next poll. Those are read some at a time, so not for longer than a second.
const CHANGED_REFRESHES_MAX: usize = 640;

/// The overrides that decisions use.
pub struct OverrideCache {
    store: Arc<dyn ConfigStore>,
    pub(super) keys: KeyTable,
    /// The seeds of both halves of a key's hash.
    place_seed: Seed,
    check_seed: Seed,
    wildcards: ArcSwap<Wildcards>,
    /// Held while wildcards change.
    wildcard_changes: Mutex<()>,
    has_wildcards: AtomicBool,
    /// Whether the store has overrides of exact keys, as far as the feed knows. While it has none, nothing is looked up.
    has_exact: AtomicBool,
    pub(super) filter: KeyFilter,
    pub(super) loader: Loader,
    feed: Mutex<Option<FeedState>>,
    /// The time of the last [`tick`](Self::tick), in milliseconds.
    pub(super) now_ms: AtomicU64,
    /// When the feed was last up to date.
    followed_ms: AtomicU64,
    pub(super) counts: Counts,
}

/// Makes an [`OverrideCache`].
#[derive(Clone, Copy, Debug)]
pub struct OverrideCacheBuilder {
    cache_bytes: u64,
    filter_bytes_max: usize,
    load_timeout: Duration,
}

/// What the cache has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverrideCacheStats {
    /// Keys that were in the cache when a decision looked them up.
    pub hits: u64,
    /// Keys that had to be loaded.
    pub misses: u64,
    /// Loads that were started.
    pub loads: u64,
    /// Loads that failed.
    pub load_errors: u64,
    /// Records that cannot be used.
    pub unusable_records: u64,
    /// Overrides that this node deleted after they had ended.
    pub purged: u64,
    /// Keys in the cache, with and without overrides.
    pub entries: u64,
    /// The memory that they take.
    pub bytes: u64,
    /// Wildcards.
    pub wildcards: u64,
    /// The memory of the filter of keys.
    pub filter_bytes: u64,
    /// Whether the filter is in use. It is not while it is built, or if the store has too many keys.
    pub is_filter_built: bool,
    /// How long ago the feed was up to date, in milliseconds. `None` if it never was.
    pub feed_age_ms: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    misses: AtomicU64,
    pub loads: AtomicU64,
    pub load_errors: AtomicU64,
    pub unusable_records: AtomicU64,
    purged: AtomicU64,
}

impl OverrideCacheBuilder {
    /// Sets how much memory the cache takes.
    #[must_use]
    pub fn cache_bytes(self, cache_bytes: u64) -> Self {
        Self { cache_bytes, ..self }
    }

    /// Sets how much memory the filter of keys takes at most. It takes what the keys of the config store need, 1.5 bytes for
    /// each or more, and a third of that besides for smaller ones that were in use before. If they need more than this, there is no filter, and each key is looked up in the cache. Every key is
    /// read from the store to build it, so this also bounds what a start reads.
    #[must_use]
    pub fn filter_bytes_max(self, filter_bytes_max: usize) -> Self {
        Self { filter_bytes_max, ..self }
    }

    /// Sets how long a decision waits for the config store.
    #[must_use]
    pub fn load_timeout(self, load_timeout: Duration) -> Self {
        Self { load_timeout, ..self }
    }

    /// The cache in front of a store. `spawn` runs loads in the background.
    pub fn build(self, store: Arc<dyn ConfigStore>, spawn: Spawn) -> OverrideCache {
        OverrideCache {
            store,
            keys: KeyTable::new(self.cache_bytes),
            place_seed: Seed::random(),
            check_seed: Seed::random(),
            wildcards: ArcSwap::default(),
            wildcard_changes: Mutex::default(),
            has_wildcards: AtomicBool::new(false),
            has_exact: AtomicBool::new(true),
            filter: KeyFilter::new(self.filter_bytes_max),
            loader: Loader::new(spawn, self.load_timeout),
            feed: Mutex::new(Some(FeedState::default())),
            now_ms: AtomicU64::new(0),
            followed_ms: AtomicU64::new(0),
            counts: Counts::default(),
        }
    }
}

impl OverrideCache {
    /// Makes a cache.
    pub fn builder() -> OverrideCacheBuilder {
        OverrideCacheBuilder {
            cache_bytes: CACHE_BYTES_DEFAULT,
            filter_bytes_max: FILTER_BYTES_MAX_DEFAULT,
            load_timeout: LOAD_TIMEOUT_DEFAULT,
        }
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
        let Counts { misses, loads, load_errors, unusable_records, purged } = &self.counts;
        let (table, followed_ms) = (self.keys.stats(), load(&self.followed_ms));
        OverrideCacheStats {
            hits: table.hits,
            misses: load(misses),
            loads: load(loads),
            load_errors: load(load_errors),
            unusable_records: load(unusable_records),
            purged: load(purged),
            entries: table.keys,
            bytes: table.bytes,
            wildcards: self.wildcards.load().len() as u64,
            filter_bytes: self.filter.bytes() as u64,
            is_filter_built: self.filter.is_built(),
            feed_age_ms: (followed_ms > 0).then(|| load(&self.now_ms).saturating_sub(followed_ms)),
        }
    }

    /// Whether no key has an override, as far as the feed knows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.has_exact.load(Ordering::Acquire) && !self.has_wildcards.load(Ordering::Acquire)
    }

    /// The half of a key's hash that the filter uses.
    #[inline]
    fn place_of(&self, scope: OverrideScope, key: &[u8]) -> u64 {
        self.place_seed.tag_of(scope.get(), key)
    }

    #[inline]
    pub(super) fn hash(&self, scope: OverrideScope, key: &[u8]) -> KeyHash {
        KeyHash { place: self.place_of(scope, key), check: self.check_seed.tag_of(scope.get(), key) }
    }

    /// The hash of a key of the config store. `None` if it is not the key of a counter.
    pub(super) fn hash_of_name(&self, name: &KeyName) -> Option<KeyHash> {
        Some(self.hash(name.scope(), &name.key_bytes()?))
    }

    /// Whether a key of the config store may have overrides, as far as this node knows.
    pub(super) fn may_have_overrides(&self, name: &KeyName) -> bool {
        let hash = self.hash_of_name(name).filter(|_| !name.is_wildcard());
        hash.is_none_or(|hash| self.filter.may_contain(hash.place))
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "begins again after 136 years; only differences count"
    )]
    fn now_s(&self) -> u32 {
        (self.now_ms.load(Ordering::Relaxed) / 1_000) as u32
    }

    /// What is known about a key from now on.
    pub(super) fn cached(&self, overrides: Option<Vec<Override>>, version: u64) -> CachedKey {
        let overrides = overrides.map(|mut overrides| {
            // No decision uses it, and without it many keys have equal overrides.
            overrides.iter_mut().for_each(|one| one.set_at = Timestamp::default());
            Arc::new(overrides.into())
        });
        CachedKey { overrides, version, loaded_s: self.now_s(), is_refreshing: false, is_stale: false }
    }

    #[inline]
    fn is_old(&self, loaded_s: u32) -> bool {
        self.now_s().wrapping_sub(loaded_s).cast_signed() > REFRESH_AFTER_S.cast_signed()
    }

    /// Puts what this node has written, so that its next decision uses it, however slow the store is.
    pub(super) fn put_key(&self, name: &KeyName, version: u64, overrides: Option<Vec<Override>>) {
        self.put_keys(vec![(name, version, overrides)]);
    }

    /// As [`put_key`](Self::put_key), for the keys of an import.
    pub(super) fn put_keys(&self, keys: Vec<(&KeyName, u64, Option<Vec<Override>>)>) {
        let mut wildcards = Vec::new();
        for (name, version, overrides) in keys {
            if !name.is_wildcard() {
                self.put_exact(name, version, overrides);
            } else if let Ok(id) = name.encode() {
                let wildcard = Some(id.clone().into());
                let entry = |overrides: Vec<Override>| FoundEntry {
                    overrides: Arc::new(overrides.into()),
                    version,
                    wildcard,
                };
                wildcards.push(WildcardChange { id, version, overrides: overrides.map(entry) });
            }
        }
        if !wildcards.is_empty() {
            self.change_wildcards(wildcards, &mut FeedChanges::default());
        }
    }

    fn put_exact(&self, name: &KeyName, version: u64, overrides: Option<Vec<Override>>) {
        let Some(hash) = self.key_may_exist(name) else { return };
        let loads = self.loader.loads();
        if let Some(load) = loads.get(&hash.place) {
            load.mark_stale();
        }
        if self.keys.version(hash).is_none_or(|known| known < version) {
            self.keys.insert(hash, self.cached(overrides, version));
        }
        drop(loads);
    }

    /// Whether a key may get an override: there is a bound on wildcards. `more` are about to be added.
    pub(super) fn has_room_for(&self, name: &KeyName, id: &str, more: usize) -> bool {
        let wildcards = self.wildcards.load();
        !name.is_wildcard() || wildcards.contains(id) || wildcards.len() + more < super::WILDCARDS_MAX
    }

    /// The wildcards that a key matches, or the text of a wildcard, without itself.
    pub(super) fn wildcards_of(&self, name: &KeyName) -> Vec<FoundEntry> {
        if !self.has_wildcards.load(Ordering::Acquire) {
            return Vec::new();
        }
        let (Some(key), Ok(id)) = (name.key_bytes(), name.encode()) else { return Vec::new() };
        let mut found = self.wildcards.load().find(name.scope(), &key, |_| None);
        found.retain(|entry| entry.wildcard.as_deref() != Some(&*id));
        found
    }

    /// A key has changed. What is known about it is used until it is read again, which [`refresh_old`](Self::refresh_old) does
    /// for some keys. The others are loaded when they are used: requests wait for the load, and use what was known if the store
    /// is too slow.
    pub(super) fn key_changed(&self, name: &KeyName, id: &str, version: u64) {
        let Some(hash) = self.key_may_exist(name) else { return };
        let loads = self.loader.loads();
        if let Some(load) = loads.get(&hash.place) {
            // It may have read the old record.
            load.mark_stale();
        }
        // A newer one is an edit of this node.
        let is_older = self.keys.version(hash).is_some_and(|known| known < version);
        if is_older && !self.loader.read_again(id, CHANGED_REFRESHES_MAX) {
            let long_ago_s = self.now_s().wrapping_sub(REFRESH_AFTER_S + 1);
            self.keys.set_stale(hash, long_ago_s);
        }
        drop(loads);
    }

    /// Lets decisions look a key up, because it is in the store or was. Returns its hash.
    fn key_may_exist(&self, name: &KeyName) -> Option<KeyHash> {
        self.set_has_exact(true);
        let hash = self.hash_of_name(name)?;
        self.filter.insert(hash.place);
        Some(hash)
    }

    pub(super) fn set_has_exact(&self, has_exact: bool) {
        self.has_exact.store(has_exact, Ordering::Release);
    }

    /// Forgets what is known about all keys.
    pub(super) fn forget_keys(&self) {
        let loads = self.loader.loads();
        loads.values().for_each(|load| load.mark_stale());
        self.keys.clear();
        drop(loads);
    }

    pub(super) fn change_wildcards(&self, changes: Vec<WildcardChange>, seen: &mut FeedChanges) {
        let one_at_a_time = self.wildcard_changes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((wildcards, refused)) = self.wildcards.load().with_changes(changes) {
            self.set_wildcards(wildcards, refused, seen);
        }
        drop(one_at_a_time);
    }

    /// Replaces the wildcards by those that were read after `latest`.
    pub(super) fn replace_wildcards(&self, all: Vec<WildcardChange>, latest: u64, seen: &mut FeedChanges) {
        let one_at_a_time = self.wildcard_changes.lock().unwrap_or_else(PoisonError::into_inner);
        let (wildcards, refused) = self.wildcards.load().replaced_by(all, latest);
        self.set_wildcards(wildcards, refused, seen);
        drop(one_at_a_time);
    }

    fn set_wildcards(&self, wildcards: Wildcards, refused: usize, seen: &mut FeedChanges) {
        seen.any = true;
        if refused > 0 {
            self.add_unusable(
                seen,
                format!(
                    "{refused} wildcards are not used, because there are more than {} (hint: put them into the rules)",
                    super::WILDCARDS_MAX
                ),
            );
        }
        let has_wildcards = !wildcards.is_empty();
        self.wildcards.store(Arc::new(wildcards));
        self.has_wildcards.store(has_wildcards, Ordering::Release);
    }

    pub(super) fn add_unusable(&self, seen: &mut FeedChanges, problem: String) {
        self.counts.unusable_records.fetch_add(1, Ordering::Relaxed);
        seen.unusable.push(problem);
    }

    pub(super) fn count_purged(&self, number: usize) {
        self.counts.purged.fetch_add(number as u64, Ordering::Relaxed);
    }

    /// Takes the position of the feed, unless another call has it.
    pub(super) fn take_feed(&self) -> Option<FeedState> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn return_feed(&self, state: FeedState, is_followed: bool) {
        let has_started = state.position != FeedPosition::Start;
        *self.feed.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        if is_followed && has_started {
            self.followed_ms.store(self.now_ms.load(Ordering::Relaxed).max(1), Ordering::Relaxed);
            self.loader.resume();
        }
    }
}

#[allow(clippy::inline_always, reason = "measured")]
impl OverrideCache {
    /// The overrides of exactly this key, as [`OverrideSource::find_alone`] has it. `meanwhile` begins to load what the decision
    /// needs next.
    #[inline(always)]
    pub(crate) fn find_alone_while(
        &self,
        target: OverrideTarget<'_>,
        hint: OverrideHint,
        meanwhile: impl FnOnce(),
    ) -> Option<FoundEntry> {
        if self.has_wildcards.load(Ordering::Acquire) {
            return None;
        }
        let hash =
            KeyHash { place: hint.exact?, check: self.check_seed.tag_of(target.scope.get(), target.key) };
        // `find` lets an old one be read again.
        let (overrides, version) = self.keys.get_fresh(hash, |loaded_s| self.is_old(loaded_s), meanwhile)?;
        Some(FoundEntry { overrides, version, wildcard: None })
    }
}

// Inlined into the step of a decision that applies overrides: calls would cost as much as the look-ups.
#[allow(clippy::inline_always, reason = "measured")]
impl OverrideSource for OverrideCache {
    #[inline(always)]
    fn may_have(&self, target: OverrideTarget<'_>) -> Option<OverrideHint> {
        if self.has_exact.load(Ordering::Acquire) {
            let place = self.place_of(target.scope, target.key);
            if self.filter.may_contain(place) {
                return Some(OverrideHint { exact: Some(place) });
            }
        }
        self.has_wildcards.load(Ordering::Acquire).then_some(OverrideHint { exact: None })
    }

    #[inline(always)]
    fn find_alone(&self, target: OverrideTarget<'_>, hint: OverrideHint) -> Option<FoundEntry> {
        self.find_alone_while(target, hint, || ())
    }

    fn find(
        &self,
        rules: &Ruleset,
        target: OverrideTarget<'_>,
        hint: OverrideHint,
        descriptor: &Descriptor<'_>,
    ) -> OverrideLookup {
        let long_value = |part: usize| {
            let key = rules.override_place(target.position).key;
            key_value(key.parts().get(part)?, descriptor)
        };
        let wildcards = match self.has_wildcards.load(Ordering::Acquire) {
            false => Vec::new(),
            true => self.wildcards.load().find(target.scope, target.key, long_value),
        };
        let Some(place) = hint.exact else { return lookup(None, wildcards) };
        let hash = KeyHash { place, check: self.check_seed.tag_of(target.scope.get(), target.key) };
        let Some(cached) = self.keys.get(hash) else {
            self.counts.misses.fetch_add(1, Ordering::Relaxed);
            return OverrideLookup::NotLoaded(FoundOverrides { exact: None, wildcards });
        };
        if !cached.is_stale && !cached.is_refreshing && self.is_old(cached.loaded_s) {
            self.refresh(rules, target, hash, &cached);
        }
        let version = cached.version;
        let exact = cached.overrides.map(|overrides| FoundEntry { overrides, version, wildcard: None });
        if cached.is_stale {
            self.counts.misses.fetch_add(1, Ordering::Relaxed);
            return OverrideLookup::NotLoaded(FoundOverrides { exact, wildcards });
        }
        lookup(exact, wildcards)
    }
}

#[inline]
fn lookup(exact: Option<FoundEntry>, wildcards: Vec<FoundEntry>) -> OverrideLookup {
    if exact.is_none() && wildcards.is_empty() {
        return OverrideLookup::None;
    }
    OverrideLookup::Found(FoundOverrides { exact, wildcards })
}

impl std::fmt::Debug for OverrideCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OverrideCache")
            .field("store", &self.store)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
