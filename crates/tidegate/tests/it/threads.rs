//! Many threads: exactly the limit, never a part of a plan, never a deadlock.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::store::{Charge, Counter, Plan};
use tidegate::{MemoryStore, OutcomeKind, Timestamp};

const THREADS: usize = 8;

/// One of each algorithm and option. Each admits 1,000 units at one instant to a key that was never seen.
const LIMITS: [&str; 12] = [
    "{algorithm: gcra, limit: 1000, per: 1s}",
    "{algorithm: gcra, limit: 7, per: 1s, burst: 1000}",
    "{algorithm: token_bucket, limit: 1000, per: 1s}",
    "{algorithm: leaky_bucket, limit: 10, per: 1s, queue: 999}",
    "{algorithm: fixed_window, limit: 1000, per: 1s}",
    "{algorithm: fixed_window, limit: 1000, per: 1s, align: first_hit}",
    "{algorithm: fixed_window, limit: 1000, per: 1s, count_denied: true}",
    "{algorithm: sliding_log, limit: 1000, per: 1s}",
    "{algorithm: sliding_log, limit: 1000, per: 1s, count_denied: true}",
    "{algorithm: sliding_window, limit: 1000, per: 1s}",
    "{algorithm: sub_windows, limit: 1000, per: 1s}",
    "{algorithm: sub_windows, limit: 1000, per: 1s, strict: false}",
];

fn counter(index: usize, limit: &str) -> Counter {
    Counter::new("threads", index, limit.parse().unwrap())
}

/// Runs `work` on every thread at the same time. Each gets its number.
fn on_all_threads(work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(thread);
            });
        }
    });
}

#[test]
fn one_key_admits_exactly_its_limit_at_each_instant() {
    for limit in LIMITS {
        let counter = counter(0, limit);
        let (shared, alone) = (MemoryStore::bounded(1 << 20), MemoryStore::bounded(1 << 20));
        // Instants at which some of the used units have come back, and one at which all have.
        for instant_ms in [10_000, 10_300, 10_999, 11_000, 11_650, 60_000] {
            let now = Timestamp::from_nanos(instant_ms * 1_000_000);
            let charge = Charge::new(b"key", &counter, 1);
            let expected =
                (0..THREADS * 500).filter(|_| alone.check_charge(&charge, now).kind == OutcomeKind::Allowed);
            let expected = expected.count() as u64;
            let admitted = AtomicU64::new(0);
            on_all_threads(|_| {
                for _ in 0..500 {
                    if shared.check_charge(&charge, now).kind == OutcomeKind::Allowed {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            assert_eq!(admitted.into_inner(), expected, "{limit} at {instant_ms} ms");
        }
    }
}

#[test]
fn crossing_plans_charge_whole_or_not_at_all() {
    // Every plan takes two to four of these counters' keys, in its own order, from both kinds of state.
    let counters: Vec<Counter> = (0..LIMITS.len())
        .filter(|index| !LIMITS[*index].contains("count_denied"))
        .map(|index| counter(index, LIMITS[index]))
        .collect();
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    let store = MemoryStore::bounded(1 << 20);
    let now = Timestamp::from_nanos(5_000_000_000);
    let used: Vec<AtomicU64> = (0..counters.len() * keys.len()).map(|_| AtomicU64::new(0)).collect();
    on_all_threads(|thread| {
        let mut random = 0x9E37_79B9_u64 * (thread as u64 + 1);
        for _ in 0..4_000 {
            let mut plan = Plan::new();
            let mut charged = Vec::new();
            for _ in 0..2 + random_below(3, &mut random) {
                let (index, key) =
                    (random_below(counters.len(), &mut random), random_below(keys.len(), &mut random));
                let cost = random_below(3, &mut random) as u64;
                plan.add(Charge::new(keys[key], &counters[index], cost)).unwrap();
                charged.push((index * keys.len() + key, cost));
            }
            if store.check(&plan, now).iter().all(|outcome| outcome.kind == OutcomeKind::Allowed) {
                for (index, cost) in charged {
                    used[index].fetch_add(cost, Ordering::Relaxed);
                }
            }
        }
    });
    let mut full = 0;
    for (index, used) in used.into_iter().enumerate() {
        let (counter, key) = (&counters[index / keys.len()], keys[index % keys.len()]);
        let mut plan = Plan::new();
        plan.add(Charge::new(key, counter, 0)).unwrap();
        let remaining = store.peek(&plan, now)[0].remaining;
        assert_eq!(used.into_inner() + remaining, 1_000, "{} of {:?}", counter.limit(), key);
        full += u32::from(remaining == 0);
    }
    assert!(full > 0, "the plans never met a limit");
}

#[test]
fn many_keys_from_many_threads_are_all_kept() {
    // The table grows throughout: pages split while other threads read and write them.
    const KEYS: u64 = 40_000;
    let counter = counter(0, "{algorithm: fixed_window, limit: 8, per: 1h}");
    let store = MemoryStore::bounded(64 << 20);
    let now = Timestamp::from_nanos(1_000);
    let denied = AtomicU64::new(0);
    on_all_threads(|thread| {
        for step in 0..KEYS {
            let number = (step * 7_919 + thread as u64 * 5_003) % KEYS;
            let key = number.to_le_bytes();
            let charge = Charge::new(&key, &counter, 1);
            if store.check_charge(&charge, now).kind == OutcomeKind::Denied {
                denied.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert_eq!(denied.into_inner(), 0, "every key was asked for its limit of 8 exactly");
    for number in 0..KEYS {
        let key = number.to_le_bytes();
        let charge = Charge::new(&key, &counter, 1);
        assert_eq!(store.check_charge(&charge, now).kind, OutcomeKind::Denied, "key {number} lost a charge");
    }
    assert_eq!(store.stats().live_evictions, 0);
}

/// A small generator of numbers. They only have to be different.
fn random_below(bound: usize, state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from((*state >> 11) % bound as u64).unwrap()
}
