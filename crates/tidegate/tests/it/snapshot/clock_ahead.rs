//! Snapshots that were written by a clock that was ahead, and are restored by one that is right.

use std::time::Duration;

use tidegate::snapshot::RestoreStatus;
use tidegate::store::{Charge, Counter, Plan};
use tidegate::{MemoryStore, Nanos, Release, Timestamp};

use crate::snapshot::{MEMORY_MAX, NOW, TestDirectory, counter};

const THREE_YEARS: Duration = Duration::from_secs(94_608_000);
const MINUTE_NS: u64 = 60_000_000_000;

fn later(by: Duration) -> Timestamp {
    NOW.saturating_add(Nanos::new(by.as_nanos()))
}

/// Uses up a limit at an instant, and restores the store at another.
fn restore_used_up(counter: &Counter, written_at: Timestamp, now: Timestamp) -> (MemoryStore, RestoreStatus) {
    let directory = TestDirectory::new();
    let store = MemoryStore::bounded(MEMORY_MAX);
    while store.check_charge(&Charge::new(b"key", counter, 1), written_at).is_allowed() {}
    store.snapshot(directory.file(), written_at).unwrap();
    let restored = MemoryStore::restore(directory.file(), MEMORY_MAX, now);
    (restored.store, restored.status)
}

#[test]
fn a_restored_counter_holds_no_more_than_its_limit_could() {
    for limit in [
        "{algorithm: gcra, limit: 6, per: 1m}",
        "{algorithm: token_bucket, limit: 6, per: 1m}",
        "{algorithm: leaky_bucket, limit: 6, per: 1m, queue: 5}",
        "{algorithm: fixed_window, limit: 6, per: 1m}",
        "{algorithm: fixed_window, limit: 6, per: 1m, align: first_hit}",
        "{algorithm: sliding_window, limit: 6, per: 1m}",
        "{algorithm: sliding_log, limit: 6, per: 1m}",
        "{algorithm: sub_windows, limit: 6, per: 1m}",
        "{algorithm: concurrency, limit: 6, ttl: 1m}",
    ] {
        let counter = counter(limit);
        let written_at = later(THREE_YEARS + Duration::from_millis(12_345));
        let (store, status) = restore_used_up(&counter, written_at, NOW);
        let ahead = Nanos::new(THREE_YEARS.as_nanos() + 12_345_000_000);
        assert!(
            matches!(status, RestoreStatus::Restored { moved_back, .. } if moved_back == ahead),
            "{status}"
        );
        assert!(status.to_string().contains("94608013 s in the future"), "{status}");
        let decision = store.check_charge(&Charge::new(b"key", &counter, 1), NOW);
        if limit.contains("sub_windows") {
            assert!(decision.is_allowed(), "they are dropped");
            continue;
        }
        if limit.contains("sliding_window") {
            // Its windows are aligned, and the state now belongs to the window that its end falls into.
            assert!(
                decision.reset_after <= Nanos::new(u128::from(3 * MINUTE_NS)),
                "{}",
                decision.reset_after
            );
            continue;
        }
        assert!(!decision.is_allowed(), "{limit}: it is still used up");
        let wait = decision.retry_after.span().unwrap();
        // Instants are moved by a little less.
        let most = Nanos::new(u128::from(MINUTE_NS + 1_000_000));
        assert!(wait <= most, "{limit}: {wait}");
        assert!(decision.reset_after <= most, "{limit}: {}", decision.reset_after);
        let next = store.check_charge(&Charge::new(b"key", &counter, 1), NOW.saturating_add(wait));
        assert!(next.is_allowed() && next.reset_after <= most, "{limit}: {}", next.reset_after);
    }
}

/// A bucket gets back what it had to the nanosecond, but for the half millisecond to which instants are moved.
#[test]
fn a_bucket_waits_as_long_as_when_it_was_written() {
    let counter = counter("{algorithm: gcra, limit: 6, per: 1m}");
    let (store, _) = restore_used_up(&counter, later(THREE_YEARS), NOW);
    let wait = store.check_charge(&Charge::new(b"key", &counter, 1), NOW).retry_after.span().unwrap();
    assert!((10_000_000_000..10_001_000_000).contains(&wait.get()), "{wait}");
}

#[test]
fn a_restored_lease_ends_by_the_new_clock_and_its_token_stays_valid() {
    let directory = TestDirectory::new();
    let counter = counter("{algorithm: concurrency, limit: 1, ttl: 5m}");
    let plan = Plan::of_one(Charge::new(b"lock", &counter, 1));
    let store = MemoryStore::bounded(MEMORY_MAX);
    let held = store.acquire(&plan, later(THREE_YEARS), None).1.into_lease().unwrap();
    store.snapshot(directory.file(), later(THREE_YEARS)).unwrap();
    let store = MemoryStore::restore(directory.file(), MEMORY_MAX, NOW).store;
    assert!(store.acquire(&plan, NOW, None).1.into_lease().is_none(), "it is held");
    assert_eq!(store.release(&plan, &held.token, NOW), Release::Released);
    let next = store.acquire(&plan, NOW, None).1.into_lease().unwrap();
    assert!(next.fence > held.fence);
    assert_eq!(next.ttl(), Nanos::new(u128::from(5 * MINUTE_NS)));
    // Fencing tokens do not go back either when the key was idle for long, and its state was dropped.
    let much_later = later(Duration::from_secs(86_400));
    for number in 0..1_000_u32 {
        let other = number.to_be_bytes();
        assert!(store.check_charge(&Charge::new(&other, &counter, 1), much_later).is_allowed());
    }
    let last = store.acquire(&plan, much_later, None).1.into_lease().unwrap();
    assert!(last.fence > next.fence);
}

/// Windows should end when the clock says so, and a machine that boots may not know the time yet.
#[test]
fn a_clock_that_is_a_little_ahead_or_not_set_moves_nothing() {
    let counter = counter("{algorithm: fixed_window, limit: 6, per: 1m}");
    for (ahead, now) in [
        (Duration::from_secs(59), NOW),
        (Duration::ZERO, later(Duration::from_secs(10))),
        (Duration::ZERO, Timestamp::from_nanos(1_000_000_000)),
    ] {
        let (_, status) = restore_used_up(&counter, later(ahead), now);
        let moved = |moved_back| moved_back == Nanos::ZERO;
        assert!(
            matches!(status, RestoreStatus::Restored { moved_back, .. } if moved(moved_back)),
            "{status}"
        );
    }
}
