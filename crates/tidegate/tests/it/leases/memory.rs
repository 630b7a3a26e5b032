//! Leases in bounded memory, and many of them.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{FencingToken, Limiter, ManualClock, MemoryStore, Release, Timestamp};

const MEMORY_MAX: u64 = 1 << 20;

fn limiter(limit: &str) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_nanos(1_700_000_000_000_000_000));
    let store = Arc::new(MemoryStore::bounded(MEMORY_MAX));
    (Limiter::builder().limit(limit).store(store).clock(clock.clone()).build().unwrap(), clock)
}

#[test]
fn many_keys_stay_within_the_bound_and_evictions_are_counted() {
    let (limiter, _) = limiter("{algorithm: concurrency, limit: 2, ttl: 1h}");
    for key in 0..50_000_u64 {
        assert!(limiter.lease(key.to_le_bytes(), 1, None).1.is_some());
        assert!(limiter.stats().bytes_used <= MEMORY_MAX, "{key}: {:?}", limiter.stats());
    }
    assert!(limiter.stats().live_evictions > 0);
}

#[test]
fn expired_leases_free_memory() {
    let (limiter, clock) = limiter("{algorithm: concurrency, limit: 2, ttl: 1s}");
    for key in 0..100_000_u64 {
        assert!(limiter.lease(key.to_le_bytes(), 1, None).1.is_some());
        // About a thousand are live at any time.
        clock.advance(Duration::from_millis(1));
    }
    let stats = limiter.stats();
    assert_eq!(stats.live_evictions, 0, "{stats:?}");
    assert!(stats.bytes_used <= MEMORY_MAX, "{stats:?}");
}

#[test]
fn released_leases_free_memory() {
    let (limiter, clock) = limiter("{algorithm: concurrency, limit: 2, ttl: 1h}");
    for key in 0..100_000_u64 {
        let admitted = limiter.try_acquire(key.to_le_bytes(), 2).unwrap();
        clock.advance(Duration::from_micros(10));
        assert_eq!(admitted.release(), Release::Released);
    }
    assert_eq!(limiter.stats().live_evictions, 0);
}

/// A key whose state was evicted or reset grants higher fencing tokens than before, even in the same microsecond.
#[test]
fn fencing_tokens_grow_after_an_eviction() {
    let (limiter, clock) = limiter("{algorithm: concurrency, limit: 1, ttl: 1h}");
    let mut last = FencingToken::default();
    let mut flood = 0_u64;
    for round in 0..20 {
        // Several in one microsecond, so that fencing tokens are ahead of the time.
        for _ in 0..5 {
            let admitted = limiter.try_acquire("key", 1).unwrap();
            assert!(
                admitted.fencing_token() > last,
                "round {round}: {} after {last}",
                admitted.fencing_token()
            );
            last = admitted.fencing_token();
        }
        let lost = limiter.stats().live_evictions + 4_000;
        while limiter.stats().live_evictions < lost {
            flood += 1;
            let _ = limiter.lease(flood.to_le_bytes(), 1, None);
        }
        if round % 2 == 1 {
            clock.advance(Duration::from_nanos(900));
        }
    }
}

#[test]
fn an_idle_key_issues_higher_fencing_tokens() {
    let (limiter, clock) = limiter("{algorithm: concurrency, limit: 1, ttl: 1ms}");
    let mut last = FencingToken::default();
    for round in 0..2_000_u64 {
        let admitted = limiter.try_acquire("key", 1).unwrap();
        assert!(admitted.fencing_token() > last, "round {round}");
        last = admitted.fencing_token();
        drop(admitted);
        clock.advance(Duration::from_nanos(round * 7 % 3_000));
        // Other keys are added, which sweeps idle ones.
        for other in 3 * round..3 * round + 3 {
            let _ = limiter.lease(other.to_le_bytes(), 1, None);
        }
    }
}

#[test]
fn a_hundred_thousand_leases_of_one_key_come_and_go() {
    const LEASES: u64 = 100_000;
    let clock = ManualClock::at(Timestamp::from_nanos(1_700_000_000_000_000_000));
    let limit = format!("{{algorithm: concurrency, limit: {LEASES}, ttl: 1h}}");
    let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap();
    let mut leases: Vec<_> = (0..LEASES)
        .map(|_| {
            clock.advance(Duration::from_nanos(300));
            limiter.lease("key", 1, None).1.unwrap()
        })
        .collect();
    assert!(limiter.lease("key", 1, None).1.is_none());
    // In random order.
    let mut state = 1_u64;
    for left in (1..=leases.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        #[allow(clippy::cast_possible_truncation, reason = "any number will do")]
        let lease = leases.swap_remove((state >> 33) as usize % left);
        assert_eq!(limiter.release("key", &lease.token), Release::Released);
    }
    assert_eq!(limiter.peek("key", 0).remaining, LEASES);
    assert_eq!(limiter.stats().live_evictions, 0);
}
