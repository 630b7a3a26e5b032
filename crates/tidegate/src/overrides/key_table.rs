//! What is known about keys: a bounded table in memory, which decisions read.
//!
//! With a million keys, a look-up takes as long as its cache misses. So all that a decision needs of a key is in one slot of 32
//! bytes, and a key with overrides shares them with all keys of the shard that have equal ones, such as the customers of a
//! plan.
//!
//! A key is found by a keyed hash of 128 bits under random seeds. The key itself is not kept: two keys have the same hash
//! once in 10^38 pairs.
//!
//! The table has shards with a lock each. A shard has open addressing with linear probing, and grows up to its share of the
//! memory. Then the clock hand removes keys: it goes around, and removes the first key that was not used since it last
//! came by.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::rules::OverrideList;

use super::shared_overrides::{NUMBER_MAX, SharedOverrides};

/// Shards. With as many threads as a server has, two seldom want the same one.
const SHARDS: usize = 64;
/// The slots of a shard that has a key.
const SLOTS_MIN: usize = 16;

/// The hash of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash {
    /// Chooses the shard and the slot.
    pub place: u64,
    /// Independent of the other half.
    pub check: u64,
}

/// What is known about a key.
#[derive(Clone, Debug)]
pub(super) struct CachedKey {
    /// `None` if it has no overrides.
    pub overrides: Option<Arc<OverrideList>>,
    /// The version of the record, or of its deletion. 0 if the key was not in the store.
    pub version: u64,
    /// When it was read.
    pub loaded_s: u32,
    /// Whether it is being read again.
    pub is_refreshing: bool,
    /// Whether it has changed since it was read.
    pub is_stale: bool,
}

/// What is known about keys.
pub(super) struct KeyTable {
    shards: Box<[Shard]>,
}

// On lines of its own, so that no two locks share one.
#[repr(align(128))]
struct Shard(Mutex<ShardTable>);

struct ShardTable {
    slots: Vec<Slot>,
    keys: usize,
    /// The next slot that the clock hand looks at.
    hand: usize,
    shared: SharedOverrides,
    bytes_max: usize,
    /// Decisions that found what they need. Counted under the lock that they hold anyway.
    hits: u64,
}

/// 32 bytes and aligned, so that no slot is on two cache lines.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Slot {
    place: u64,
    check: u64,
    version: u64,
    loaded_s: u32,
    /// 0 if the slot is empty. Otherwise [`OCCUPIED`] and other flags, with the number of the overrides, or 0 if the key has none.
    state: u32,
}

const OCCUPIED: u32 = 1 << 31;
/// The key was used since the clock hand came by.
const USED: u32 = 1 << 30;
const REFRESHING: u32 = 1 << 29;
/// The key has changed since it was read.
const STALE: u32 = 1 << 28;
/// The bits of the number of the overrides.
const SHARED: u32 = NUMBER_MAX;

impl KeyTable {
    /// A table that takes up to about this much memory.
    pub fn new(bytes_max: u64) -> Self {
        let bytes_max = usize::try_from(bytes_max / SHARDS as u64).unwrap_or(usize::MAX);
        let shard = |_| {
            let (slots, shared) = (Vec::new(), SharedOverrides::default());
            Shard(Mutex::new(ShardTable { slots, keys: 0, hand: 0, shared, bytes_max, hits: 0 }))
        };
        Self { shards: (0..SHARDS).map(shard).collect() }
    }

