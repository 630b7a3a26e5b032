//! A restored store decides as the one that was written.

use proptest::prelude::*;
use tidegate::snapshot::RestoreStatus;
use tidegate::store::{Charge, Counter, LeaseReply, Outcomes, Plan};
use tidegate::{MemoryStore, Nanos, Release, Timestamp};

use crate::snapshot::{
    MEMORY_MAX, NOW, PACKED, TestDirectory, USAGE_LOG, charge, counter, restored, units_used,
};

const LIMITS: &[&str] = &[
    "{algorithm: gcra, limit: 7, per: 1s, burst: 12}",
    "{algorithm: gcra, limit: 1, per: 3650d, burst: 1000}",
    "{algorithm: token_bucket, limit: 3, per: 1s}",
    "{algorithm: leaky_bucket, limit: 10, per: 1s, queue: 5}",
    "{algorithm: fixed_window, limit: 9, per: 1s}",
    "{algorithm: fixed_window, limit: 9, per: 1s, align: first_hit, count_denied: true}",
    "{algorithm: sliding_window, limit: 9, per: 1s}",
    "{algorithm: sliding_log, limit: 8, per: 1s}",
    "{algorithm: sliding_log, limit: 8, per: 1s, count_denied: true, min_interval: 50ms}",
    "{algorithm: sub_windows, limit: 9, per: 1s, sub_windows: 10}",
    "{algorithm: sub_windows, limit: 9, per: 1s, strict: false}",
    "{algorithm: sliding_log, limit: 3, per: 1h}",
    "{algorithm: concurrency, limit: 9, ttl: 1s}",
    "{algorithm: concurrency, limit: 5, ttl: 3s}",
    #[cfg(feature = "calendar")]
    "{algorithm: fixed_window, limit: 9, per: day, align: {tz: Europe/Paris}}",
];

/// A request of several charges, and whether it is refunded.
#[derive(Clone, Debug)]
struct Request {
    later_ns: u64,
    /// Index of the limit, key, cost.
    charges: Vec<(usize, u8, u64)>,
    refunded: bool,
}

fn request() -> impl Strategy<Value = Request> {
    let charges = prop::collection::vec((0..LIMITS.len(), 0_u8..3, 0_u64..6), 1..4);
    (0_u64..400_000_000, charges, prop::bool::weighted(0.1))
        .prop_map(|(later_ns, charges, refunded)| Request { later_ns, charges, refunded })
}

fn check(store: &MemoryStore, counters: &[Counter], request: &Request, now: Timestamp) -> Outcomes {
    let keys: Vec<[u8; 1]> = request.charges.iter().map(|(_, key, _)| [*key]).collect();
    let mut plan = Plan::new();
    for ((index, _, cost), key) in request.charges.iter().zip(&keys) {
        plan.add(Charge::new(key, &counters[*index], *cost)).unwrap();
    }
    let outcomes = store.check(&plan, now);
    if request.refunded {
        store.refund(&plan, now);
    }
    outcomes
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn a_restored_store_makes_the_same_decisions(
        before in prop::collection::vec(request(), 0..80),
        down_for_ns in 0_u64..2_000_000_000,
        after in prop::collection::vec(request(), 1..60),
    ) {
        let directory = TestDirectory::new();
        let counters: Vec<Counter> = LIMITS
            .iter()
            .enumerate()
            .map(|(index, limit)| Counter::new("round trip", index, limit.parse().unwrap()))
            .collect();
        let store = MemoryStore::bounded(MEMORY_MAX);
        let mut now_ns = NOW.as_nanos();
        for request in before {
            now_ns += request.later_ns;
            let _ = check(&store, &counters, &request, Timestamp::from_nanos(now_ns));
        }
        let report = store.snapshot(directory.file(), Timestamp::from_nanos(now_ns)).unwrap();
        prop_assert_eq!(report.bytes, std::fs::metadata(directory.file()).unwrap().len());
        now_ns += down_for_ns;
        let again = MemoryStore::restore(directory.file(), MEMORY_MAX, Timestamp::from_nanos(now_ns));
        let RestoreStatus::Restored { restored, expired, .. } = again.status else { panic!("{}", again.status) };
        prop_assert_eq!(restored + expired, report.entries);
        for request in after {
            now_ns += request.later_ns;
            let now = Timestamp::from_nanos(now_ns);
            let outcomes = [&store, &again.store].map(|store| check(store, &counters, &request, now));
            prop_assert_eq!(&outcomes[0], &outcomes[1]);
        }
    }
}

