//! States of variable size, ledgers or leases, in shards with a lock each.

mod walk;

use std::hash::{BuildHasherDefault, Hasher};

use indexmap::IndexMap;
use tidegate_core::{Fence, Leases, Ledger, Timestamp};

use super::budget::Budget;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

pub(super) use walk::{Copied, Lined};

/// Shards: many more than cores, so that two threads rarely want the same one.
const SHARDS: usize = if cfg!(loom) { 2 } else { 64 };
/// What a place in a shard's map costs: the state, its tag and hash, and its part of the index, which is at most
/// 7/8 full, doubles, and doubles once more where many keys come and go.
const fn place_bytes<S>() -> usize {
    size_of::<(u64, u64, Held<S>)>() + 4 * (size_of::<usize>() + 1) * 8 / 7
}
const PLACES_MIN: usize = 4;
/// What the allocator adds to a state's entries.
const ALLOCATION_BYTES: usize = 16;
/// A map this large that is less than a quarter full is made smaller.
const SHRINK_PLACES_MIN: usize = 64;
/// The largest part of all states' bytes that one of them may have when there is not enough.
const LARGEST_SHARE: u64 = 8;
/// States looked at for one that no longer matters, whenever a key is added: two would do to keep pace.
const SWEEP_STATES: usize = 4;
/// States looked at for one to give up when all are live.
const SAMPLE_STATES: usize = 8;

/// What is kept for a key here. Its default is a key never seen.
pub(super) trait Kept: Default {
    /// Whether nothing is lost by forgetting it now.
    fn is_blank(&self) -> bool;
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
    /// Units in it.
    fn units(&self) -> u64;
    /// The highest number it handed out, which the key must not hand out again when the state is lost.
    fn last_fence(&self) -> Fence {
        Fence::default()
    }
}

/// All states of a kind.
pub(super) struct Shards<S> {
    shards: Box<[Mutex<Shard<S>>]>,
    bytes_used: AtomicU64,
    share: Share,
}

/// What a kind of state may have of a store's bytes.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// Set aside for it, used or not.
    pub reserved: u64,
    pub max: u64,
}

impl Share {
    /// What `used` bytes cost the store.
    fn cost(self, used: u64) -> u64 {
        used.max(self.reserved)
    }
}

/// The states of some keys.
pub(super) struct Shard<S> {
    held: IndexMap<u64, Held<S>, BuildHasherDefault<TagHasher>>,
    /// Where the next sweep begins.
    hand: usize,
    /// Places of the map that were counted. The map's own capacity varies with what was removed from it.
    places: usize,
}

#[derive(Default)]
struct Held<S> {
    state: S,
    /// When it becomes as good as never seen.
    idle_from: Timestamp,
}

/// Where bytes come from, and what had to go to get them.
pub(super) struct Room<'a> {
    pub budget: &'a Budget,
    /// What is idle at this instant goes first.
    pub now: Timestamp,
    /// Live states that were given up.
    pub live_evictions: u64,
    /// The highest number that a state which is not there any more handed out.
    pub lost_fence: &'a AtomicU64,
}

impl<S: Kept> Shards<S> {
    pub(super) fn new(share: Share, budget: &Budget) -> Self {
        budget.take_always(share.cost(0));
        let shards = (0..SHARDS)
            .map(|_| Mutex::new(Shard { held: IndexMap::default(), hand: 0, places: 0 }))
            .collect();
        Self { shards, bytes_used: AtomicU64::new(0), share }
    }

    /// Bytes that are set aside and not used.
    pub(super) fn spare(&self) -> u64 {
        self.share.reserved.saturating_sub(self.bytes_used.load(Ordering::Relaxed))
    }

    /// How many shards there are.
    pub(super) fn count(&self) -> usize {
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
        room: &mut Room<'_>,
        change: impl FnOnce(&mut S) -> (R, Timestamp),
    ) -> R {
        if !shard.holds(tag) {
            self.make_place(shard, tag, room);
        }
        let held = shard.held.entry(tag).or_default();
        let bytes_before = held.heap_bytes();
        let (answer, idle_from) = change(&mut held.state);
        held.idle_from = idle_from;
        let (bytes, is_blank) = (held.heap_bytes(), held.state.is_blank());
        self.take(room, bytes);
        self.give_back(room, bytes_before);
        if is_blank {
            self.forget(shard, tag, room);
        } else if self.is_over(room) && bytes as u64 > self.share.max / LARGEST_SHARE {
            // Many small ones would have to go for one that is too large for this store.
            self.give_up(shard, tag, room);
        }
        while self.is_over(room) {
            if !self.give_up_one(shard, tag, room) && !self.give_up_elsewhere(tag, room) {
                self.give_up(shard, tag, room);
                break;
            }
        }
        answer
    }

    pub(super) fn forget(&self, shard: &mut Shard<S>, tag: u64, room: &mut Room<'_>) {
        if let Some(at) = shard.held.get_index_of(&tag) {
            self.remove(shard, at, room);
        }
    }

    /// Makes sure that a new key has a place, in a larger map only if there are bytes for one.
    fn make_place(&self, shard: &mut Shard<S>, tag: u64, room: &mut Room<'_>) {
        self.sweep(shard, room);
        let in_use = shard.held.len();
        if in_use < shard.places {
            return;
        }
        let more = in_use.max(PLACES_MIN);
        if in_use == 0 || self.has(room, more * place_bytes::<S>()) {
            shard.held.reserve(more);
            self.count_places(shard, in_use + more, room);
        } else {
            self.give_up_one(shard, tag, room);
        }
    }

