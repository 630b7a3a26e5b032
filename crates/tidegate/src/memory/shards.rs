//! States of variable size (usage logs or leases), in shards with one mutex each.
//!
//! Adding a key also sweeps a few states of its shard and drops the idle ones, so no background thread is needed.
//!
//! When memory is full, a usage log that is live is evicted. A live lease is not: a second holder could get the same
//! lock. So room for a lease is [reserved](Shards::try_reserve) first, and if there is none, the lease is refused. A
//! reservation drops all states that it can, in any shard. Each shard has a lower bound of when its states can be dropped,
//! so a refusal costs little.

use std::cmp::Reverse;
use std::hash::{BuildHasherDefault, Hasher};

use indexmap::IndexMap;
use tidegate_core::{FencingToken, Leases, Timestamp, UsageLog};

use super::budget::Budget;
use super::owners::{OWNERS, OwnedTag, Owner};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// Many more shards than cores, so that two threads rarely want the same one.
pub(super) const SHARDS: usize = if cfg!(loom) { 2 } else { 64 };
/// The cost of one entry of a shard's map: the state, its tag and hash, and its part of the index. The index is at most
/// 7/8 full, doubles, and doubles once more where many keys come and go.
const fn entry_bytes<S>() -> usize {
    size_of::<(u64, u64, StoredState<S>)>() + 4 * (size_of::<usize>() + 1) * 8 / 7
}
/// The bytes that an owner is charged for a state with this many bytes on the heap.
const fn owned_bytes<S>(heap_bytes: usize) -> u64 {
    (entry_bytes::<S>() + heap_bytes) as u64
}
const ENTRIES_MIN: usize = 4;
/// What the allocator adds to the entries of a state.
const ALLOCATION_BYTES: usize = 16;
/// If memory is too short to double a map, it grows by its size divided by this.
const GROW_LITTLE_DIVISOR: usize = 8;
/// A map of at least this size that is less than a quarter full is shrunk.
const SHRINK_ENTRIES_MIN: usize = 64;
/// When memory is short, one state may have at most all bytes of its kind divided by this.
const LARGEST_STATE_DIVISOR: u64 = 8;
/// How many states are checked for idle ones whenever a key is added. Two would be enough to keep up.
const SWEEP_STATES: usize = 4;
/// How many states are sampled for one to evict when all are live.
const SAMPLE_STATES: usize = 8;
/// How many more are sampled if none of them belongs to the owner that has the most bytes.
const SAMPLE_STATES_MAX: usize = 64;

/// A state that is kept in a shard. The default is that of a key that was never seen.
pub(super) trait ShardedState: Default {
    /// Whether a live state may be evicted when memory is full.
    const MAY_EVICT_LIVE: bool;

    /// Whether dropping it now loses nothing.
    fn is_forgettable(&self) -> bool;
    /// From when on it can be dropped if memory is full, given from when on it is idle.
    fn droppable_from(&self, idle_from: Timestamp) -> Timestamp {
        idle_from
    }
    /// Bytes on the heap that the next charge may add.
    fn heap_bytes_to_add(&self) -> usize;
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
    /// Units in the state.
    fn units(&self) -> u64;
    /// The highest fencing token that it granted. The key must not grant it again after the state is dropped.
    fn last_fence(&self) -> FencingToken {
        FencingToken::default()
    }
}

/// All states of one kind.
pub(super) struct Shards<S> {
    shards: Box<[Mutex<Shard<S>>]>,
    bytes_used: AtomicU64,
    /// The bytes of the states of each owner. The unused capacity of maps belongs to none. Not loom's atomics: they order
    /// nothing.
    owner_bytes: [std::sync::atomic::AtomicU64; OWNERS],
    share: MemoryShare,
}

/// The part of a store's bytes that one kind of state may use.
#[derive(Clone, Copy)]
pub(super) struct MemoryShare {
    /// Reserved for this kind, whether used or not.
    pub bytes_reserved: u64,
    pub bytes_max: u64,
}

impl MemoryShare {
    /// How many bytes of the store `used` bytes take.
    fn cost(self, used: u64) -> u64 {
        used.max(self.bytes_reserved)
    }
}

