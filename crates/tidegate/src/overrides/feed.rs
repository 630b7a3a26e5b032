//! Follows the changes of the config store.
//!
//! First everything is read that has to be in memory, which is all wildcards. The position in the log of changes is taken
//! before that, so a change in between is read again and never missed. Then each poll reads the changed keys, and drops them from
//! the cache. If the log no longer has all changes, everything starts over.

use std::fmt;
use std::sync::Arc;

use tidegate_core::rules::KeyOverrides;

use super::cache::OverrideCache;
use super::key_name::{KeyName, WILDCARD};
use super::record;
use crate::config::{CONFIG_PAGE_MAX, ConfigEntry, ConfigStoreError, ConfigVersion, Scan};

/// How many changes are read in one call.
const CHANGES_PER_CALL: usize = 1_000;
/// How many calls one poll makes at most, so that a large import does not keep it forever.
const CALLS_PER_POLL: usize = 20;

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
        let Some(mut position) = self.take_feed() else { return Ok(FeedChanges::default()) };
        let mut result = self.follow_from(&mut position).await;
        if let Err(error) = self.refresh_old().await {
            result = Err(error);
        }
        self.return_feed(position, result.is_ok());
        result.map_err(FeedError)
    }

    async fn follow_from(&self, position: &mut FeedPosition) -> Result<FeedChanges, ConfigStoreError> {
        let store = self.store();
        let mut seen = FeedChanges::default();
        let mut since = match *position {
            FeedPosition::After(since) => since,
            FeedPosition::Start => {
                let latest = store.latest().await?;
                self.read_wildcards(&mut seen).await?;
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
        let mut wildcards = Vec::new();
        for _ in 0..CALLS_PER_POLL {
            let changes = store.changes(since, CHANGES_PER_CALL).await?;
            if changes.is_gap {
                *position = FeedPosition::Start;
                seen.has_more = true;
                return Ok(seen);
            }
            for (key, version) in changes.keys {
                match KeyName::decode(&key) {
                    Ok(name) if name.is_wildcard() => wildcards.push(key),
                    Ok(name) => {
                        self.key_changed(&name, &key, version.get());
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
        wildcards.sort();
        wildcards.dedup();
        let mut changed = Vec::with_capacity(wildcards.len());
        for key in wildcards {
            let overrides = store.get(&key).await?.and_then(|entry| usable(&entry, &mut seen));
            changed.push((key, overrides));
        }
        if !changed.is_empty() {
            seen.any = true;
            self.change_wildcards(changed, &mut seen);
        }
        *position = FeedPosition::After(since);
        Ok(seen)
    }

    async fn read_wildcards(&self, seen: &mut FeedChanges) -> Result<(), ConfigStoreError> {
        let prefix = KeyName::prefix(None, None, true);
        debug_assert!(prefix.starts_with(WILDCARD));
        let mut all = Vec::new();
        let mut after: Option<Box<str>> = None;
        loop {
            let scan = Scan { prefix: &prefix, after: after.as_deref(), entries_max: CONFIG_PAGE_MAX };
            let page = self.store().scan(scan).await?;
            after = page.entries.last().map(|entry| entry.key.clone());
            all.extend(page.entries.iter().filter_map(|entry| {
                usable(entry, seen).map(|overrides| (entry.key.clone(), Some(overrides)))
            }));
            if !page.has_more || after.is_none() {
                break;
            }
        }
        self.replace_wildcards(all, seen);
        Ok(())
    }
}

/// The overrides of an entry, or `None` if they cannot be used.
fn usable(entry: &ConfigEntry, seen: &mut FeedChanges) -> Option<Arc<KeyOverrides>> {
    match record::decode(&entry.key, entry.version.get(), &entry.value) {
        Ok(overrides) => Some(Arc::new(overrides)),
        Err(error) => {
            seen.unusable.push(format!("the override at {:?} is not used: {error}", entry.key));
            None
        }
    }
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for FeedError {}