    /// Counts a live state as given up, and forgets it.
    fn give_up(&self, shard: &mut Shard<S>, tag: u64, room: &mut Room<'_>) {
        room.live_evictions += u64::from(shard.holds(tag));
        self.forget(shard, tag, room);
    }

    /// Drops, of a sample, the state that is [worth](Held::worth) least. Never that of `keep`.
    fn give_up_one(&self, shard: &mut Shard<S>, keep: u64, room: &mut Room<'_>) -> bool {
        let len = shard.held.len();
        // Keys stand in no particular order, so any run of them is a sample.
        #[allow(clippy::cast_possible_truncation, reason = "any number will do")]
        let first = keep as usize;
        let sample = (0..SAMPLE_STATES.min(len)).map(|step| first.wrapping_add(step) % len);
        let others = sample.filter(|at| shard.held.get_index(*at).is_some_and(|(tag, _)| *tag != keep));
        let Some(at) = others.min_by_key(|at| shard.held[*at].worth(room.now)) else {
            return false;
        };
        room.live_evictions += u64::from(shard.held[at].idle_from > room.now);
        self.remove(shard, at, room);
        true
    }

    /// Looks for something to give up in other shards, as far as nobody is using them.
    fn give_up_elsewhere(&self, keep: u64, room: &mut Room<'_>) -> bool {
        let mut others = (1..SHARDS)
            .map(|step| (shard_of(keep) + step) % SHARDS)
            .filter_map(|shard| self.shards[shard].try_lock().ok());
        others.any(|mut shard| self.give_up_one(&mut shard, keep, room))
    }

    /// Looks at a few states and drops those that are idle, so that keys that went away make room.
    fn sweep(&self, shard: &mut Shard<S>, room: &mut Room<'_>) {
        for _ in 0..SWEEP_STATES.min(shard.held.len()) {
            shard.hand = if shard.hand < shard.held.len() { shard.hand } else { 0 };
            if shard.held[shard.hand].idle_from <= room.now {
                self.remove(shard, shard.hand, room);
            } else {
                shard.hand += 1;
            }
        }
    }

    fn remove(&self, shard: &mut Shard<S>, at: usize, room: &mut Room<'_>) {
        if let Some((_, held)) = shard.held.swap_remove_index(at) {
            self.give_back(room, held.heap_bytes());
            // Under the shard's lock, so whoever comes for the same key sees it.
            let fence = held.state.last_fence();
            if fence > Fence::default() {
                room.lost_fence.fetch_max(fence.get(), Ordering::Relaxed);
            }
        }
        let in_use = shard.held.len();
        if shard.places >= SHRINK_PLACES_MIN && in_use < shard.places / 4 {
            shard.held.shrink_to(2 * in_use);
            self.count_places(shard, 2 * in_use, room);
        }
    }

    /// Counts the map as one of this many places.
    fn count_places(&self, shard: &mut Shard<S>, places: usize, room: &Room<'_>) {
        self.take(room, places * place_bytes::<S>());
        self.give_back(room, shard.places * place_bytes::<S>());
        shard.places = places;
    }

    fn take(&self, room: &Room<'_>, bytes: usize) {
        let before = self.bytes_used.fetch_add(bytes as u64, Ordering::Relaxed);
        room.budget.take_always(self.share.cost(before + bytes as u64) - self.share.cost(before));
    }

    fn give_back(&self, room: &Room<'_>, bytes: usize) {
        let before = self.bytes_used.fetch_sub(bytes as u64, Ordering::Relaxed);
        room.budget.give_back(self.share.cost(before) - self.share.cost(before - bytes as u64));
    }

    fn has(&self, room: &Room<'_>, bytes: usize) -> bool {
        let before = self.bytes_used.load(Ordering::Relaxed);
        let used = before.saturating_add(bytes as u64);
        used <= self.share.max && room.budget.has(self.share.cost(used) - self.share.cost(before))
    }

    /// Whether something of this kind has to go. What is set aside for it is its own, whatever others use.
    fn is_over(&self, room: &Room<'_>) -> bool {
        let used = self.bytes_used.load(Ordering::Relaxed);
        used > self.share.max || used > self.share.reserved && room.budget.is_overdrawn()
    }
}

impl<S: Kept> Held<S> {
    /// What is lost with it: first the time to its reset, then what it used.
    ///
    /// Times within a factor of eight count as equal. A log that is over its limit is not written to, so it is
    /// always a little nearer its reset than those that a flood of new keys makes; to the nanosecond, the keys
    /// that matter most would be the first to go.
    fn worth(&self, now: Timestamp) -> (u32, u64) {
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

impl<S: Kept> Shard<S> {
    /// How many states there are.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether the state at this place still matters.
    pub(super) fn is_live(&self, place: usize, now: Timestamp) -> bool {
        self.held.get_index(place).is_some_and(|(_, held)| held.idle_from > now)
    }

    pub(super) fn holds(&self, tag: u64) -> bool {
        self.held.contains_key(&tag)
    }

    /// Looks at the state of `tag`, an empty one if there is none.
    pub(super) fn with<R>(&self, tag: u64, look: impl FnOnce(&S) -> R) -> R {
        match self.held.get(&tag) {
            Some(held) => look(&held.state),
            None => look(&S::default()),
        }
    }
}

impl Kept for Ledger {
    fn is_blank(&self) -> bool {
        self.is_empty()
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }

    fn units(&self) -> u64 {
        self.units()
    }
}

impl Kept for Leases {
    /// Also without a lease it knows the last fence, which matters until the time is past it.
    fn is_blank(&self) -> bool {
        *self == Self::default()
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }

    fn units(&self) -> u64 {
        self.units()
    }

    fn last_fence(&self) -> Fence {
        self.last_fence()
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
