//! A bounded table of keys, divided into shards that are locked separately.
//!
//! A shard also knows when each key has to be looked at again, for what is done in the background. With many keys, few of
//! them are due at a time, so they are in a queue by time, and no sweep visits the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use indexmap::map::RawEntryApiV1 as _;
use indexmap::map::raw_entry_v1::RawEntryMut;
use indexmap::{Equivalent, IndexMap};
use smallvec::SmallVec;
use tidegate_core::{Charge, CounterId, Nanos, Timestamp};

/// A power of two.
pub(super) const SHARDS: usize = 16;
/// Visits that a shard may have queued for each of its keys, and this many more, before the superseded ones are removed.
const VISITS_PER_KEY_MAX: usize = 4;
const VISITS_MIN: usize = 64;

/// A table with something for each key of a counter.
pub(super) struct KeyTable<E> {
    shards: Box<[Mutex<Shard<E>>]>,
    hasher: SeedableRandomState,
}

/// The keys of a shard.
pub(super) struct Shard<E> {
    keys: IndexMap<TableKey, Entry<E>, SeedableRandomState>,
    keys_max: usize,
    /// Where the next key to remove is looked for.
    hand: usize,
    /// When to visit the key at a position. An element counts only if it is what the entry there says: the others were
    /// superseded by an earlier visit, or their key has moved.
    visits: BinaryHeap<Reverse<(Timestamp, usize)>>,
}

struct Entry<E> {
    value: E,
    /// When the key is visited next.
    visit_at: Timestamp,
}

/// The shard of a key, locked.
pub(super) struct LockedKey<'t, 'c, E> {
    shard: MutexGuard<'t, Shard<E>>,
    key: TableKeyRef<'c>,
    hash: u64,
    /// Where the key is, once it was looked up.
    position: Option<usize>,
}

/// What a visit decides about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// Visit it again at this time.
    Next(Timestamp),
    Remove,
}

/// A key of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableKey {
    counter: CounterId,
    key: SmallVec<[u8; 32]>,
}

/// The same without an allocation.
#[derive(Clone, Copy)]
struct TableKeyRef<'a> {
    counter: CounterId,
    key: &'a [u8],
}

impl<E> KeyTable<E> {
    /// A table for at most `keys_max` keys, divided equally among the shards. Without a seed the hashes are random.
    pub fn new(keys_max: usize, hash_seed: Option<u64>) -> Self {
        let hasher = match hash_seed {
            Some(seed) => SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()),
            None => SeedableRandomState::random(),
        };
        let shard = || {
            Mutex::new(Shard {
                keys: IndexMap::with_hasher(hasher.clone()),
                keys_max: keys_max.div_ceil(SHARDS),
                hand: 0,
                visits: BinaryHeap::new(),
            })
        };
        Self { shards: std::iter::repeat_with(shard).take(SHARDS).collect(), hasher }
    }

    /// Locks the shard of a charge's key.
    pub fn lock<'t, 'c>(&'t self, charge: &Charge<'c>) -> LockedKey<'t, 'c, E> {
        let key = TableKeyRef { counter: charge.counter.id(), key: charge.key };
        let hash = self.hasher.hash_one(key);
        // The upper bits: the map of the shard uses the lower ones.
        let index = (hash >> 32) as usize % SHARDS;
        let shard = self.shards[index].lock().unwrap_or_else(PoisonError::into_inner);
        LockedKey { shard, key, hash, position: None }
    }

    /// Locks each shard in turn.
    pub fn lock_each(&self) -> impl Iterator<Item = MutexGuard<'_, Shard<E>>> {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<E> LockedKey<'_, '_, E> {
    /// What the table has for the key.
    pub fn get_mut(&mut self) -> Option<&mut E> {
        self.position = self.find();
        self.found().map(|entry| &mut entry.value)
    }

    /// What the table has for the key. If it has nothing, adds `new`. `None` if the shard is full of keys for which
    /// `is_needed` is true.
    pub fn get_or_insert(
        &mut self,
        new: impl FnOnce() -> E,
        is_needed: impl Fn(&E) -> bool,
    ) -> Option<&mut E> {
        self.position = match self.find() {
            Some(position) => Some(position),
            None => {
                if self.shard.keys.len() >= self.shard.keys_max {
                    self.shard.remove_one(is_needed)?;
                }
                let entry = Entry { value: new(), visit_at: NEVER };
                Some(self.insert(entry))
            }
        };
        self.found().map(|entry| &mut entry.value)
    }

    /// Lets the key that was looked up be visited at this time, or earlier if that was said before.
    pub fn visit_at(&mut self, at: Timestamp) {
        let Some(position) = self.position else { return };
        if let Some(entry) = self.found()
            && at < entry.visit_at
        {
            entry.visit_at = at;
            self.shard.queue_visit(at, position);
        }
    }

    /// Removes the key.
    pub fn remove(&mut self) {
        if let Some(position) = self.find() {
            self.shard.remove_at(position);
        }
        self.position = None;
    }

    fn find(&self) -> Option<usize> {
        self.shard.keys.raw_entry_v1().index_from_hash(self.hash, |key| self.key.equivalent(key))
    }

    fn found(&mut self) -> Option<&mut Entry<E>> {
        self.shard.keys.get_index_mut(self.position?).map(|(_, entry)| entry)
    }

    /// Adds the key, which the table does not have. Returns its position.
    fn insert(&mut self, entry: Entry<E>) -> usize {
        let Self { shard, key, hash, .. } = self;
        match shard.keys.raw_entry_mut_v1().from_hash(*hash, |other| key.equivalent(other)) {
            RawEntryMut::Occupied(occupied) => occupied.index(),
            RawEntryMut::Vacant(vacant) => {
                let position = vacant.index();
                vacant.insert_hashed_nocheck(*hash, key.to_key(), entry);
                position
            }
        }
    }
}

