//! A bounded table of keys, divided into shards that are locked separately.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use indexmap::{Equivalent, IndexMap};
use smallvec::SmallVec;
use tidegate_core::{Charge, CounterId, Timestamp};

/// A power of two.
const SHARDS: usize = 16;

/// A table with something for each key of a counter.
pub(super) struct KeyTable<E> {
    shards: Box<[Mutex<Shard<E>>]>,
    hasher: SeedableRandomState,
}

/// The keys of a shard.
pub(super) struct Shard<E> {
    keys: IndexMap<TableKey, E, SeedableRandomState>,
    keys_max: usize,
    /// When something in the shard may have to be done.
    pub next_sweep: Timestamp,
}

/// A key of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableKey {
    counter: CounterId,
    key: SmallVec<[u8; 32]>,
}

/// The same without an allocation.
struct TableKeyRef<'a> {
    counter: CounterId,
    key: &'a [u8],
}

impl<E> KeyTable<E> {
    /// A table for at most `keys_max` keys, divided equally among the shards. Without a seed the hashes are random.
    pub fn new(keys_max: usize, hash_seed: Option<u64>) -> Self {
        let shard_keys_max = keys_max.div_ceil(SHARDS);
        let hasher = || match hash_seed {
            Some(seed) => SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()),
            None => SeedableRandomState::random(),
        };
        let shard = || {
            Mutex::new(Shard {
                keys: IndexMap::with_hasher(hasher()),
                keys_max: shard_keys_max,
                next_sweep: Timestamp::from_nanos(u64::MAX),
            })
        };
        let shards = std::iter::repeat_with(shard).take(SHARDS).collect();
        Self { shards, hasher: hasher() }
    }

    /// Locks the shard of a charge's key.
    pub fn lock(&self, charge: &Charge<'_>) -> MutexGuard<'_, Shard<E>> {
        // The upper bits: the map of the shard uses the lower ones.
        let index = (self.hasher.hash_one(TableKeyRef::new(charge)) >> 32) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks each shard in turn.
    pub fn lock_each(&self) -> impl Iterator<Item = MutexGuard<'_, Shard<E>>> {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<E> Shard<E> {
    pub fn get_mut(&mut self, charge: &Charge<'_>) -> Option<&mut E> {
        self.keys.get_mut(&TableKeyRef::new(charge))
    }

    /// What the table has for a key. If it has nothing, adds `new`. `None` if the shard is full of keys for which
    /// `is_needed` is true.
    pub fn get_or_insert(
        &mut self,
        charge: &Charge<'_>,
        new: impl FnOnce() -> E,
        is_needed: impl Fn(&E) -> bool,
    ) -> Option<&mut E> {
        let index = match self.keys.get_index_of(&TableKeyRef::new(charge)) {
            Some(index) => index,
            None => {
                if self.keys.len() >= self.keys_max {
                    self.remove_one(is_needed)?;
                }
                self.keys.insert_full(TableKey::new(charge), new()).0
            }
        };
        self.keys.get_index_mut(index).map(|(_, entry)| entry)
    }

    /// Visits each key. Removes it if `visit` returns false.
    pub fn retain(&mut self, mut visit: impl FnMut(&TableKey, &mut E) -> bool) {
        self.keys.retain(|key, entry| visit(key, entry));
    }

    pub fn remove(&mut self, charge: &Charge<'_>) -> Option<E> {
        self.keys.swap_remove(&TableKeyRef::new(charge))
    }

    pub fn entries(&self) -> impl Iterator<Item = &E> {
        self.keys.values()
    }

    /// Removes one of a few keys that is not needed.
    fn remove_one(&mut self, is_needed: impl Fn(&E) -> bool) -> Option<()> {
        const SAMPLE: usize = 8;
        let len = self.keys.len();
        // The order of the table is as good as random: each removal moves the last key.
        let removed = (0..SAMPLE.min(len)).find(|index| !is_needed(&self.keys[*index]))?;
        self.keys.swap_remove_index(removed).map(|_| ())
    }
}

impl TableKey {
    fn new(charge: &Charge<'_>) -> Self {
        Self { counter: charge.counter.id(), key: SmallVec::from_slice(charge.key) }
    }

    /// The bytes of the key.
    pub fn bytes(&self) -> &[u8] {
        &self.key
    }
}

impl<'a> TableKeyRef<'a> {
    fn new(charge: &Charge<'a>) -> Self {
        Self { counter: charge.counter.id(), key: charge.key }
    }
}

impl Hash for TableKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        TableKeyRef { counter: self.counter, key: &self.key }.hash(state);
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