/// One shard: the states of some keys.
#[derive(Default)]
pub(super) struct Shard<S> {
    pub(super) states: IndexMap<u64, StoredState<S>, BuildHasherDefault<TagHasher>>,
    /// Where the next sweep begins.
    sweep_index: usize,
    /// Before this instant, no state can be dropped.
    droppable_from: Timestamp,
    /// The capacity of the map that the budget counts. The map's own capacity varies with what was removed from it.
    capacity: usize,
}

#[derive(Default)]
pub(super) struct StoredState<S> {
    pub(super) state: S,
    /// From when on the state is as good as never seen.
    pub(super) idle_from: Timestamp,
    pub(super) owner: Owner,
}

/// Where a state is or will be, in its locked shard.
pub(super) struct ShardEntry<'a, S> {
    pub shards: &'a Shards<S>,
    pub shard: &'a mut Shard<S>,
    pub key: OwnedTag,
}

/// The budget for a change, and what was evicted to stay within it.
pub(super) struct EvictionContext<'a> {
    pub budget: &'a Budget,
    /// States that are idle at this instant go first.
    pub now: Timestamp,
    /// Live states that were evicted.
    pub live_evictions: u64,
    /// The highest fencing token that a dropped state granted.
    pub lost_fence_max: &'a AtomicU64,
}

impl<S: ShardedState> Shards<S> {
    pub(super) fn new(share: MemoryShare, budget: &Budget) -> Self {
        budget.take_unchecked(share.cost(0));
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        let owner_bytes = std::array::from_fn(|_| std::sync::atomic::AtomicU64::new(0));
        Self { shards, bytes_used: AtomicU64::new(0), owner_bytes, share }
    }

    /// Bytes that are reserved and not used.
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

    /// Changes the state of `tag` in its locked shard, then evicts until the store is within its budget. `change`
    /// returns a result and the instant from which the state is idle. States that are idle at `now` are dropped first.
    pub(super) fn update<R>(
        &self,
        shard: &mut Shard<S>,
        OwnedTag { tag, owner }: OwnedTag,
        context: &mut EvictionContext<'_>,
        change: impl FnOnce(&mut S) -> (R, Timestamp),
    ) -> R {
        let is_new = !shard.contains(tag);
        if is_new {
            self.make_room(shard, tag, context);
        }
        let stored = shard.states.entry(tag).or_default();
        let bytes_before = stored.heap_bytes();
        let (result, idle_from) = change(&mut stored.state);
        stored.idle_from = idle_from;
        if is_new || stored.owner != owner || stored.heap_bytes() != bytes_before {
            if !is_new {
                self.disown(stored.owner, bytes_before);
            }
            stored.owner = owner;
            self.owner_bytes[owner.index()]
                .fetch_add(owned_bytes::<S>(stored.heap_bytes()), Ordering::Relaxed);
        }
        shard.droppable_from = shard.droppable_from.min(stored.state.droppable_from(idle_from));
        let (bytes, is_blank) = (stored.heap_bytes(), stored.state.is_forgettable());
        self.take_bytes(context, bytes);
        self.release_bytes(context, bytes_before);
        if is_blank {
            self.remove(shard, tag, context);
        }
        if S::MAY_EVICT_LIVE {
            self.evict_to_budget(shard, tag, bytes, context);
        }
        result
    }

    /// Evicts states until the store is within its budget, after the state of `tag` has changed to `bytes`.
    fn evict_to_budget(
        &self,
        shard: &mut Shard<S>,
        tag: u64,
        bytes: usize,
        context: &mut EvictionContext<'_>,
    ) {
        if self.is_over_budget(context) && bytes as u64 > self.share.bytes_max / LARGEST_STATE_DIVISOR {
            // This state is too large for the store: evict it, rather than many small ones.
            self.evict(shard, tag, context);
        }
        while self.is_over_budget(context) {
            if !self.evict_one(shard, tag, context) && !self.evict_from_other_shards(tag, context) {
                self.evict(shard, tag, context);
                break;
            }
        }
    }

