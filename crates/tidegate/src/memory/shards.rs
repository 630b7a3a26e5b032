//! States of variable size, ledgers or leases, in shards with a lock each.

mod walk;

use std::hash::{BuildHasherDefault, Hasher};

use indexmap::IndexMap;
use tidegate_core::{FencingToken, Leases, UsageLog, Timestamp};

use super::budget::Budget;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

pub(super) use walk::{StateCopy, AsRows};

/// Shards: many more than cores, so that two threads rarely want the same one.
const SHARDS: usize = if cfg!(loom) { 2 } else { 64 };
/// What a place in a shard's map costs: the state, its tag and hash, and its part of the index, which is at most
/// 7/8 full, doubles, and doubles once more where many keys come and go.
const fn entry_bytes<S>() -> usize {
    size_of::<(u64, u64, StoredState<S>)>() + 4 * (size_of::<usize>() + 1) * 8 / 7
}
const ENTRIES_MIN: usize = 4;
/// What the allocator adds to a state's entries.
const ALLOCATION_BYTES: usize = 16;
/// A map this large that is less than a quarter full is made smaller.
const SHRINK_ENTRIES_MIN: usize = 64;
/// The largest part of all states' bytes that one of them may have when there is not enough.
const LARGEST_STATE_DIVISOR: u64 = 8;
/// States looked at for one that no longer matters, whenever a key is added: two would do to keep pace.
const SWEEP_STATES: usize = 4;
/// States looked at for one to give up when all are live.
const SAMPLE_STATES: usize = 8;

/// What is kept for a key here. Its default is a key never seen.
pub(super) trait ShardedState: Default {
    /// Whether nothing is lost by forgetting it now.
    fn is_forgettable(&self) -> bool;
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
    /// Units in it.
    fn units(&self) -> u64;
    /// The highest number it handed out, which the key must not hand out again when the state is lost.
    fn last_fence(&self) -> FencingToken {
        FencingToken::default()
    }
}

/// All states of a kind.
pub(super) struct Shards<S> {
    shards: Box<[Mutex<Shard<S>>]>,
    bytes_used: AtomicU64,
    share: MemoryShare,
}

/// What a kind of state may have of a store's bytes.
#[derive(Clone, Copy)]
pub(super) struct MemoryShare {
    /// Set aside for it, used or not.
    pub bytes_reserved: u64,
    pub bytes_max: u64,
}

impl MemoryShare {
    /// What `used` bytes cost the store.
    fn cost(self, used: u64) -> u64 {
        used.max(self.bytes_reserved)
    }
}

/// The states of some keys.
pub(super) struct Shard<S> {
    states: IndexMap<u64, StoredState<S>, BuildHasherDefault<TagHasher>>,
    /// Where the next sweep begins.
    sweep_index: usize,
    /// Places of the map that were counted. The map's own capacity varies with what was removed from it.
    capacity: usize,
}

#[derive(Default)]
struct StoredState<S> {
    state: S,
    /// When it becomes as good as never seen.
    idle_from: Timestamp,
}

/// Where bytes come from, and what had to go to get them.
pub(super) struct EvictionContext<'a> {
    pub budget: &'a Budget,
    /// What is idle at this instant goes first.
    pub now: Timestamp,
    /// Live states that were given up.
    pub live_evictions: u64,
    /// The highest number that a state which is not there any more handed out.
    pub lost_fence_max: &'a AtomicU64,
}

impl<S: ShardedState> Shards<S> {
    pub(super) fn new(share: MemoryShare, budget: &Budget) -> Self {
        budget.take_unchecked(share.cost(0));
        let shards = (0..SHARDS)
            .map(|_| Mutex::new(Shard { states: IndexMap::default(), sweep_index: 0, capacity: 0 }))
            .collect();
        Self { shards, bytes_used: AtomicU64::new(0), share }
    }

    /// Bytes that are set aside and not used.
    pub(super) fn bytes_spare(&self) -> u64 {
        self.share.bytes_reserved.saturating_sub(self.bytes_used.load(Ordering::Relaxed))
    }

    /// How many shards there are.
    pub(super) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    pub(super) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard<S>> {
        lock(&self.shards[shard])
    }

