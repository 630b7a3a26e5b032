//! Decisions continue while a snapshot is written: it has every key with at least what the key had used when the
//! writing began, and at most what it had used when the writing ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate::store::{Charge, Counter, Plan};
use tidegate::{MemoryStore, Release, Renewal, Timestamp};

use crate::snapshot::{MEMORY_MAX, NOW, PACKED, TestDirectory, USAGE_LOG, counter, restored, units_used};

const THREADS: u64 = 4;
const SNAPSHOTS: u64 = 8;
/// At most this many snapshots, if no decision is made while one is written, because the threads do not get to run.
const SNAPSHOTS_MAX: u64 = 1_000;

/// Keys, and how often each was charged: counted before and after each charge.
struct Keys {
    counter: Counter,
    begun: Vec<AtomicU64>,
    done: Vec<AtomicU64>,
}

impl Keys {
    fn new(limit: &str, keys: usize) -> Self {
        let zeros = || (0..keys).map(|_| AtomicU64::new(0)).collect();
        Self { counter: counter(limit), begun: zeros(), done: zeros() }
    }

    fn charge(&self, store: &MemoryStore, key: usize, now: Timestamp) {
        self.begun[key].fetch_add(1, Ordering::SeqCst);
        crate::snapshot::charge(store, &self.counter, key as u64, now);
        self.done[key].fetch_add(1, Ordering::SeqCst);
    }

    /// Charges a key that is not counted, and refunds it, which removes its usage log.
    fn charge_and_refund(&self, store: &MemoryStore, key: u64, now: Timestamp) {
        let key = (key + u64::MAX / 2).to_le_bytes();
        let mut plan = Plan::new();
        plan.add(Charge::new(&key, &self.counter, 1)).unwrap();
        let _ = store.check(&plan, now);
        store.refund(&plan, now);
    }
}

fn current_counts(counts: &[AtomicU64]) -> Vec<u64> {
    counts.iter().map(|count| count.load(Ordering::SeqCst)).collect()
}

/// Runs `work` on several threads repeatedly while snapshots are written, and compares each snapshot with what the keys
/// had used.
fn assert_within_counts(keys: &Keys, work: impl Fn(&MemoryStore, u64, Timestamp) + Sync) {
    let directory = TestDirectory::new();
    let store = MemoryStore::bounded(MEMORY_MAX);
    let (stop, clock) = (AtomicBool::new(false), AtomicU64::new(NOW.as_nanos()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, stop, clock, work) = (&store, &stop, &clock, &work);
            scope.spawn(move || {
                let mut random = 0x9E37_79B9 * (thread + 1);
                while !stop.load(Ordering::Relaxed) {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    work(store, random >> 11, Timestamp::from_nanos(clock.fetch_add(1, Ordering::Relaxed)));
                }
            });
        }
        let (mut snapshots, mut grown) = (0, 0);
        while snapshots < SNAPSHOTS || (grown == 0 && snapshots < SNAPSHOTS_MAX) {
            snapshots += 1;
            let at_least = current_counts(&keys.done);
            store.snapshot(directory.file(), NOW).unwrap();
            let at_most = current_counts(&keys.begun);
            grown += at_most.iter().sum::<u64>() - at_least.iter().sum::<u64>();
            let now = Timestamp::from_nanos(clock.load(Ordering::Relaxed));
            let again = restored(&directory.file(), now);
            for (key, (at_least, at_most)) in at_least.into_iter().zip(at_most).enumerate() {
                let used = units_used(&again, &keys.counter, key as u64, now);
                let in_range = (at_least..=at_most).contains(&used);
                if !in_range {
                    stop.store(true, Ordering::Relaxed);
                }
                assert!(in_range, "key {key} used {used}, not {at_least} to {at_most}");
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(grown > 0, "nothing was decided while a snapshot was written");
    });
}