    #[inline]
    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, ShardTable> {
        // The highest bits. The slot depends on the lower half.
        #[allow(clippy::cast_possible_truncation, reason = "below SHARDS")]
        let shard = &self.shards[(hash.place >> (u64::BITS - SHARDS.ilog2())) as usize];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known about a key, for a decision. It is a hit unless the key has changed since it was read.
    pub fn get(&self, hash: KeyHash) -> Option<CachedKey> {
        let mut shard = self.shard(hash);
        let Slot { version, loaded_s, state, .. } = *shard.find_used(hash)?;
        let overrides = shard.shared.get(state & SHARED).cloned();
        let (is_refreshing, is_stale) = (state & REFRESHING != 0, state & STALE != 0);
        shard.hits += u64::from(!is_stale);
        Some(CachedKey { overrides, version, loaded_s, is_refreshing, is_stale })
    }

    /// The overrides of a key and their version, if it has some and a decision has nothing else to do about it: they have not
    /// changed, and are not too old or already being read again. With many keys, the processor waits for the slot, and for the
    /// loads of `meanwhile` at the same time: it waits for all of them when it counts the reference to the overrides.
    #[inline]
    pub fn get_fresh(
        &self,
        hash: KeyHash,
        is_old: impl Fn(u32) -> bool,
        meanwhile: impl FnOnce(),
    ) -> Option<(Arc<OverrideList>, u64)> {
        let mut shard = self.shard(hash);
        let Slot { version, loaded_s, state, .. } = *shard.find_used(hash)?;
        meanwhile();
        let is_usable = state & STALE == 0 && (state & REFRESHING != 0 || !is_old(loaded_s));
        let overrides = shard.shared.get(state & SHARED).filter(|_| is_usable).cloned()?;
        shard.hits += 1;
        Some((overrides, version))
    }

    /// Whether a key has to be read: it is not known, or has changed.
    pub fn needs_read(&self, hash: KeyHash) -> bool {
        let shard = self.shard(hash);
        shard.find(hash).is_none_or(|index| shard.slots[index].state & STALE != 0)
    }

    /// The version of a key, if it is known.
    pub fn version(&self, hash: KeyHash) -> Option<u64> {
        let shard = self.shard(hash);
        shard.find(hash).map(|index| shard.slots[index].version)
    }

    /// Sets what is known about a key.
    pub fn insert(&self, hash: KeyHash, key: CachedKey) {
        self.shard(hash).insert(hash, key);
    }

    /// Marks a key as being read again.
    pub fn set_refreshing(&self, hash: KeyHash) {
        let mut shard = self.shard(hash);
        if let Some(index) = shard.find(hash) {
            shard.slots[index].state |= REFRESHING;
        }
    }

    /// Marks a key as changed since it was read. It was read long ago, too, so that decisions look closer.
    pub fn set_stale(&self, hash: KeyHash, long_ago_s: u32) {
        let mut shard = self.shard(hash);
        if let Some(index) = shard.find(hash) {
            let slot = &mut shard.slots[index];
            slot.state = (slot.state | STALE) & !REFRESHING;
            slot.loaded_s = long_ago_s;
        }
    }

    /// Forgets a key.
    pub fn remove(&self, hash: KeyHash) {
        let mut shard = self.shard(hash);
        if let Some(index) = shard.find(hash) {
            shard.remove_at(index);
        }
    }

    /// Forgets all keys.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            (shard.slots, shard.keys, shard.hand) = (Vec::new(), 0, 0);
            shard.shared = SharedOverrides::default();
        }
    }

    /// How many keys are known, the memory that they take, and how often decisions found one.
    pub fn stats(&self) -> TableStats {
        let mut stats = TableStats::default();
        for shard in &self.shards {
            let shard = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            stats.keys += shard.keys as u64;
            stats.bytes += shard.bytes() as u64;
            stats.hits += shard.hits;
        }
        stats
    }
}

/// How large a table is, and how often it was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableStats {
    pub keys: u64,
    pub bytes: u64,
    pub hits: u64,
}