    /// Changes the state of `tag` in its locked shard, then keeps within the budget. `change` says what it
    /// has to say and when the state is to be idle. What is idle at `now` is dropped first.
    pub(super) fn update<R>(
        &self,
        shard: &mut Shard<S>,
        tag: u64,
        room: &mut EvictionContext<'_>,
        change: impl FnOnce(&mut S) -> (R, Timestamp),
    ) -> R {
        if !shard.contains(tag) {
            self.make_room(shard, tag, room);
        }
        let held = shard.states.entry(tag).or_default();
        let bytes_before = held.heap_bytes();
        let (answer, idle_from) = change(&mut held.state);
        held.idle_from = idle_from;
        let (bytes, is_blank) = (held.heap_bytes(), held.state.is_forgettable());
        self.take_bytes(room, bytes);
        self.release_bytes(room, bytes_before);
        if is_blank {
            self.remove(shard, tag, room);
        } else if self.is_over_budget(room) && bytes as u64 > self.share.bytes_max / LARGEST_STATE_DIVISOR {
            // Many small ones would have to go for one that is too large for this store.
            self.evict(shard, tag, room);
        }
        while self.is_over_budget(room) {
            if !self.evict_one(shard, tag, room) && !self.evict_from_other_shards(tag, room) {
                self.evict(shard, tag, room);
                break;
            }
        }
        answer
    }

    pub(super) fn remove(&self, shard: &mut Shard<S>, tag: u64, room: &mut EvictionContext<'_>) {
        if let Some(at) = shard.states.get_index_of(&tag) {
            self.remove_at(shard, at, room);
        }
    }

    /// Makes sure that a new key has a place, in a larger map only if there are bytes for one.
    fn make_room(&self, shard: &mut Shard<S>, tag: u64, room: &mut EvictionContext<'_>) {
        self.sweep(shard, room);
        let in_use = shard.states.len();
        if in_use < shard.capacity {
            return;
        }
        let more = in_use.max(ENTRIES_MIN);
        if in_use == 0 || self.has_room(room, more * entry_bytes::<S>()) {
            shard.states.reserve(more);
            self.set_capacity(shard, in_use + more, room);
        } else {
            self.evict_one(shard, tag, room);
        }
    }

    /// Counts a live state as given up, and forgets it.
    fn evict(&self, shard: &mut Shard<S>, tag: u64, room: &mut EvictionContext<'_>) {
        room.live_evictions += u64::from(shard.contains(tag));
        self.remove(shard, tag, room);
    }

    /// Drops, of a sample, the state that is [worth](Held::worth) least. Never that of `keep`.
    fn evict_one(&self, shard: &mut Shard<S>, keep: u64, room: &mut EvictionContext<'_>) -> bool {
        let len = shard.states.len();
        // Keys stand in no particular order, so any run of them is a sample.
        #[allow(clippy::cast_possible_truncation, reason = "any number will do")]
        let first = keep as usize;
        let sample = (0..SAMPLE_STATES.min(len)).map(|step| first.wrapping_add(step) % len);
        let others = sample.filter(|at| shard.states.get_index(*at).is_some_and(|(tag, _)| *tag != keep));
        let Some(at) = others.min_by_key(|at| shard.states[*at].eviction_rank(room.now)) else {
            return false;
        };
        room.live_evictions += u64::from(shard.states[at].idle_from > room.now);
        self.remove_at(shard, at, room);
        true
    }

    /// Looks for something to give up in other shards, as far as nobody is using them.
    fn evict_from_other_shards(&self, keep: u64, room: &mut EvictionContext<'_>) -> bool {
        let mut others = (1..SHARDS)
            .map(|step| (shard_of(keep) + step) % SHARDS)
            .filter_map(|shard| self.shards[shard].try_lock().ok());
        others.any(|mut shard| self.evict_one(&mut shard, keep, room))
    }

    /// Looks at a few states and drops those that are idle, so that keys that went away make room.
    fn sweep(&self, shard: &mut Shard<S>, room: &mut EvictionContext<'_>) {
        for _ in 0..SWEEP_STATES.min(shard.states.len()) {
            shard.sweep_index = if shard.sweep_index < shard.states.len() { shard.sweep_index } else { 0 };
            if shard.states[shard.sweep_index].idle_from <= room.now {
                self.remove_at(shard, shard.sweep_index, room);
            } else {
                shard.sweep_index += 1;
            }
        }
    }

    fn remove_at(&self, shard: &mut Shard<S>, at: usize, room: &mut EvictionContext<'_>) {
        if let Some((_, held)) = shard.states.swap_remove_index(at) {
            self.release_bytes(room, held.heap_bytes());
            // Under the shard's lock, so whoever comes for the same key sees it.
            let fence = held.state.last_fence();
            if fence > FencingToken::default() {
                room.lost_fence_max.fetch_max(fence.get(), Ordering::Relaxed);
            }
        }
        let in_use = shard.states.len();
        if shard.capacity >= SHRINK_ENTRIES_MIN && in_use < shard.capacity / 4 {
            shard.states.shrink_to(2 * in_use);
            self.set_capacity(shard, 2 * in_use, room);
        }
    }