    /// Makes room for `heap_bytes` of a state, without dropping a live one. False if there is not enough memory: an
    /// owner must leave as many bytes free as it has. States of an unknown owner may have all.
    pub(super) fn try_reserve(
        &self,
        shard: &mut Shard<S>,
        key: OwnedTag,
        heap_bytes: usize,
        context: &mut EvictionContext<'_>,
    ) -> bool {
        while !self.try_grow(shard, key, heap_bytes, context) {
            if !self.drop_idle(shard, context) && !self.drop_idle_in_other_shards(key.tag, context) {
                return false;
            }
        }
        true
    }

    /// Grows the map for a state, if necessary. False if there are not enough bytes for both.
    fn try_grow(
        &self,
        shard: &mut Shard<S>,
        OwnedTag { tag, owner }: OwnedTag,
        heap_bytes: usize,
        context: &EvictionContext<'_>,
    ) -> bool {
        let left_free = if owner == Owner::UNKNOWN { 0 } else { self.bytes_of(owner) };
        let heap_bytes = heap_bytes.saturating_add(usize::try_from(left_free).unwrap_or(usize::MAX));
        let in_use = shard.states.len();
        if in_use < shard.capacity || shard.contains(tag) {
            return self.has_room(context, heap_bytes);
        }
        // Doubling is cheapest. If memory is too short for it, a little more also helps.
        let steps = [in_use, in_use / GROW_LITTLE_DIVISOR].map(|more| more.max(ENTRIES_MIN));
        let fits =
            |more: &usize| self.has_room(context, heap_bytes.saturating_add(more * entry_bytes::<S>()));
        let Some(more) = steps.into_iter().find(fits) else { return false };
        shard.states.reserve_exact(more);
        self.set_capacity(shard, in_use + more, context);
        true
    }

    /// Drops all states that can be dropped. False if there are none.
    fn drop_idle(&self, shard: &mut Shard<S>, context: &mut EvictionContext<'_>) -> bool {
        if shard.droppable_from > context.now {
            return false;
        }
        let before = shard.states.len();
        let mut first = Timestamp::from_nanos(u64::MAX);
        // From the last to the first: a removal moves the last state, which was already visited.
        for at in (0..before).rev() {
            let stored = &shard.states[at];
            match stored.state.droppable_from(stored.idle_from) {
                droppable_from if droppable_from <= context.now => self.remove_at(shard, at, context),
                droppable_from => first = first.min(droppable_from),
            }
        }
        shard.droppable_from = first;
        shard.states.len() < before
    }

    /// As [`drop_idle`](Self::drop_idle), in the other shards that no thread is using, until one had some.
    fn drop_idle_in_other_shards(&self, keep: u64, context: &mut EvictionContext<'_>) -> bool {
        self.other_shards(keep).any(|mut shard| self.drop_idle(&mut shard, context))
    }