#[test]
fn every_one_of_many_keys_is_restored() {
    const KEYS: u64 = 100_000;
    for limit in [PACKED, USAGE_LOG] {
        let (directory, counter) = (TestDirectory::new(), counter(limit));
        let store = MemoryStore::bounded(MEMORY_MAX);
        for key in 0..KEYS {
            (0..1 + key % 3).for_each(|_| charge(&store, &counter, key, NOW));
        }
        let report = store.snapshot(directory.file(), NOW).unwrap();
        assert_eq!((report.entries, report.written_at), (KEYS, NOW));
        let again = MemoryStore::restore(directory.file(), MEMORY_MAX, NOW);
        assert_eq!(
            again.status,
            RestoreStatus::Restored {
                restored: KEYS,
                evicted: 0,
                expired: 0,
                written_at: NOW,
                moved_back: Nanos::ZERO
            }
        );
        for key in 0..KEYS {
            assert_eq!(units_used(&again.store, &counter, key, NOW), 1 + key % 3, "key {key} of {limit}");
        }
        assert_eq!(again.store.stats().live_evictions, 0);
        // The restored store is written again, under the same seed.
        assert_eq!(again.store.snapshot(directory.file(), NOW).unwrap().entries, KEYS);
        let third = restored(&directory.file(), NOW);
        assert!((0..KEYS).all(|key| units_used(&third, &counter, key, NOW) == 1 + key % 3));
    }
}

/// A holder keeps its lease: its token is valid in the restored store, and its fencing token is lower than all later
/// ones.
#[test]
fn leases_and_their_tokens_are_restored() {
    const LEASES: u64 = 5_000;
    let (directory, counter) =
        (TestDirectory::new(), counter("{algorithm: concurrency, limit: 5000, ttl: 1h}"));
    let store = MemoryStore::bounded(MEMORY_MAX);
    let mut plan = Plan::new();
    plan.add(Charge::new(b"key", &counter, 1)).unwrap();
    // More than a block holds, all within a microsecond.
    let leases: Vec<_> =
        (0..LEASES).map(|_| store.acquire(&plan, NOW, None).1.into_lease().unwrap()).collect();
    assert_eq!(store.snapshot(directory.file(), NOW).unwrap().entries, 1);
    let again = restored(&directory.file(), NOW);
    assert_eq!(again.acquire(&plan, NOW, None).1, LeaseReply::None, "all are held");
    for lease in &leases {
        assert_eq!(again.release(&plan, &lease.token, NOW), Release::Released);
    }
    assert_eq!(again.release(&plan, &leases[0].token, NOW), Release::AlreadyReleased);
    assert_eq!(MemoryStore::bounded(MEMORY_MAX).release(&plan, &leases[0].token, NOW), Release::WrongOwner);
    let next = again.acquire(&plan, NOW, None).1.into_lease().unwrap();
    assert_eq!(next.fence.get(), NOW.as_nanos() / 1_000 + LEASES);
}

/// Also the fencing tokens of leases that are in no snapshot any more, and with a clock that was set back meanwhile.
#[test]
fn fences_do_not_go_back() {
    const LEASES: u64 = 5_000;
    let (directory, counter) =
        (TestDirectory::new(), counter("{algorithm: concurrency, limit: 5000, ttl: 1s}"));
    let later = |millis: u64| Timestamp::from_nanos(NOW.as_nanos() + millis * 1_000_000);
    let earlier = Timestamp::from_nanos(NOW.as_nanos() - 500_000_000);
    let mut plan = Plan::new();
    plan.add(Charge::new(b"key", &counter, 1)).unwrap();
    // The leases end or are released before the snapshot, or not, and they end before the restore, or not.
    for (ended, written, restored_at) in
        [(false, 0, 0), (true, 1, 0), (true, 6, 0), (false, 2_000, 0), (false, 0, 2_000)]
    {
        let store = MemoryStore::bounded(MEMORY_MAX);
        // More than there are microseconds.
        let leases: Vec<_> =
            (0..LEASES).map(|_| store.acquire(&plan, NOW, None).1.into_lease().unwrap()).collect();
        if ended {
            leases
                .iter()
                .for_each(|lease| assert_eq!(store.release(&plan, &lease.token, NOW), Release::Released));
        }
        store.snapshot(directory.file(), later(written)).unwrap();
        let again = restored(&directory.file(), later(restored_at));
        let case = (ended, written, restored_at);
        if let LeaseReply::Held(next) = again.acquire(&plan, earlier, None).1 {
            assert!(next.fence > leases[leases.len() - 1].fence, "{case:?}: {:?}", next.fence);
        } else {
            assert_eq!(case, (false, 0, 0), "all are held");
        }
    }
}

/// The leases of a key that are too many for the store are evicted, and their fencing tokens are not granted again.
#[test]
fn fences_of_leases_that_are_too_many_do_not_go_back() {
    let (directory, counter) =
        (TestDirectory::new(), counter("{algorithm: concurrency, limit: 100000, ttl: 1h}"));
    let store = MemoryStore::bounded(MEMORY_MAX);
    let mut plan = Plan::new();
    plan.add(Charge::new(b"key", &counter, 1)).unwrap();
    let last =
        (0..100_000).map(|_| store.acquire(&plan, NOW, None).1.into_lease().unwrap().fence).last().unwrap();
    store.snapshot(directory.file(), NOW).unwrap();
    let again = MemoryStore::restore(directory.file(), 1 << 20, NOW).store;
    assert_eq!(again.stats().live_evictions, 1);
    assert!(again.acquire(&plan, NOW, None).1.into_lease().unwrap().fence > last);
}

