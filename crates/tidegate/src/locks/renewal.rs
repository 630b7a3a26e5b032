//! What happens to a lock of a fleet in the background: it is renewed while it is held, and released afterwards.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use tidegate_core::{Nanos, Op, Timestamp};

use super::guard::{HeldLock, LockPhase};
use crate::limiter::LimiterCall;
use crate::store::{LeaseReply, Store};
use crate::{StoreError, Timer};

/// A lock is renewed this often in its ttl, so that two renewals in a row may fail.
const RENEWALS_PER_TTL: u128 = 3;
/// A renewal that failed is tried again this often in a ttl.
const RETRIES_PER_TTL: u128 = 12;
/// How long after a release that failed it is tried again.
const RELEASE_RETRY_AFTER: Nanos = Nanos::new(200_000_000);

/// Renews a lock until it is released or lost.
pub(super) async fn renew_while_held<C: Timer + 'static, S: Store + 'static>(hold: Arc<HeldLock<C, S>>) {
    let (renew_every, retry_every) = (fraction(hold.ttl, RENEWALS_PER_TTL), fraction(hold.ttl, RETRIES_PER_TTL));
    let mut next = hold.lock().lease.since.saturating_add(renew_every);
    while hold.sleep_while_held(next).await {
        next = match hold.renew_before_expiry().await {
            Some(Ok(LeaseReply::Held(lease))) => lease.since.saturating_add(renew_every),
            Some(Ok(_)) => return,
            Some(Err(_)) if hold.limiter.clock().now() < hold.lock().lease.expires => {
                let (now, expires) = (hold.limiter.clock().now(), hold.lock().lease.expires);
                now.saturating_add(retry_every).min(expires)
            }
            Some(Err(_)) | None => {
                hold.end(LockPhase::Lost);
                // A renewal may reach the store late. Then the lock is not held for another ttl.
                let token = hold.lock().lease.token;
                drop(hold.ask(Op::Release { token }));
                return;
            }
        };
    }
}

/// Waits for a release, and asks again until the store has it or the lease is over anyway.
pub(super) async fn release_with_retry<C: Timer + 'static, S: Store + 'static>(
    hold: Arc<HeldLock<C, S>>,
    mut asking: LimiterCall<'static, Result<LeaseReply, StoreError>, C, S>,
) {
    loop {
        match asking.await {
            Ok(_) | Err(StoreError::RuntimeGone) => return,
            Err(_) => {
                let clock = hold.limiter.clock();
                let lease = hold.lock().lease;
                if clock.now() >= lease.expires {
                    return;
                }
                clock.sleep_until(clock.now().saturating_add(RELEASE_RETRY_AFTER)).await;
                asking = hold.ask(Op::Release { token: lease.token });
            }
        }
    }
}

impl<C: Timer + 'static, S: Store + 'static> HeldLock<C, S> {
    /// Renews the lease; none if the store does not answer before the lease is over.
    async fn renew_before_expiry(&self) -> Option<Result<LeaseReply, StoreError>> {
        let mut end = self.limiter.clock().sleep_until(self.lock().lease.expires);
        let mut renewing = pin!(self.renew());
        poll_fn(|context| match renewing.as_mut().poll(context) {
            Poll::Ready(renewed) => Poll::Ready(Some(renewed)),
            Poll::Pending => Pin::new(&mut end).poll(context).map(|()| None),
        })
        .await
    }

    /// Sleeps until an instant, and says whether the lock is held then. Is over earlier if it is not.
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