    /// All shards but that of `tag`, as far as no thread is using them.
    fn other_shards(&self, tag: u64) -> impl Iterator<Item = MutexGuard<'_, Shard<S>>> {
        (1..SHARDS)
            .map(move |step| (shard_of(tag) + step) % SHARDS)
            .filter_map(|shard| self.shards[shard].try_lock().ok())
    }

    pub(super) fn remove(&self, shard: &mut Shard<S>, tag: u64, context: &mut EvictionContext<'_>) {
        if let Some(at) = shard.states.get_index_of(&tag) {
            self.remove_at(shard, at, context);
        }
    }

    /// Makes room for a new key. The map grows only if there are bytes for it.
    fn make_room(&self, shard: &mut Shard<S>, tag: u64, context: &mut EvictionContext<'_>) {
        self.sweep(shard, context);
        let in_use = shard.states.len();
        if in_use < shard.capacity {
            return;
        }
        let more = in_use.max(ENTRIES_MIN);
        if in_use == 0 || self.has_room(context, more * entry_bytes::<S>()) {
            shard.states.reserve(more);
            self.set_capacity(shard, in_use + more, context);
        } else if S::MAY_EVICT_LIVE {
            self.evict_one(shard, tag, context);
        }
    }

    /// Removes a live state, and counts it as evicted.
    fn evict(&self, shard: &mut Shard<S>, tag: u64, context: &mut EvictionContext<'_>) {
        context.live_evictions += u64::from(shard.contains(tag));
        self.remove(shard, tag, context);
    }

    /// Evicts a state of a sample: an idle one, else one of the owner that has the most bytes, and of these the one with
    /// the lowest [rank](StoredState::eviction_rank). Never that of `keep`.
    fn evict_one(&self, shard: &mut Shard<S>, keep: u64, context: &mut EvictionContext<'_>) -> bool {
        let len = shard.states.len();
        // Keys are in no particular order, so any run of them is a random sample.
        #[allow(clippy::cast_possible_truncation, reason = "any number will do")]
        let first = keep as usize;
        let most_bytes =
            self.owner_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).max().unwrap_or(0);
        let mut lowest = None;
        for step in 0..SAMPLE_STATES_MAX.min(len) {
            let at = first.wrapping_add(step) % len;
            if shard.states.get_index(at).is_none_or(|(tag, _)| *tag == keep) {
                continue;
            }
            let stored = &shard.states[at];
            let is_live = stored.idle_from > context.now;
            let bytes = self.bytes_of(stored.owner);
            let rank = (is_live, Reverse(bytes), stored.eviction_rank(context.now));
            if lowest.is_none_or(|(least, _)| rank < least) {
                lowest = Some((rank, at));
            }
            // Look on for a state of the owner that has the most.
            if step + 1 >= SAMPLE_STATES
                && let Some(((is_live, Reverse(bytes), _), _)) = lowest
                && (!is_live || bytes >= most_bytes)
            {
                break;
            }
        }
        let Some((_, at)) = lowest else { return false };
        context.live_evictions += u64::from(shard.states[at].idle_from > context.now);
        self.remove_at(shard, at, context);
        true
    }

    /// The bytes of an owner's states.
    fn bytes_of(&self, owner: Owner) -> u64 {
        self.owner_bytes[owner.index()].load(Ordering::Relaxed)
    }

    /// Takes a state of this size from its owner.
    fn disown(&self, owner: Owner, heap_bytes: usize) {
        self.owner_bytes[owner.index()].fetch_sub(owned_bytes::<S>(heap_bytes), Ordering::Relaxed);
    }

    /// Evicts a state from another shard that no thread is using.
    fn evict_from_other_shards(&self, keep: u64, context: &mut EvictionContext<'_>) -> bool {
        self.other_shards(keep).any(|mut shard| self.evict_one(&mut shard, keep, context))
    }

    /// Checks a few states and drops the idle ones, so that unused keys make room.
    fn sweep(&self, shard: &mut Shard<S>, context: &mut EvictionContext<'_>) {
        for _ in 0..SWEEP_STATES.min(shard.states.len()) {
            shard.sweep_index = if shard.sweep_index < shard.states.len() { shard.sweep_index } else { 0 };
            if shard.states[shard.sweep_index].idle_from <= context.now {
                self.remove_at(shard, shard.sweep_index, context);
            } else {
                shard.sweep_index += 1;
            }
        }
    }

    fn remove_at(&self, shard: &mut Shard<S>, at: usize, context: &mut EvictionContext<'_>) {
        if let Some((_, stored)) = shard.states.swap_remove_index(at) {
            self.release_bytes(context, stored.heap_bytes());
            self.disown(stored.owner, stored.heap_bytes());
            // The shard is locked, so the next request for the same key sees it.
            let fence = stored.state.last_fence();
            if fence > FencingToken::default() {
                context.lost_fence_max.fetch_max(fence.get(), Ordering::Relaxed);
            }
        }
        let in_use = shard.states.len();
        if shard.capacity >= SHRINK_ENTRIES_MIN && in_use < shard.capacity / 4 {
            shard.states.shrink_to(2 * in_use);
            self.set_capacity(shard, 2 * in_use, context);
        }
    }

    /// Counts the map with this capacity.
    fn set_capacity(&self, shard: &mut Shard<S>, capacity: usize, context: &EvictionContext<'_>) {
        self.take_bytes(context, capacity * entry_bytes::<S>());
        self.release_bytes(context, shard.capacity * entry_bytes::<S>());
        shard.capacity = capacity;
    }

    fn take_bytes(&self, context: &EvictionContext<'_>, bytes: usize) {
        let before = self.bytes_used.fetch_add(bytes as u64, Ordering::Relaxed);
        context.budget.take_unchecked(self.share.cost(before + bytes as u64) - self.share.cost(before));
    }

    fn release_bytes(&self, context: &EvictionContext<'_>, bytes: usize) {
        let before = self.bytes_used.fetch_sub(bytes as u64, Ordering::Relaxed);
        context.budget.release(self.share.cost(before) - self.share.cost(before - bytes as u64));
    }

    fn has_room(&self, context: &EvictionContext<'_>, bytes: usize) -> bool {
        let before = self.bytes_used.load(Ordering::Relaxed);
        let used = before.saturating_add(bytes as u64);
        used <= self.share.bytes_max
            && context.budget.has_room(self.share.cost(used) - self.share.cost(before))
    }

    /// Whether a state of this kind has to be evicted. Its reserved bytes belong to it, whatever the other kinds use.
    fn is_over_budget(&self, context: &EvictionContext<'_>) -> bool {
        let used = self.bytes_used.load(Ordering::Relaxed);
        used > self.share.bytes_max || used > self.share.bytes_reserved && context.budget.is_overdrawn()
    }
}