#[test]
fn packed_states_while_pages_split() {
    // Two keys in three are new for a long time, so pages are split throughout.
    let keys = Keys::new(PACKED, 300_000);
    assert_within_counts(&keys, |store, random, now| {
        let key = usize::try_from(random).unwrap() % if random.is_multiple_of(3) { 1_000 } else { 300_000 };
        keys.charge(store, key, now);
    });
}

#[test]
fn usage_logs_while_others_come_and_go() {
    // All of them fit the store, however long the disk takes.
    const ROWS_MAX: u64 = 40;
    let keys = Keys::new(USAGE_LOG, 20_000);
    assert_within_counts(&keys, |store, random, now| {
        let key = usize::try_from(random).unwrap() % 20_000;
        match random % 4 {
            0 if keys.begun[key].load(Ordering::Relaxed) < ROWS_MAX => keys.charge(store, key, now),
            _ => (0..8).for_each(|step| keys.charge_and_refund(store, random + step, now)),
        }
    });
}

#[test]
fn large_usage_logs_while_they_grow() {
    // Soon larger than what is copied at a time, and never too large for the store.
    const ROWS_MAX: u64 = 100_000;
    let keys = Keys::new(USAGE_LOG, 8);
    assert_within_counts(&keys, |store, random, now| {
        let key = usize::try_from(random).unwrap() % 8;
        match random % 16 {
            0..8 if keys.begun[key].load(Ordering::Relaxed) < ROWS_MAX => keys.charge(store, key, now),
            _ => keys.charge_and_refund(store, random, now),
        }
    });
}

/// Leases of one key, many times what is copied at a time. Each lease that is held throughout is in the snapshot once,
/// renewed or not.
#[test]
fn leases_of_one_key_while_others_come_and_go() {
    const LEASES: usize = 20_000;
    let (directory, counter) =
        (TestDirectory::new(), counter("{algorithm: concurrency, limit: 1000000, ttl: 1h}"));
    let store = MemoryStore::bounded(MEMORY_MAX);
    let mut plan = Plan::new();
    plan.add(Charge::new(b"key", &counter, 1)).unwrap();
    let (stop, clock) = (AtomicBool::new(false), AtomicU64::new(NOW.as_nanos()));
    let now = || Timestamp::from_nanos(clock.fetch_add(1, Ordering::Relaxed));
    let leases: Vec<_> =
        (0..LEASES).map(|_| store.acquire(&plan, now(), None).1.into_lease().unwrap()).collect();
    let changed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (store, plan, leases, stop, now, changed) = (&store, &plan, &leases, &stop, &now, &changed);
            scope.spawn(move || {
                // Every other lease is renewed, from one end by one thread and from the other end by the other.
                let mut indexes = (0..LEASES).step_by(2).cycle();
                while !stop.load(Ordering::Relaxed) {
                    let index = indexes.next().unwrap();
                    let token = &leases[if thread == 0 { index } else { LEASES - 2 - index }].token;
                    assert!(matches!(store.renew(plan, token, now(), None), Renewal::Renewed(_)));
                    let other = store.acquire(plan, now(), None).1.into_lease().unwrap();
                    assert_eq!(store.release(plan, &other.token, now()), Release::Released);
                    changed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (mut snapshots, mut changed_meanwhile) = (0, 0);
        while snapshots < 3 || (changed_meanwhile == 0 && snapshots < SNAPSHOTS_MAX) {
            snapshots += 1;
            let before = changed.load(Ordering::Relaxed);
            store.snapshot(directory.file(), NOW).unwrap();
            changed_meanwhile += changed.load(Ordering::Relaxed) - before;
            let again = restored(&directory.file(), now());
            let is_once = |index: &usize| {
                let release = || again.release(&plan, &leases[*index].token, NOW);
                (release(), release()) == (Release::Released, Release::AlreadyReleased)
            };
            let wrong = (0..LEASES).find(|index| !is_once(index));
            if wrong.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(wrong, None, "it is not in the snapshot, or twice");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(changed_meanwhile > 0, "nothing was renewed while a snapshot was written");
    });
}
