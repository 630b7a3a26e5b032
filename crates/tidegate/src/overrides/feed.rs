//! Follows the changes of the config store.
//!
//! First everything is read that has to be in memory, which is all wildcards. The position in the log of changes is taken
//! before that, so a change in between is read again and never missed. Then each poll reads the changed keys, and drops them from
//! the cache. If the log no longer has all changes, everything starts over.
//!
//! Beside that, some pages of all keys are read in each poll until the filter of keys is built.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use tidegate_core::rules::{FoundEntry, KeyOverrides};

use super::cache::OverrideCache;
use super::join_all::{AT_ONCE_MAX, join_all};
use super::key_filter::{FilterBuild, FilterRoom, KeyFilter};
use super::key_name::{KeyName, WILDCARD};
use super::record;
use super::wildcards::WildcardChange;
use crate::config::{CONFIG_PAGE_MAX, ConfigEntry, ConfigStoreError, ConfigVersion, Scan};

/// How many changes are read in one call.
const CHANGES_PER_CALL: usize = 1_000;
/// How many calls one poll makes at most, so that a large import does not keep it forever.
const CALLS_PER_POLL: usize = 20;
/// How many pages of keys one poll reads for the filter, so that changes are read in between.
const FILTER_PAGES_PER_POLL: usize = 4;
/// How many changed keys are remembered for a filter that is begun later.
const RECENT_KEYS_MAX: usize = 1 << 16;

/// Why the changes could not be followed. Decisions go on with what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedError(ConfigStoreError);

/// Where the feed is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FeedPosition {
    /// Everything has to be read.
    #[default]
    Start,
    /// Changes after this version have to be read.
    After(ConfigVersion),
}

/// What the feed has to do next.
#[derive(Default)]
pub(super) struct FeedState {
    pub position: FeedPosition,
    /// The filter of keys that is being built.
    filter_build: Option<FilterBuild>,
    recent: RecentKeys,
}

/// The hashes of the keys that changed last. A change may be listed a moment before a scan sees the key, so each scan that begins
/// in the middle of the feed is given them. The first one begins before the feed.
#[derive(Default)]
struct RecentKeys(VecDeque<u64>);

/// What changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedChanges {
    /// Keys with other overrides than before.
    pub keys: Vec<KeyName>,
    /// Any key may have other overrides: wildcards changed, or changes were missed.
    pub any: bool,
    /// Records that cannot be used, with the reason.
    pub unusable: Vec<String>,
    /// Whether more changes can be read immediately.
    pub has_more: bool,
}

impl OverrideCache {
    /// Reads the changes since the last call. Call it again and again, about once a second.
    pub async fn follow_changes(&self) -> Result<FeedChanges, FeedError> {
        // One call at a time: two would set the position back and forth.
        let Some(mut state) = self.take_feed() else { return Ok(FeedChanges::default()) };
        let mut result = self.follow_from(&mut state).await;
        if let Ok(seen) = &mut result {
            seen.has_more |= self.build_filter(&mut state).await;
        }
        if let Err(error) = self.refresh_old().await {
            result = Err(error);
        }
        if let Ok(seen) = &mut result {
            seen.unusable.append(&mut self.loader.take_unusable());
        }
        self.return_feed(state, result.is_ok());
        result.map_err(FeedError)
    }

    async fn follow_from(&self, state: &mut FeedState) -> Result<FeedChanges, ConfigStoreError> {
        let store = self.store();
        let mut seen = FeedChanges::default();
        let mut since = match state.position {
            FeedPosition::After(since) => since,
            FeedPosition::Start => {
                let latest = store.latest().await?;
                state.filter_build = self.filter.restart();
                self.read_wildcards(latest, &mut seen).await?;
                self.forget_keys();
                // Assume that there are some before the store is asked: an edit in between must not be hidden.
                self.set_has_exact(true);
                let prefix = KeyName::prefix(None, None, false);
                let first = store.scan(Scan { prefix: &prefix, after: None, entries_max: 1 }).await?;
                if first.entries.is_empty() && store.latest().await? == latest {
                    self.set_has_exact(false);
                }
                seen.any = true;
                latest
            }
        };
        // With the versions of their last changes.
        let mut wildcards: BTreeMap<Box<str>, u64> = BTreeMap::new();
        for _ in 0..CALLS_PER_POLL {
            let changes = store.changes(since, CHANGES_PER_CALL).await?;
            if changes.is_gap {
                state.filter_build = None;
                self.filter.clear();
                state.position = FeedPosition::Start;
                seen.has_more = true;
                return Ok(seen);
            }
            for (key, version) in changes.keys {
                match KeyName::decode(&key) {
                    Ok(name) if name.is_wildcard() => {
                        let last = wildcards.entry(key).or_default();
                        *last = version.get().max(*last);
                    }
                    Ok(name) => {
                        self.key_changed(&name, &key, version.get());
                        state.recent.add(self.hash_of_name(&name).map(|hash| hash.place));
                        seen.keys.push(name);
                    }
                    // Something else in the same store.
                    Err(_) => {}
                }
            }
            since = changes.next;
            seen.has_more = changes.has_more;
            if !changes.has_more {
                break;
            }
        }
        let wildcards: Vec<(Box<str>, u64)> = wildcards.into_iter().collect();
        let mut changed = Vec::with_capacity(wildcards.len());
        for some in wildcards.chunks(AT_ONCE_MAX) {
            let reads = some.iter().map(|(key, _)| store.get(key)).collect();
            for ((id, version), entry) in some.iter().zip(join_all(reads).await) {
                let entry = entry?;
                // It may have changed again.
                let version = entry.as_ref().map_or(*version, |entry| entry.version.get().max(*version));
                let overrides = entry.and_then(|entry| self.usable(&entry, &mut seen));
                changed.push(WildcardChange { id: id.clone(), version, overrides });
            }
        }
        if !changed.is_empty() {
            self.change_wildcards(changed, &mut seen);
        }
        state.position = FeedPosition::After(since);
        Ok(seen)
    }

