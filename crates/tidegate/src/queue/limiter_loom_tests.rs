//! A limiter with waiting requests under loom: in every interleaving, a request that can be admitted wakes. A lost wake
//! is a deadlock, which fails the test.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p tidegate --features rules --lib --target-dir target/loom -- loom_tests`

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use loom::thread;

use crate::sync::check_interleavings;
use crate::{Clock as _, Limiter, ManualClock, MemoryStore};

/// Two units. The tests take both, and they are free again after a second.
const TWO_PER_SECOND: &str = "{algorithm: fixed_window, limit: 2, per: 1s}";

fn limiter(limit: &str, clock: &ManualClock) -> Arc<Limiter<ManualClock>> {
    let builder = Limiter::builder().limit(limit).store(Arc::new(MemoryStore::tiny())).clock(clock.clone());
    Arc::new(builder.build().unwrap())
}

#[test]
fn no_wake_up_is_lost_while_the_clock_moves() {
    check_interleavings(3, || {
        let clock = ManualClock::default();
        let limiter = limiter(TWO_PER_SECOND, &clock);
        assert!(limiter.check("key", 2).is_allowed());
        let waits = || {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.acquire_blocking("key", 1).is_ok())
        };
        let (one, other) = (waits(), waits());
        clock.advance(Duration::from_secs(1));
        assert!(one.join().unwrap());
        assert!(other.join().unwrap());
    });
}

#[test]
fn a_release_while_a_request_enters_the_queue_wakes_it() {
    check_interleavings(3, || {
        let limiter = limiter("{algorithm: concurrency, limit: 1, ttl: 1h}", &ManualClock::default());
        let (_, lease) = limiter.lease("key", 1, None);
        let waiter = thread::spawn({
            let limiter = limiter.clone();
            move || limiter.acquire_blocking("key", 1).is_ok()
        });
        let _ = limiter.release("key", &lease.unwrap().token);
        assert!(waiter.join().unwrap());
    });
}

/// Refunded units, unlike a lease, are read without a lock, so only the queue's count of wakes prevents a lost wake.
#[test]
fn a_refund_while_a_request_enters_the_queue_wakes_it() {
    check_interleavings(3, || {
        let limiter = limiter(TWO_PER_SECOND, &ManualClock::default());
        assert!(limiter.check("key", 2).is_allowed());
        let refund = thread::spawn({
            let limiter = limiter.clone();
            move || limiter.refund_at("key", 2, limiter.clock().now())
        });
        assert!(limiter.acquire_blocking("key", 1).is_ok());
        refund.join().unwrap();
    });
}

#[test]
fn a_dropped_head_of_a_limiter_wakes_the_next_waiter() {
    check_interleavings(3, || {
        let clock = ManualClock::default();
        let limiter = limiter(TWO_PER_SECOND, &clock);
        assert!(limiter.check("key", 2).is_allowed());
        let waiter = {
            let mut front = pin!(limiter.acquire("key", 1));
            assert!(front.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let waiter = thread::spawn({
                let limiter = limiter.clone();
                move || limiter.acquire_blocking("key", 2).is_ok()
            });
            clock.advance(Duration::from_secs(1));
            waiter
        };
        assert!(waiter.join().unwrap());
    });
}
