//! A part of the deny cache: entries by key, the oldest of which go first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidegate_core::Timestamp;

use super::{ENTRIES_MAX, ENTRY_AGE_NS_MAX, SHARDS, ReplyTime};
use crate::redis::plan::KeyName;
use crate::redis::script::KeyState;

/// The most entries of a shard.
pub(super) const SHARD_ENTRIES_MAX: usize = ENTRIES_MAX / SHARDS;
/// What the states of a shard take at most besides their entries.
pub(super) const SHARD_HEAP_BYTES_MAX: usize = 256 * 1024;

/// A part of the cache, with a lock of its own.
#[derive(Default)]
pub(super) struct DenyShard {
    pub by_key: HashMap<KeyName, DenyEntry, RandomState>,
    /// Keys in the order in which they were entered, with the number of the entry: one that was entered again since has
    /// another. No longer than [`SHARD_ENTRIES_MAX`].
    pub insertion_order: VecDeque<(KeyName, u64)>,
    next_sequence: u64,
    pub heap_bytes: usize,
}

/// What is kept for a key.
pub(super) struct DenyEntry {
    pub sequence: u64,
    pub reply_time: ReplyTime,
    /// None if nothing is known but what is not to be believed.
    pub state: Option<Arc<KeyState>>,
    pub usable_for: UsableFor,
    /// When units were given back or forgotten: what Redis saw up to then is of no use, though it may come later.
    pub refunded_at: Option<Timestamp>,
}

/// What a state that is kept is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsableFor {
    /// It is no further than Redis is.
    Denials,
    /// It may have been charged to by others who gave that back too, so nothing is denied by it. It says what remains, if
    /// another key denies.
    ReportOnly,
}

/// What is known of a key.
pub(super) struct CachedState {
    pub state: Arc<KeyState>,
    pub usable_for: UsableFor,
    /// The latest time that it can be for Redis.
    pub latest_server_time: Timestamp,
}

impl DenyShard {
    /// What is known of a key; forgets what is too old.
    pub fn get(&mut self, key: &KeyName, now: Timestamp) -> Option<CachedState> {
        let entry = self.by_key.get(key)?;
        if !is_fresh(entry, now) {
            self.remove(key);
            return None;
        }
        let state = entry.state.clone()?;
        Some(CachedState { state, usable_for: entry.usable_for, latest_server_time: entry.reply_time.latest_server_time(now) })
    }

    pub fn insert(&mut self, key: &KeyName, mut entry: DenyEntry) {
        if let Some(held) = self.by_key.get(key)
            && is_fresh(held, entry.reply_time.sent_at)
            && entry.is_older_than(held)
        {
            return;
        }
        entry.refunded_at = entry.refunded_at.max(self.by_key.get(key).and_then(|held| held.refunded_at));
        self.remove(key);
        self.make_room(entry.reply_time.sent_at, heap_bytes(entry.state.as_deref()));
        entry.sequence = self.next_sequence;
        self.next_sequence += 1;
        self.heap_bytes += heap_bytes(entry.state.as_deref());
        self.insertion_order.push_back((key.clone(), entry.sequence));
        self.by_key.insert(key.clone(), entry);
    }

    /// Nothing is known of a key any more, but for what is not to be believed.
    pub fn forget(&mut self, key: &KeyName) {
        match self.by_key.get_mut(key) {
            Some(entry) if entry.refunded_at.is_some() => {
                self.heap_bytes -= heap_bytes(entry.state.take().as_deref());
            }
            _ => self.remove(key),
        }
    }

    /// Only of what this has given back itself is it known how it was, about.
    pub fn restore(&mut self, key: &KeyName, state: &KeyState, seen: ReplyTime, given_back: Timestamp) {
        let bytes = heap_bytes(Some(state));
        if let Some(entry) = self.by_key.get_mut(key)
            && entry.refunded_at == Some(given_back)
            && entry.state.is_none()
            && self.heap_bytes + bytes <= SHARD_HEAP_BYTES_MAX
        {
            self.heap_bytes += bytes;
            entry.state = Some(Arc::new(state.clone()));
            entry.usable_for = UsableFor::ReportOnly;
            entry.reply_time = seen;
        }
    }

    /// Drops what is too old, and then the oldest until there is room for one more.
    fn make_room(&mut self, now: Timestamp, heap_bytes: usize) {
        while let Some((key, number)) = self.insertion_order.front() {
            let entry = self.by_key.get(key).filter(|entry| entry.sequence == *number);
            let is_full = self.insertion_order.len() >= SHARD_ENTRIES_MAX
                || self.heap_bytes + heap_bytes > SHARD_HEAP_BYTES_MAX;
            if entry.is_some_and(|entry| is_fresh(entry, now)) && !is_full {
                return;
            }
            let is_current = entry.is_some();
            if let Some((key, _)) = self.insertion_order.pop_front()
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

impl DenyEntry {
    /// Whether another entry says what Redis did after this one. Of one instant, having been given back is later: it is
    /// the answer that lets more pass.
    fn is_older_than(&self, held: &Self) -> bool {
        match self.refunded_at {
            Some(given_back) => held.refunded_at.is_some_and(|held| given_back < held),
            None => self.reply_time.server_time < held.reply_time.server_time || held.refunded_at.is_some_and(|held| self.reply_time.server_time <= held),
        }
    }
}

fn is_fresh(entry: &DenyEntry, now: Timestamp) -> bool {
    entry.reply_time.elapsed_ns(now) < ENTRY_AGE_NS_MAX
}

/// Bytes on the heap of a state that may be there.
pub(super) fn heap_bytes(state: Option<&KeyState>) -> usize {
    state.map_or(0, KeyState::heap_bytes)
}
