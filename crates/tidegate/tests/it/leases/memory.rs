//! Leases in bounded memory, and many of them.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    FencingToken, Lease, Limiter, ManualClock, MemoryStore, Refused, Release, Renewal, Timestamp,
};

const MEMORY_MAX: u64 = 1 << 20;

fn limiter(limit: &str) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_nanos(1_700_000_000_000_000_000));
    let store = Arc::new(MemoryStore::bounded(MEMORY_MAX));
    (Limiter::builder().limit(limit).store(store).clock(clock.clone()).build().unwrap(), clock)
}

/// Sprays keys until every lease is refused. Returns the leases.
fn spray(limiter: &Limiter<ManualClock>) -> Vec<(u64, Lease)> {
    // Keys are divided among shards, which are not full at the same time.
    const REFUSALS: u32 = 1_000;
    let (mut leases, mut refused) = (Vec::new(), 0);
    for key in 0_u64.. {
        let (decision, lease) = limiter.lease(key.to_le_bytes(), 1, None);
        assert!(limiter.stats().bytes_used <= MEMORY_MAX, "{key}: {:?}", limiter.stats());
        match lease {
            Some(lease) => {
                leases.push((key, lease));
                refused = 0;
            }
            None => {
                assert!(decision.lease_memory_full, "{decision:?}");
                refused += 1;
            }
        }
        if refused == REFUSALS {
            break;
        }
    }
    leases
}

#[test]
fn a_spray_of_keys_does_not_free_a_held_lock() {
    let (limiter, clock) = limiter("{algorithm: concurrency, limit: 1, ttl: 5m}");
    let held = limiter.try_acquire("invoice", 1).unwrap();
    for key in 0..50_000_u64 {
        let _ = limiter.lease(key.to_le_bytes(), 1, None);
        clock.advance(Duration::from_micros(10));
    }
    let stats = limiter.stats();
    assert!(stats.lease_refusals > 10_000 && stats.live_evictions == 0, "{stats:?}");
    assert!(stats.bytes_used <= MEMORY_MAX, "{stats:?}");
    // The lock is still held: its denial is not a refusal.
    let error = limiter.try_acquire("invoice", 1).unwrap_err();
    assert!(matches!(error, Refused::OverLimit(decision) if !decision.lease_memory_full), "{error}");
    assert_eq!(limiter.stats().lease_refusals, stats.lease_refusals);
    assert_eq!(held.release(), Release::Released);
}

#[test]
fn a_lease_without_memory_is_refused_by_every_call() {
    let (limiter, clock) = limiter("{algorithm: concurrency, limit: 2, ttl: 1h}");
    let leases = spray(&limiter);
    assert!(leases.len() > 1_000, "{}", leases.len());
    assert_eq!(limiter.try_acquire("new", 1).unwrap_err(), Refused::LeaseMemoryFull);
    assert_eq!(limiter.reserve("new", 1).unwrap_err(), Refused::LeaseMemoryFull);
    assert_eq!(limiter.acquire_blocking("new", 1).unwrap_err(), Refused::LeaseMemoryFull);
    let (decision, lease) = limiter.lease("new", 1, None);
    assert!(!decision.is_allowed() && decision.lease_memory_full && lease.is_none(), "{decision:?}");
    let decision = limiter.check("new", 1);
    assert!(!decision.is_allowed() && decision.lease_memory_full, "{decision:?}");
    assert_eq!(decision.retry_after_seconds(), Some(1));
    // A lease that is held can be renewed.
    let (key, lease) = &leases[0];
    let Renewal::Renewed(renewed) = limiter.renew(key.to_le_bytes(), &lease.token, None) else {
        panic!("the lease is held")
    };
    assert_eq!(limiter.release(key.to_le_bytes(), &renewed.token), Release::Released);
    // Released leases make room for another. How many it takes depends on how full its shard is.
    let released = leases[1..].iter().take_while(|(key, lease)| {
        assert_eq!(limiter.release(key.to_le_bytes(), &lease.token), Release::Released);
        limiter.try_acquire("new", 1).is_err()
    });
    let released = released.count();
    assert!(released < leases.len() / 4, "{released} of {}", leases.len());
    // All leases expire.
    clock.advance(Duration::from_secs(3_601));
    assert!(spray(&limiter).len() > 1_000);
}

/// All limits of a plan are charged, or none.
#[test]
fn a_refused_lease_charges_no_other_limit() {
    let clock = ManualClock::at(Timestamp::from_nanos(1_700_000_000_000_000_000));
    let store = Arc::new(MemoryStore::bounded(MEMORY_MAX));
    let rates = || {
        Limiter::builder()
            .rule("both")
            .limit("5 per hour")
            .limit("{algorithm: sliding_log, limit: 5, per: 1h, count_denied: true}")
            .store(Arc::clone(&store))
            .clock(clock.clone())
    };
    let both = rates().limit("{algorithm: concurrency, limit: 1, ttl: 1h}").build().unwrap();
    spray(&both);
    for _ in 0..10 {
        assert_eq!(both.try_acquire("user", 1).unwrap_err(), Refused::LeaseMemoryFull);
        assert!(both.check("user", 1).lease_memory_full);
    }
    assert_eq!(rates().build().unwrap().peek("user", 0).remaining, 5);
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

/// A key whose state was dropped or reset grants higher fencing tokens than before, even in the same microsecond.
#[test]
fn fencing_tokens_grow_after_a_state_was_dropped() {
    let (limiter, clock) = limiter("{algorithm: concurrency, limit: 1, ttl: 1h}");
    let mut last = FencingToken::default();
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
        // A full store drops the states of released leases.
        for (key, lease) in spray(&limiter) {
            assert_eq!(limiter.release(key.to_le_bytes(), &lease.token), Release::Released);
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
        clock.advance(Duration::from_nanos(round * 7 % 15_000));
        // Another key is added, which sweeps idle ones.
        let _ = limiter.lease(round.to_le_bytes(), 1, None);
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