impl<S: ShardedState> StoredState<S> {
    /// What is lost with the state: first the time to its reset, then its usage. The lowest rank is evicted.
    ///
    /// Times within a factor of eight count as equal. A usage log that is over its limit is not written to, so it is
    /// always a little nearer its reset than the logs of a flood of new keys. Compared by the nanosecond, the most
    /// important keys would be evicted first.
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

    /// Whether the state at this index is live.
    pub(super) fn is_live(&self, index: usize, now: Timestamp) -> bool {
        self.states.get_index(index).is_some_and(|(_, stored)| stored.idle_from > now)
    }

    pub(super) fn contains(&self, tag: u64) -> bool {
        self.states.contains_key(&tag)
    }

    /// Reads the state of `tag`. A missing state is the default.
    pub(super) fn with_state<R>(&self, tag: u64, read: impl FnOnce(&S) -> R) -> R {
        match self.states.get(&tag) {
            Some(stored) => read(&stored.state),
            None => read(&S::default()),
        }
    }
}

impl ShardedState for UsageLog {
    const MAY_EVICT_LIVE: bool = true;

    fn is_forgettable(&self) -> bool {
        self.is_empty()
    }

    /// Room for logs is made by evicting others, not reserved.
    fn heap_bytes_to_add(&self) -> usize {
        0
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }

    fn units(&self) -> u64 {
        self.units()
    }
}

impl ShardedState for Leases {
    const MAY_EVICT_LIVE: bool = false;

    /// Without a lease it still keeps the last fencing token, which matters until the clock is past it.
    fn is_forgettable(&self) -> bool {
        *self == Self::default()
    }

    /// When the last lease has expired. The store keeps the fencing token of a dropped state.
    fn droppable_from(&self, _: Timestamp) -> Timestamp {
        self.entries().next_back().map_or(Timestamp::default(), |last| last.grant.expires)
    }

    fn heap_bytes_to_add(&self) -> usize {
        self.heap_bytes_after_acquire() - self.heap_bytes() + ALLOCATION_BYTES
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

/// The shard of a tag. Uses other bits than the index inside the shard.
pub(super) fn shard_of(tag: u64) -> usize {
    #[allow(clippy::cast_possible_truncation, reason = "below SHARDS")]
    return (tag >> 32) as usize % SHARDS;
}

/// Tags are already hashes.
#[derive(Default)]
pub(super) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only `u64` is hashed here. Anything else still gets a usable value.
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, tag: u64) {
        self.0 = tag;
    }
}
