//! Futures of a limiter over a shared store go to other threads, wherever the limiter does.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Limiter, LockGuard, Locks, ManualClock};

use super::Store;

fn is_send<T: Send>(sent: T) -> T {
    sent
}

#[allow(dead_code, reason = "it is enough that it compiles")]
async fn all_of_them(
    limiter: Arc<Limiter<ManualClock, Store>>,
    locks: Locks<ManualClock, Store>,
) -> Option<LockGuard<ManualClock, Store>> {
    let _ = is_send(limiter.check("key", 1)).await;
    let _ = is_send(limiter.peek(String::from("key"), 1)).await;
    let _ = is_send(limiter.reset("key")).await;
    let _ = is_send(limiter.reserve("key", 1)).await;
    let _ = is_send(limiter.lease("key", 1, None)).await;
    drop(is_send(limiter.acquire("key", 1)).await);
    drop(is_send(limiter.acquire_within("key", 1, Duration::ZERO)).await);
    // The future does not hold on to the key, and an owned guard not to the limiter.
    let owned = {
        let key = String::from("key");
        is_send(limiter.try_acquire_owned(&key, 1))
    };
    drop(limiter);
    let guard = owned.await.ok()?;
    let _ = is_send(guard.release()).await;
    let locking = is_send(locks.lock("key", Duration::from_secs(1)));
    drop(locks);
    let guard = is_send(locking.await.ok()?);
    is_send(guard.lost()).await;
    Some(guard)
}
