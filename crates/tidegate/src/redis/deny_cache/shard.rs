//! A part of the deny cache: entries by key, the oldest of which go first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidegate_core::Timestamp;

use super::{ENTRIES_MAX, KEPT_NS_MAX, SHARDS, SeenAt};
use crate::redis::order::KeyName;
use crate::redis::script::KeyState;

/// The most entries of a shard.
pub(super) const SHARD_ENTRIES_MAX: usize = ENTRIES_MAX / SHARDS;
/// What the states of a shard take at most besides their entries.
pub(super) const SHARD_HEAP_BYTES_MAX: usize = 256 * 1024;

/// A part of the cache, with a lock of its own.
#[derive(Default)]
pub(super) struct Shard {
    pub by_key: HashMap<KeyName, Entry, RandomState>,
    /// Keys in the order in which they were entered, with the number of the entry: one that was entered again since has
    /// another. No longer than [`SHARD_ENTRIES_MAX`].
    pub entered: VecDeque<(KeyName, u64)>,
    next_number: u64,
    pub heap_bytes: usize,
}

/// What is kept for a key.
pub(super) struct Entry {
    pub number: u64,
    pub seen: SeenAt,
    /// None if nothing is known but what is not to be believed.
    pub state: Option<Arc<KeyState>>,
    pub good_for: GoodFor,
    /// When units were given back or forgotten: what Redis saw up to then is of no use, though it may come later.
    pub given_back: Option<Timestamp>,
}

/// What a state that is kept is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoodFor {
    /// It is no further than Redis is.
    Denials,
    /// It may have been charged to by others who gave that back too, so nothing is denied by it. It says what remains, if
    /// another key denies.
    Reports,
}

/// What is known of a key.
pub(super) struct Known {
    pub state: Arc<KeyState>,
    pub good_for: GoodFor,
    /// The latest time that it can be for Redis.
    pub latest: Timestamp,
}

impl Shard {
    /// What is known of a key; forgets what is too old.
    pub fn known(&mut self, key: &KeyName, now: Timestamp) -> Option<Known> {
        let entry = self.by_key.get(key)?;
        if !is_good(entry, now) {
            self.remove(key);
            return None;
        }
        let state = entry.state.clone()?;
        Some(Known { state, good_for: entry.good_for, latest: entry.seen.latest(now) })
    }

    pub fn enter(&mut self, key: &KeyName, mut entry: Entry) {
        if let Some(held) = self.by_key.get(key)
            && is_good(held, entry.seen.sent)
            && entry.is_older_than(held)
        {
            return;
        }
        entry.given_back = entry.given_back.max(self.by_key.get(key).and_then(|held| held.given_back));
        self.remove(key);
        self.make_room(entry.seen.sent, heap_bytes(entry.state.as_deref()));
        entry.number = self.next_number;
        self.next_number += 1;
        self.heap_bytes += heap_bytes(entry.state.as_deref());
        self.entered.push_back((key.clone(), entry.number));
        self.by_key.insert(key.clone(), entry);
    }

    /// Nothing is known of a key any more, but for what is not to be believed.
    pub fn forget(&mut self, key: &KeyName) {
        match self.by_key.get_mut(key) {
            Some(entry) if entry.given_back.is_some() => {
                self.heap_bytes -= heap_bytes(entry.state.take().as_deref());
            }
            _ => self.remove(key),
        }
    }

    /// Only of what this has given back itself is it known how it was, about.
    pub fn restore(&mut self, key: &KeyName, state: &KeyState, seen: SeenAt, given_back: Timestamp) {
        let bytes = heap_bytes(Some(state));
        if let Some(entry) = self.by_key.get_mut(key)
            && entry.given_back == Some(given_back)
            && entry.state.is_none()
            && self.heap_bytes + bytes <= SHARD_HEAP_BYTES_MAX
        {
            self.heap_bytes += bytes;
            entry.state = Some(Arc::new(state.clone()));
            entry.good_for = GoodFor::Reports;
            entry.seen = seen;
        }
    }

    /// Drops what is too old, and then the oldest until there is room for one more.
    fn make_room(&mut self, now: Timestamp, heap_bytes: usize) {
        while let Some((key, number)) = self.entered.front() {
            let entry = self.by_key.get(key).filter(|entry| entry.number == *number);
            let is_full = self.entered.len() >= SHARD_ENTRIES_MAX
                || self.heap_bytes + heap_bytes > SHARD_HEAP_BYTES_MAX;
            if entry.is_some_and(|entry| is_good(entry, now)) && !is_full {
                return;
            }
            let is_current = entry.is_some();
            if let Some((key, _)) = self.entered.pop_front()
                && is_current
            {
                self.remove(&key);
            }
        }
    }

    fn remove(&mut self, key: &KeyName) {
        if let Some(removed) = self.by_key.remove(key) {
            self.heap_bytes -= heap_bytes(removed.state.as_deref());
        }
    }
}

impl Entry {
    /// Whether another entry says what Redis did after this one. Of one instant, having been given back is later: it is
    /// the answer that lets more pass.
    fn is_older_than(&self, held: &Self) -> bool {
        match self.given_back {
            Some(given_back) => held.given_back.is_some_and(|held| given_back < held),
            None => self.seen.at < held.seen.at || held.given_back.is_some_and(|held| self.seen.at <= held),
        }
    }
}

fn is_good(entry: &Entry, now: Timestamp) -> bool {
    entry.seen.passed_ns(now) < KEPT_NS_MAX
}

/// Bytes on the heap of a state that may be there.
pub(super) fn heap_bytes(state: Option<&KeyState>) -> usize {
    state.map_or(0, KeyState::heap_bytes)
}