    /// Reads some pages of all keys into the filter, if one is being built or has to be. Returns whether more can be read now.
    async fn build_filter(&self, state: &mut FeedState) -> bool {
        let FeedState { filter_build: build, recent, .. } = state;
        if build.is_none() {
            *build = self.filter.grow();
            recent.insert_into(&self.filter, build.as_ref());
        }
        let prefix = KeyName::prefix(None, None, false);
        for _ in 0..FILTER_PAGES_PER_POLL {
            let Some(building) = build else { return false };
            let scan =
                Scan { prefix: &prefix, after: building.after.as_deref(), entries_max: CONFIG_PAGE_MAX };
            // The next poll tries again. If the store is away, reading the changes says so.
            let Ok(page) = self.store().scan(scan).await else { return false };
            let is_too_small = page.entries.iter().any(|entry| {
                let hash = KeyName::decode(&entry.key).ok().and_then(|name| self.hash_of_name(&name));
                hash.is_some_and(|hash| {
                    self.filter.insert_scanned(building, hash.place) == FilterRoom::TooSmall
                })
            });
            if is_too_small {
                *build = self.filter.begin_larger(building);
                recent.insert_into(&self.filter, build.as_ref());
                continue;
            }
            building.after = page.entries.last().map(|entry| entry.key.clone());
            if (!page.has_more || building.after.is_none())
                && let Some(building) = build.take()
            {
                self.filter.finish(building);
            }
        }
        build.is_some()
    }

    async fn read_wildcards(
        &self,
        latest: ConfigVersion,
        seen: &mut FeedChanges,
    ) -> Result<(), ConfigStoreError> {
        let prefix = KeyName::prefix(None, None, true);
        debug_assert!(prefix.starts_with(WILDCARD));
        let mut all = Vec::new();
        let mut after: Option<Box<str>> = None;
        loop {
            let scan = Scan { prefix: &prefix, after: after.as_deref(), entries_max: CONFIG_PAGE_MAX };
            let page = self.store().scan(scan).await?;
            after = page.entries.last().map(|entry| entry.key.clone());
            all.extend(page.entries.iter().map(|entry| WildcardChange {
                id: entry.key.clone(),
                version: entry.version.get(),
                overrides: self.usable(entry, seen),
            }));
            if !page.has_more || after.is_none() {
                break;
            }
        }
        self.replace_wildcards(all, latest.get(), seen);
        Ok(())
    }

    /// The overrides of a wildcard, or `None` if they cannot be used.
    fn usable(&self, entry: &ConfigEntry, seen: &mut FeedChanges) -> Option<FoundEntry> {
        match record::decode(&entry.key, entry.version.get(), &entry.value) {
            Ok(KeyOverrides { id, version, overrides }) => {
                let wildcard = Some(id.into());
                Some(FoundEntry { overrides: Arc::new(overrides.into()), version, wildcard })
            }
            Err(error) => {
                self.add_unusable(seen, record::unusable(&entry.key, &error));
                None
            }
        }
    }
}

impl RecentKeys {
    fn add(&mut self, hash: Option<u64>) {
        if self.0.len() == RECENT_KEYS_MAX {
            self.0.pop_front();
        }
        self.0.extend(hash);
    }

    fn insert_into(&self, filter: &KeyFilter, build: Option<&FilterBuild>) {
        if build.is_some() {
            self.0.iter().for_each(|hash| filter.insert(*hash));
        }
    }
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for FeedError {}
