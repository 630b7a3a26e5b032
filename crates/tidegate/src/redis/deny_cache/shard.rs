//! One shard of the deny cache: entries by key. The oldest are dropped first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidegate_core::Timestamp;

use super::cache::{ENTRIES_MAX, ENTRY_AGE_NS_MAX, ReplyTime, SHARDS};
use crate::redis::key_name::KeyName;
use crate::redis::script::KeyState;

/// Entries of a shard at most.
pub(super) const SHARD_ENTRIES_MAX: usize = ENTRIES_MAX / SHARDS;
/// Heap bytes of the states of a shard at most, without the entries themselves.
pub(super) const SHARD_HEAP_BYTES_MAX: usize = 256 * 1024;

/// One shard of the cache. Each has its own lock.
#[derive(Default)]
pub(super) struct DenyShard {
    pub by_key: HashMap<KeyName, DenyEntry, RandomState>,
    /// Keys in insertion order, with the sequence number of the entry. An entry that was inserted again has a
    /// new number. At most [`SHARD_ENTRIES_MAX`] long.
    pub insertion_order: VecDeque<(KeyName, u64)>,
    next_sequence: u64,
    pub heap_bytes: usize,
}

/// What the cache keeps for a key.
pub(super) struct DenyEntry {
    pub sequence: u64,
    pub reply_time: ReplyTime,
    /// None if no valid state is known.
    pub state: Option<Arc<KeyState>>,
    pub usable_for: UsableFor,
    /// When units were refunded or reset. States that Redis saw up to then are not valid, even if they arrive
    /// later.
    pub refunded_at: Option<Timestamp>,
}

/// What a cached state may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsableFor {
    /// Redis has counted at least as much, so it may deny.
    Denials,
    /// It may contain charges of other requests that were refunded too, so it must not deny. It shows what
    /// remains if another key denies.
    ReportOnly,
}

/// The cached state of a key.
pub(super) struct CachedState {
    pub state: Arc<KeyState>,
    pub usable_for: UsableFor,
    /// The latest time that it can be for Redis.
    pub latest_server_time: Timestamp,
}

impl DenyShard {
    /// The cached state of a key. Drops it if it is too old.
    pub fn get(&mut self, key: &KeyName, now: Timestamp) -> Option<CachedState> {
        let entry = self.by_key.get(key)?;
        if !is_fresh(entry, now) {
            self.remove(key);
            return None;
        }
        let state = entry.state.clone()?;
        Some(CachedState {
            state,
            usable_for: entry.usable_for,
            latest_server_time: entry.reply_time.latest_server_time(now),
        })
    }

    pub fn insert(&mut self, key: &KeyName, mut entry: DenyEntry) {
        if let Some(current) = self.by_key.get(key)
            && is_fresh(current, entry.reply_time.sent_at)
            && entry.is_older_than(current)
        {
            return;
        }
        entry.refunded_at =
            entry.refunded_at.max(self.by_key.get(key).and_then(|current| current.refunded_at));
        self.remove(key);
        self.make_room(entry.reply_time.sent_at, heap_bytes(entry.state.as_deref()));
        entry.sequence = self.next_sequence;
        self.next_sequence += 1;
        self.heap_bytes += heap_bytes(entry.state.as_deref());
        self.insertion_order.push_back((key.clone(), entry.sequence));
        self.by_key.insert(key.clone(), entry);
    }

    /// Forgets the state of a key, but remembers its last refund.
    pub fn forget(&mut self, key: &KeyName) {
        match self.by_key.get_mut(key) {
            Some(entry) if entry.refunded_at.is_some() => {
                self.heap_bytes -= heap_bytes(entry.state.take().as_deref());
            }
            _ => self.remove(key),
        }
    }

    /// Restores a state from before a refund, but only if no later refund was recorded.
    pub fn restore(
        &mut self,
        key: &KeyName,
        state: &KeyState,
        reply_time: ReplyTime,
        refunded_at: Timestamp,
    ) {
        let bytes = heap_bytes(Some(state));
        if let Some(entry) = self.by_key.get_mut(key)
            && entry.refunded_at == Some(refunded_at)
            && entry.state.is_none()
            && self.heap_bytes + bytes <= SHARD_HEAP_BYTES_MAX
        {
            self.heap_bytes += bytes;
            entry.state = Some(Arc::new(state.clone()));
            entry.usable_for = UsableFor::ReportOnly;
            entry.reply_time = reply_time;
        }
    }

    /// Drops entries that are too old, then the oldest until there is room for one more.
    fn make_room(&mut self, now: Timestamp, heap_bytes: usize) {
        while let Some((key, sequence)) = self.insertion_order.front() {
            let entry = self.by_key.get(key).filter(|entry| entry.sequence == *sequence);
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
    /// Whether the other entry is what Redis saw later. At the same instant the refund counts as later,
    /// because it admits more.
    fn is_older_than(&self, current: &Self) -> bool {
        match self.refunded_at {
            Some(refunded_at) => current.refunded_at.is_some_and(|current| refunded_at < current),
            None => {
                self.reply_time.server_time < current.reply_time.server_time
                    || current.refunded_at.is_some_and(|current| self.reply_time.server_time <= current)
            }
        }
    }
}

fn is_fresh(entry: &DenyEntry, now: Timestamp) -> bool {
    entry.reply_time.elapsed_ns(now) < ENTRY_AGE_NS_MAX
}

/// The heap bytes of a state, if there is one.
pub(super) fn heap_bytes(state: Option<&KeyState>) -> usize {
    state.map_or(0, KeyState::heap_bytes)
}
