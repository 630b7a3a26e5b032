//! The background tasks of a lock over a shared store: renewal while it is held, and its release.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use tidegate_core::{Nanos, Op, Timestamp};

use super::guard::{HeldLock, LockPhase};
use crate::limiter::LimiterCall;
use crate::store::{LeaseReply, Store};
use crate::{StoreError, Timer};

/// How often a lock is renewed per ttl, so that two renewals in a row may fail.
const RENEWALS_PER_TTL: u128 = 3;
/// How often a failed renewal is retried per ttl.
const RETRIES_PER_TTL: u128 = 12;
/// How long after a failed release it is retried.
const RELEASE_RETRY_AFTER: Nanos = Nanos::new(200_000_000);

/// Renews a lock until it is released or lost.
pub(crate) async fn renew_while_held<C: Timer + 'static, S: Store + 'static>(lock: Arc<HeldLock<C, S>>) {
    let (renew_every, retry_every) =
        (fraction(lock.ttl, RENEWALS_PER_TTL), fraction(lock.ttl, RETRIES_PER_TTL));
    let mut next = lock.lock().lease.since.saturating_add(renew_every);
    while lock.sleep_while_held(next).await {
        next = match lock.renew_before_expiry().await {
            Some(Ok(LeaseReply::Held(lease))) => lease.since.saturating_add(renew_every),
            Some(Ok(_)) => return,
            Some(Err(_)) if lock.limiter.clock().now() < lock.lock().lease.expires => {
                let (now, expires) = (lock.limiter.clock().now(), lock.lock().lease.expires);
                now.saturating_add(retry_every).min(expires)
            }
            Some(Err(_)) | None => {
                lock.end(LockPhase::Lost);
                // A renewal may still reach the store late. Release it, so that the lock is not held for another ttl.
                let token = lock.lock().lease.token;
                drop(lock.ask(Op::Release { token }));
                return;
            }
        };
    }
}

/// Waits for a release, and retries it until the store has answered or the lease has expired.
pub(crate) async fn release_with_retry<C: Timer + 'static, S: Store + 'static>(
    lock: Arc<HeldLock<C, S>>,
    mut release: LimiterCall<'static, Result<LeaseReply, StoreError>, C, S>,
) {
    loop {
        match release.await {
            Ok(_) | Err(StoreError::RuntimeGone) => return,
            Err(_) => {
                let clock = lock.limiter.clock();
                let lease = lock.lock().lease;
                if clock.now() >= lease.expires {
                    return;
                }
                clock.sleep_until(clock.now().saturating_add(RELEASE_RETRY_AFTER)).await;
                release = lock.ask(Op::Release { token: lease.token });
            }
        }
    }
}

impl<C: Timer + 'static, S: Store + 'static> HeldLock<C, S> {
    /// Renews the lease. None if the store does not answer before the lease expires.
    async fn renew_before_expiry(&self) -> Option<Result<LeaseReply, StoreError>> {
        let mut end = self.limiter.clock().sleep_until(self.lock().lease.expires);
        let mut renewing = pin!(self.renew());
        poll_fn(|context| match renewing.as_mut().poll(context) {
            Poll::Ready(renewed) => Poll::Ready(Some(renewed)),
            Poll::Pending => Pin::new(&mut end).poll(context).map(|()| None),
        })
        .await
    }

    /// Sleeps until `at`, or until the lock is no longer held. Returns whether it is still held.
    async fn sleep_while_held(&self, at: Timestamp) -> bool {
        let mut sleep = self.limiter.clock().sleep_until(at);
        poll_fn(|context| {
            {
                let mut state = self.lock();
                if state.phase != LockPhase::Held {
                    return Poll::Ready(false);
                }
                state.renewal_waker = Some(context.waker().clone());
            }
            Pin::new(&mut sleep).poll(context).map(|()| true)
        })
        .await
    }
}

fn fraction(ttl: Nanos, parts: u128) -> Nanos {
    Nanos::new((ttl.get() / parts).max(1))
}