    /// Counts the map as one of this many places.
    fn set_capacity(&self, shard: &mut Shard<S>, places: usize, room: &EvictionContext<'_>) {
        self.take_bytes(room, places * entry_bytes::<S>());
        self.release_bytes(room, shard.capacity * entry_bytes::<S>());
        shard.capacity = places;
    }

    fn take_bytes(&self, room: &EvictionContext<'_>, bytes: usize) {
        let before = self.bytes_used.fetch_add(bytes as u64, Ordering::Relaxed);
        room.budget.take_unchecked(self.share.cost(before + bytes as u64) - self.share.cost(before));
    }

    fn release_bytes(&self, room: &EvictionContext<'_>, bytes: usize) {
        let before = self.bytes_used.fetch_sub(bytes as u64, Ordering::Relaxed);
        room.budget.release(self.share.cost(before) - self.share.cost(before - bytes as u64));
    }

    fn has_room(&self, room: &EvictionContext<'_>, bytes: usize) -> bool {
        let before = self.bytes_used.load(Ordering::Relaxed);
        let used = before.saturating_add(bytes as u64);
        used <= self.share.bytes_max && room.budget.has_room(self.share.cost(used) - self.share.cost(before))
    }

    /// Whether something of this kind has to go. What is set aside for it is its own, whatever others use.
    fn is_over_budget(&self, room: &EvictionContext<'_>) -> bool {
        let used = self.bytes_used.load(Ordering::Relaxed);
        used > self.share.bytes_max || used > self.share.bytes_reserved && room.budget.is_overdrawn()
    }
}

impl<S: ShardedState> StoredState<S> {
    /// What is lost with it: first the time to its reset, then what it used.
    ///
    /// Times within a factor of eight count as equal. A log that is over its limit is not written to, so it is
    /// always a little nearer its reset than those that a flood of new keys makes; to the nanosecond, the keys
    /// that matter most would be the first to go.
    fn eviction_rank(&self, now: Timestamp) -> (u32, u64) {
        const DOUBLINGS_ALIKE: u32 = 3;
        let left_ns = self.idle_from.as_nanos().saturating_sub(now.as_nanos());
        (left_ns.checked_ilog2().map_or(0, |doublings| 1 + doublings / DOUBLINGS_ALIKE), self.state.units())
    }

    fn heap_bytes(&self) -> usize {
        match self.state.heap_bytes() {
            0 => 0,
            bytes => bytes + ALLOCATION_BYTES,
        }
    }
}

impl<S: ShardedState> Shard<S> {
    /// How many states there are.
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether the state at this place still matters.
    pub(super) fn is_live(&self, place: usize, now: Timestamp) -> bool {
        self.states.get_index(place).is_some_and(|(_, held)| held.idle_from > now)
    }

    pub(super) fn contains(&self, tag: u64) -> bool {
        self.states.contains_key(&tag)
    }

    /// Looks at the state of `tag`, an empty one if there is none.
    pub(super) fn with_state<R>(&self, tag: u64, look: impl FnOnce(&S) -> R) -> R {
        match self.states.get(&tag) {
            Some(held) => look(&held.state),
            None => look(&S::default()),
        }
    }
}

impl ShardedState for UsageLog {
    fn is_forgettable(&self) -> bool {
        self.is_empty()
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }

    fn units(&self) -> u64 {
        self.units()
    }
}

impl ShardedState for Leases {
    /// Also without a lease it knows the last fence, which matters until the time is past it.
    fn is_forgettable(&self) -> bool {
        *self == Self::default()
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }

    fn units(&self) -> u64 {
        self.units()
    }

    fn last_fence(&self) -> FencingToken {
        self.last_fencing_token()
    }
}

/// The shard of a tag, by bits that the index inside it does not start with.
pub(super) fn shard_of(tag: u64) -> usize {
    #[allow(clippy::cast_possible_truncation, reason = "below SHARDS")]
    return (tag >> 32) as usize % SHARDS;
}

/// Tags are hashes already.
#[derive(Default)]
pub(super) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only `u64` is hashed here; anything else still gets a usable value.
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, tag: u64) {
        self.0 = tag;
    }
}