const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

impl<E> Shard<E> {
    pub fn entries(&self) -> impl Iterator<Item = &E> {
        self.keys.values().map(|entry| &entry.value)
    }

    /// Visits the keys that are due.
    pub fn visit_due(&mut self, now: Timestamp, mut visit: impl FnMut(&TableKey, &mut E) -> Visit) {
        while let Some(Reverse((at, position))) = self.visits.peek().copied()
            && at <= now
        {
            self.visits.pop();
            if self.keys.get_index(position).is_some_and(|(_, entry)| entry.visit_at == at) {
                self.visit(position, now, &mut visit);
            }
        }
    }

    /// Visits all keys.
    pub fn visit_all(&mut self, now: Timestamp, mut visit: impl FnMut(&TableKey, &mut E) -> Visit) {
        // From the end: a key that is removed is replaced by the last one, which was visited before.
        for position in (0..self.keys.len()).rev() {
            self.visit(position, now, &mut visit);
        }
    }

    fn visit(&mut self, position: usize, now: Timestamp, visit: &mut impl FnMut(&TableKey, &mut E) -> Visit) {
        let Some((key, entry)) = self.keys.get_index_mut(position) else { return };
        match visit(key, &mut entry.value) {
            Visit::Next(at) => {
                // Later than now, so that a sweep ends.
                entry.visit_at = at.max(now.saturating_add(Nanos::new(1)));
                let at = entry.visit_at;
                self.queue_visit(at, position);
            }
            Visit::Remove => self.remove_at(position),
        }
    }

    fn queue_visit(&mut self, at: Timestamp, position: usize) {
        self.visits.push(Reverse((at, position)));
        if self.visits.len() > VISITS_PER_KEY_MAX * self.keys.len() + VISITS_MIN {
            let visit_at = |(position, entry): (usize, &Entry<E>)| Reverse((entry.visit_at, position));
            self.visits = self.keys.values().enumerate().map(visit_at).collect();
        }
    }

    fn remove_at(&mut self, position: usize) {
        self.keys.swap_remove_index(position);
        // The last key is here now.
        if let Some((_, moved)) = self.keys.get_index(position) {
            let at = moved.visit_at;
            self.queue_visit(at, position);
        }
    }

    /// Removes one of a few keys that is not needed.
    fn remove_one(&mut self, is_needed: impl Fn(&E) -> bool) -> Option<()> {
        const SAMPLE: usize = 8;
        let len = self.keys.len();
        // Other keys each time, so that a few that are needed for long do not keep all new ones out.
        let sample = (self.hand..self.hand + SAMPLE.min(len)).map(|index| index % len);
        self.hand = (self.hand + SAMPLE) % len.max(1);
        let removed = sample.into_iter().find(|index| !is_needed(&self.keys[*index].value))?;
        self.remove_at(removed);
        Some(())
    }
}

impl TableKey {
    /// The bytes of the key.
    pub fn bytes(&self) -> &[u8] {
        &self.key
    }
}

impl TableKeyRef<'_> {
    fn to_key(self) -> TableKey {
        TableKey { counter: self.counter, key: SmallVec::from_slice(self.key) }
    }
}

impl Hash for TableKeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.counter.get());
        state.write(self.key);
    }
}

impl Equivalent<TableKey> for TableKeyRef<'_> {
    fn equivalent(&self, key: &TableKey) -> bool {
        self.counter == key.counter && *self.key == *key.key
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Counter;

    use super::*;
    use crate::IntoLimit;

    const fn at(ns: u64) -> Timestamp {
        Timestamp::from_nanos(ns)
    }

    /// Visits happen when they are due, whichever keys were added and removed meanwhile, and the queue stays small.
    #[test]
    fn each_key_is_visited_when_it_is_due() {
        let counter = Counter::new("rule", 0, "5/s".into_limit().unwrap());
        let table = KeyTable::<u64>::new(1_000, Some(7));
        let mut due = std::collections::BTreeMap::<u64, u64>::new();
        let mut random = 1_u64;
        for now in 1..30_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (number, span) = (random >> 56, (random >> 40) % 200 + 1);
            let key = number.to_le_bytes();
            let mut locked = table.lock(&Charge::new(&key, &counter, 1));
            if random.is_multiple_of(16) {
                locked.remove();
                due.remove(&number);
            } else {
                assert_eq!(*locked.get_or_insert(|| number, |_| true).unwrap(), number);
                locked.visit_at(at(now + span));
                let next = due.entry(number).or_insert(u64::MAX);
                *next = (*next).min(now + span);
            }
            drop(locked);
            for mut shard in table.lock_each() {
                shard.visit_due(at(now), |key, number| {
                    assert_eq!(key.bytes(), number.to_le_bytes());
                    assert_eq!(due.remove(number), Some(now), "{number} at {now}");
                    if number.is_multiple_of(3) {
                        return Visit::Remove;
                    }
                    due.insert(*number, now + 50);
                    Visit::Next(at(now + 50))
                });
                assert!(shard.visits.len() <= VISITS_PER_KEY_MAX * shard.keys.len() + VISITS_MIN);
            }
            assert!(due.values().all(|due_at| *due_at > now), "a visit at {now} is missing");
        }
        let left: usize = table.lock_each().map(|shard| shard.entries().count()).sum();
        assert_eq!(left, due.len());
        assert!(left > 50, "{left}");
    }
}