impl ShardTable {
    fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.shared.bytes
    }

    /// The slot of a key, if no other key were there.
    #[inline]
    fn home(&self, place: u64) -> usize {
        // Below the number of slots, which is below 2^32.
        (((place & u64::from(u32::MAX)) * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.slots.len() { 0 } else { index + 1 }
    }

    #[inline]
    fn find(&self, hash: KeyHash) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut index = self.home(hash.place);
        // A quarter of the slots is empty, so this ends.
        loop {
            let slot = &self.slots[index];
            if slot.state == 0 {
                return None;
            }
            if slot.place == hash.place && slot.check == hash.check {
                return Some(index);
            }
            index = self.after(index);
        }
    }

    /// The slot of a key, which is in use from now on.
    #[inline(always)]
    fn find_used(&mut self, hash: KeyHash) -> Option<&Slot> {
        let index = self.find(hash)?;
        let slot = &mut self.slots[index];
        if slot.state & USED == 0 {
            slot.state |= USED;
        }
        Some(slot)
    }

    fn insert(&mut self, hash: KeyHash, key: CachedKey) {
        if let Some(index) = self.find(hash) {
            self.remove_at(index);
        }
        let flags =
            OCCUPIED | if key.is_refreshing { REFRESHING } else { 0 } | if key.is_stale { STALE } else { 0 };
        let shared = key.overrides.map_or(0, |overrides| self.shared.add(overrides));
        self.make_room();
        let state = flags | shared;
        self.put(Slot {
            place: hash.place,
            check: hash.check,
            version: key.version,
            loaded_s: key.loaded_s,
            state,
        });
        self.keys += 1;
    }

    /// Makes room for one more key.
    fn make_room(&mut self) {
        let keys_max = |slots: usize| slots - slots / 4 - 1;
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); SLOTS_MIN];
        } else if self.keys >= keys_max(self.slots.len()) {
            let slots = self.slots.len() + self.slots.len() / 2;
            if slots * size_of::<Slot>() + self.shared.bytes <= self.bytes_max {
                self.grow(slots);
            }
        }
        while self.keys > 0 && (self.keys >= keys_max(self.slots.len()) || self.bytes() > self.bytes_max) {
            self.evict();
        }
    }

    fn grow(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        self.hand = 0;
        for slot in old.into_iter().filter(|slot| slot.state != 0) {
            self.put(slot);
        }
    }

    fn put(&mut self, slot: Slot) {
        let mut index = self.home(slot.place);
        while self.slots[index].state != 0 {
            index = self.after(index);
        }
        self.slots[index] = slot;
    }

    /// Removes a key that was not used lately. There must be one.
    fn evict(&mut self) {
        loop {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let slot = &mut self.slots[self.hand];
            if slot.state != 0 && slot.state & USED == 0 {
                // Another key may move here: look again.
                return self.remove_at(self.hand);
            }
            slot.state &= !USED;
            self.hand += 1;
        }
    }

    /// Removes the key in a slot, and moves keys behind it that would not be found with an empty slot before them.
    fn remove_at(&mut self, index: usize) {
        self.shared.release(self.slots[index].state & SHARED);
        self.keys -= 1;
        let (mut hole, mut next) = (index, self.after(index));
        while self.slots[next].state != 0 {
            let slots = self.slots.len();
            let distance = |from: usize| (next + slots - from) % slots;
            if distance(self.home(self.slots[next].place)) >= distance(hole) {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.slots[hole] = Slot::default();
    }
}

// Not under loom, which has no dependency for tests.
#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use tidegate_core::rules::{Override, OverrideValues};

    use super::*;

    fn overrides(limit: u64) -> Arc<OverrideList> {
        let values = OverrideValues { limit: Some(limit), ..OverrideValues::default() };
        Arc::new(vec![Override { values, ..Override::default() }].into())
    }

    /// Few places, so that keys get in each other's way.
    fn hash(key: u8) -> KeyHash {
        let place = u64::from(key % 7) << 29 | u64::from(key % 3) << 62;
        KeyHash { place, check: u64::from(key) }
    }

    fn key(limit: Option<u64>, version: u64) -> CachedKey {
        CachedKey {
            overrides: limit.map(overrides),
            version,
            loaded_s: 0,
            is_refreshing: false,
            is_stale: false,
        }
    }

    proptest! {
        #![proptest_config(tidegate_testing::proptest_config(300))]
        #[test]
        fn it_is_a_map_while_there_is_room(
            steps in prop::collection::vec((any::<u8>(), prop::option::of(prop::option::of(0..5_u64))), 0..400),
        ) {
            let (table, mut model) = (KeyTable::new(64 << 20), BTreeMap::new());
            for (version, (number, step)) in (1..).zip(steps) {
                match step {
                    Some(limit) => {
                        table.insert(hash(number), key(limit, version));
                        model.insert(number, (limit, version));
                    }
                    None => {
                        table.remove(hash(number));
                        model.remove(&number);
                    }
                }
                let known = |number: u8| {
                    let found = table.get(hash(number))?;
                    Some((found.overrides.map(|found| found[0].values.limit.unwrap()), found.version))
                };
                prop_assert_eq!(known(number), model.get(&number).copied());
                if version % 50 == 0 {
                    for number in 0..=u8::MAX {
                        prop_assert_eq!(known(number), model.get(&number).copied());
                    }
                }
            }
            prop_assert_eq!(table.stats().keys, model.len() as u64);
            for number in 0..=u8::MAX {
                table.remove(hash(number));
            }
            let shared: usize = table.shards.iter().map(|shard| shard.0.lock().unwrap().shared.bytes).sum();
            prop_assert_eq!((table.stats().keys, shared), (0, 0));
        }
    }

    fn spread(number: u64) -> KeyHash {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        KeyHash { place: mixed ^ mixed >> 31, check: number }
    }

    #[test]
    fn the_memory_is_bounded_and_used_keys_stay() {
        const BYTES_MAX: u64 = 1 << 20;
        // With overrides that all keys share, and with different ones.
        for differ in [false, true] {
            let table = KeyTable::new(BYTES_MAX);
            for number in 0..100_000 {
                table.insert(spread(number), key(Some(if differ { number } else { 1 }), 1));
                table.get(spread(number % 100));
            }
            let TableStats { keys, bytes, .. } = table.stats();
            assert!(bytes <= BYTES_MAX, "{bytes}");
            assert!(keys > if differ { 2_000 } else { 14_000 }, "{keys}");
            let kept = (0..100).filter(|number| table.get(spread(*number)).is_some()).count();
            assert!(kept >= 99, "{kept}");
        }
    }

    #[test]
    fn a_table_without_memory_holds_next_to_nothing() {
        let table = KeyTable::new(0);
        (0..1_000).for_each(|number| table.insert(spread(number), key(Some(number), 1)));
        assert!(table.stats().keys <= SHARDS as u64);
    }
}
