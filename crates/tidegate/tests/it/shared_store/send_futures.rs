//! Futures of a limiter over a shared store can be sent to other threads.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Limiter, LockGuard, Locks, ManualClock};

use super::TestStore;

fn assert_send<T: Send>(sent: T) -> T {
    sent
}

#[allow(dead_code, reason = "it is enough that it compiles")]
async fn all_calls(
    limiter: Arc<Limiter<ManualClock, TestStore>>,
    locks: Locks<ManualClock, TestStore>,
) -> Option<LockGuard<ManualClock, TestStore>> {
    let _ = assert_send(limiter.check("key", 1)).await;
    let _ = assert_send(limiter.peek(String::from("key"), 1)).await;
    let _ = assert_send(limiter.reset("key")).await;
    let _ = assert_send(limiter.reserve("key", 1)).await;
    let _ = assert_send(limiter.lease("key", 1, None)).await;
    drop(assert_send(limiter.acquire("key", 1)).await);
    drop(assert_send(limiter.acquire_within("key", 1, Duration::ZERO)).await);
    // The future does not borrow the key, and an owned guard does not borrow the limiter.
    let owned = {
        let key = String::from("key");
        assert_send(limiter.try_acquire_owned(&key, 1))
    };
    drop(limiter);
    let guard = owned.await.ok()?;
    let _ = assert_send(guard.release()).await;
    let locking = assert_send(locks.lock("key", Duration::from_secs(1)));
    drop(locks);
    let guard = assert_send(locking.await.ok()?);
    assert_send(guard.lost()).await;
    Some(guard)
}