#[test]
fn a_usage_log_of_many_blocks_is_restored() {
    let (directory, counter) = (TestDirectory::new(), counter(USAGE_LOG));
    let store = MemoryStore::bounded(MEMORY_MAX);
    let at = |step: u64| Timestamp::from_nanos(NOW.as_nanos() + step);
    for step in 0..30_000 {
        charge(&store, &counter, 1, at(step));
        if step % 3_000 == 0 {
            charge(&store, &counter, 1_000 + step, at(step));
        }
    }
    assert_eq!(store.snapshot(directory.file(), at(30_000)).unwrap().entries, 11);
    let again = restored(&directory.file(), at(30_000));
    let day_ns = 86_400_000_000_000;
    for step in [0, 1, 4_093, 4_094, 4_095, 29_999] {
        // A day later, older uses have left the window.
        let then = at(day_ns + step);
        assert_eq!(units_used(&again, &counter, 1, then), 30_000 - 1 - step, "after step {step}");
        assert_eq!(units_used(&store, &counter, 1, then), 30_000 - 1 - step, "after step {step}");
    }
}

#[test]
fn expired_counters_are_neither_written_nor_restored() {
    let directory = TestDirectory::new();
    for text in ["algorithm: fixed_window", "algorithm: sliding_log", "algorithm: gcra"] {
        let limits = ["1s", "1h"].map(|window| counter(&format!("{{{text}, limit: 1, per: {window}}}")));
        let later = |seconds: u64| Timestamp::from_nanos(NOW.as_nanos() + seconds * 1_000_000_000);
        let fill = |store: &MemoryStore| {
            for key in 0..100 {
                limits.iter().for_each(|limit| charge(store, limit, key, NOW));
            }
        };
        let (store, unbounded) = (MemoryStore::bounded(MEMORY_MAX), MemoryStore::unbounded());
        fill(&store);
        fill(&unbounded);

        // Expired when it is written.
        assert_eq!(store.snapshot(directory.file(), later(2)).unwrap().entries, 100, "{text}");
        assert_eq!(unbounded.snapshot(directory.file(), later(2)).unwrap().entries, 200, "{text}");
        // Expired meanwhile.
        assert_eq!(store.snapshot(directory.file(), NOW).unwrap().entries, 200, "{text}");
        let again = MemoryStore::restore(directory.file(), MEMORY_MAX, later(2));
        assert_eq!(
            again.status,
            RestoreStatus::Restored {
                restored: 100,
                evicted: 0,
                expired: 100,
                written_at: NOW,
                moved_back: Nanos::ZERO
            },
            "{text}"
        );
        assert_eq!(again.store.snapshot(directory.file(), NOW).unwrap().entries, 100, "{text}");
    }
}

#[test]
fn a_smaller_store_keeps_its_bound_and_counts_evictions() {
    for limit in [PACKED, USAGE_LOG] {
        let (directory, counter) = (TestDirectory::new(), counter(limit));
        let store = MemoryStore::bounded(MEMORY_MAX);
        (0..100_000).for_each(|key| charge(&store, &counter, key, NOW));
        store.snapshot(directory.file(), NOW).unwrap();
        let memory_max = 1 << 20;
        let again = MemoryStore::restore(directory.file(), memory_max, NOW);
        let restored_count =
            (0..100_000).filter(|key| units_used(&again.store, &counter, *key, NOW) == 1).count() as u64;
        let stats = again.store.stats();
        assert!(stats.bytes_used <= memory_max, "{limit}: {} bytes", stats.bytes_used);
        assert!(restored_count > 1_000, "{limit}: {restored_count} kept");
        assert_eq!(restored_count + stats.live_evictions, 100_000, "{limit}");
        let evicted = stats.live_evictions;
        let expected = RestoreStatus::Restored {
            restored: restored_count,
            evicted,
            expired: 0,
            written_at: NOW,
            moved_back: Nanos::ZERO,
        };
        assert_eq!(again.status, expected, "{limit}");
        let room = format!("there was no room for {evicted} (hint: ");
        assert!(expected.to_string().contains(&room), "{expected}");
    }
}

#[test]
fn a_usage_log_larger_than_the_store_is_evicted() {
    let (directory, counter) = (TestDirectory::new(), counter(USAGE_LOG));
    let store = MemoryStore::bounded(MEMORY_MAX);
    for step in 0..100_000 {
        charge(&store, &counter, 1, Timestamp::from_nanos(NOW.as_nanos() + step));
    }
    charge(&store, &counter, 2, NOW);
    store.snapshot(directory.file(), NOW).unwrap();
    let again = MemoryStore::restore(directory.file(), 1 << 20, NOW);
    assert_eq!(
        again.status,
        RestoreStatus::Restored {
            restored: 1,
            evicted: 1,
            expired: 0,
            written_at: NOW,
            moved_back: Nanos::ZERO
        }
    );
    assert_eq!([1, 2].map(|key| units_used(&again.store, &counter, key, NOW)), [0, 1]);
    assert_eq!(again.store.stats().live_evictions, 1);
    assert!(again.store.stats().bytes_used <= 1 << 20);
}
