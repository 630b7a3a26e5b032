//! The ledgers: states of `sliding_log` and `sub_windows`, in shards with a lock each.

use std::hash::{BuildHasherDefault, Hasher};

use indexmap::IndexMap;
use tidegate_core::{Ledger, Timestamp};

use super::budget::Budget;
use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// Shards: many more than cores, so that two threads rarely want the same one.
const SHARDS: usize = if cfg!(loom) { 2 } else { 64 };
/// What a key costs besides its entries: tag, hash, ledger and index, in tables that double, with what the
/// allocator adds. The tables' worst case by arithmetic; measured were up to 136 bytes.
const KEY_BYTES: usize = 168;
/// Ledgers looked at for one that no longer matters, whenever a key is added: two would do to keep pace.
const SWEEP_LEDGERS: usize = 4;
/// Ledgers looked at for one to give up when all are live.
const SAMPLE_LEDGERS: usize = 8;

/// All ledgers.
pub(super) struct Ledgers {
    shards: Box<[Mutex<Shard>]>,
    bytes_used: AtomicU64,
    bytes_max: u64,
}

/// The ledgers of some keys.
#[derive(Default)]
pub(super) struct Shard {
    held: IndexMap<u64, Held, BuildHasherDefault<TagHasher>>,
    /// Where the next sweep begins.
    hand: usize,
}

#[derive(Default)]
struct Held {
    ledger: Ledger,
    /// When it becomes as good as never seen.
    idle_from: Timestamp,
}

/// Where bytes come from, and what had to go to get them.
pub(super) struct Room<'a> {
    pub budget: &'a Budget,
    /// What is idle at this instant goes first.
    pub now: Timestamp,
    /// Live ledgers that were given up.
    pub live_evictions: u64,
}

impl Ledgers {
    pub(super) fn new(bytes_max: u64) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        Self { shards, bytes_used: AtomicU64::new(0), bytes_max }
    }

    /// The shard of a tag, by bits that the index inside it does not start with.
    pub(super) fn shard_of(tag: u64) -> usize {
        #[allow(clippy::cast_possible_truncation, reason = "below SHARDS")]
        return (tag >> 32) as usize % SHARDS;
    }

    pub(super) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard])
    }

    /// Changes the ledger of `tag` in its locked shard, then keeps within the budget. `change` says what it
    /// has to say and when the ledger is to be idle. What is idle at `now` is dropped first.
    pub(super) fn update<R>(
        &self,
        shard: &mut Shard,
        tag: u64,
        room: &mut Room<'_>,
        change: impl FnOnce(&mut Ledger) -> (R, Timestamp),
    ) -> R {
        if !shard.held.contains_key(&tag) {
            self.sweep(shard, room);
            self.take(room, KEY_BYTES);
        }
        let held = shard.held.entry(tag).or_default();
        let heap_before = held.ledger.heap_bytes();
        let (answer, idle_from) = change(&mut held.ledger);
        held.idle_from = idle_from;
        self.take(room, held.ledger.heap_bytes());
        self.give_back(room, heap_before);
        if held.ledger.is_empty() {
            self.forget(shard, tag, room);
        }
        while self.is_over(room) {
            if !self.give_up_one(shard, tag, room) && !self.give_up_elsewhere(tag, room) {
                // Nothing but this one ledger is left.
                room.live_evictions += 1;
                self.forget(shard, tag, room);
                break;
            }
        }
        answer
    }

    pub(super) fn forget(&self, shard: &mut Shard, tag: u64, room: &mut Room<'_>) {
        if let Some(at) = shard.held.get_index_of(&tag) {
            self.remove(shard, at, room);
        }
    }

    /// Drops, of a sample, the ledger nearest its reset, of those the least used. Never that of `keep`.
    fn give_up_one(&self, shard: &mut Shard, keep: u64, room: &mut Room<'_>) -> bool {
        let len = shard.held.len();
        // Keys stand in no particular order, so any run of them is a sample.
        #[allow(clippy::cast_possible_truncation, reason = "any number will do")]
        let first = keep as usize;
        let sample = (0..SAMPLE_LEDGERS.min(len)).map(|step| first.wrapping_add(step) % len);
        let others = sample.filter(|at| shard.held.get_index(*at).is_some_and(|(tag, _)| *tag != keep));
        let Some(at) = others.min_by_key(|at| (shard.held[*at].idle_from, shard.held[*at].ledger.units()))
        else {
            return false;
        };
        room.live_evictions += u64::from(shard.held[at].idle_from > room.now);
        self.remove(shard, at, room);
        true
    }

    /// Looks for something to give up in other shards, as far as nobody is using them.
    fn give_up_elsewhere(&self, keep: u64, room: &mut Room<'_>) -> bool {
        let others = (1..SHARDS).map(|step| (Self::shard_of(keep) + step) % SHARDS);
        others
            .into_iter()
            .filter_map(|shard| self.shards[shard].try_lock().ok())
            .any(|mut shard| self.give_up_one(&mut shard, keep, room))
    }

    /// Looks at a few ledgers and drops those that are idle, so that keys that went away make room.
    fn sweep(&self, shard: &mut Shard, room: &mut Room<'_>) {
        for _ in 0..SWEEP_LEDGERS.min(shard.held.len()) {
            shard.hand = if shard.hand < shard.held.len() { shard.hand } else { 0 };
            if shard.held[shard.hand].idle_from <= room.now {
                self.remove(shard, shard.hand, room);
            } else {
                shard.hand += 1;
            }
        }
    }

    fn remove(&self, shard: &mut Shard, at: usize, room: &mut Room<'_>) {
        if let Some((_, held)) = shard.held.swap_remove_index(at) {
            self.give_back(room, KEY_BYTES + held.ledger.heap_bytes());
        }
    }

    fn take(&self, room: &Room<'_>, bytes: usize) {
        room.budget.take_always(bytes);
        self.bytes_used.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn give_back(&self, room: &Room<'_>, bytes: usize) {
        room.budget.give_back(bytes);
        self.bytes_used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    fn is_over(&self, room: &Room<'_>) -> bool {
        self.bytes_used.load(Ordering::Relaxed) > self.bytes_max || room.budget.is_overdrawn()
    }
}

impl Shard {
    pub(super) fn holds(&self, tag: u64) -> bool {
        self.held.contains_key(&tag)
    }

    /// Looks at the ledger of `tag`, an empty one if there is none.
    pub(super) fn with<R>(&self, tag: u64, look: impl FnOnce(&Ledger) -> R) -> R {
        match self.held.get(&tag) {
            Some(held) => look(&held.ledger),
            None => look(&Ledger::default()),
        }
    }
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
