//! The guard of a lock over a shared store.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tidegate_core::{Decision, FencingToken, Nanos, Op};

use super::renewal;
use crate::limiter::{Admitted, LimiterCall, LimiterRef};
use crate::memory::{Lease, Release, Renewal};
use crate::store::{LeaseReply, Store};
use crate::{Limiter, Refused, StoreError, Timer, background};

/// A held lock over a shared store. Returned by [`Locks::lock`](super::Locks::lock) and its variants.
///
/// A background task renews the lock every third of its ttl. If renewals fail until the ttl is over, or the store
/// reports that the lease is gone, the lock is [lost](Self::lost). Dropping the guard releases the lock in the
/// background and does not block.
#[must_use = "the lock is released when this is dropped"]
pub struct LockGuard<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    shared: Arc<HeldLock<C, S>>,
    decision: Decision,
    waited: Duration,
}

/// What a guard and its renewal task share.
pub(crate) struct HeldLock<C, S> {
    pub limiter: Arc<Limiter<C, S>>,
    pub key: Box<[u8]>,
    /// How long the lock lasts without renewal.
    pub ttl: Nanos,
    state: Mutex<HeldLockState>,
}

pub(crate) struct HeldLockState {
    pub lease: Lease,
    pub phase: LockPhase,
    /// Wakes the renewal task.
    pub renewal_waker: Option<Waker>,
    /// Wakers of the futures that wait for the lock to be lost.
    lost_wakers: BTreeMap<u64, Waker>,
    /// How many such futures there have been. Numbers the next one.
    lost_waiters_total: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockPhase {
    Held,
    /// The store reported that the lease is gone, or it expired.
    Lost,
    /// The guard released the lock.
    Released,
}

impl<C, S> LockGuard<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    /// Starts the guard of a lease that was just acquired, and its renewal.
    pub(crate) fn start(
        limiter: Arc<Limiter<C, S>>,
        key: Box<[u8]>,
        mut admitted: Admitted<'static, C, S>,
    ) -> Result<Self, Refused> {
        let (decision, waited) = (*admitted.decision(), admitted.waited());
        let Some(lease) = admitted.take_lease() else {
            return Err(Refused::Store(StoreError::Refused("the store granted no lease".into())));
        };
        let ttl = admitted.ttl().unwrap_or(lease.ttl());
        let state = HeldLockState {
            lease,
            phase: LockPhase::Held,
            renewal_waker: None,
            lost_wakers: BTreeMap::new(),
            lost_waiters_total: 0,
        };
        let shared = Arc::new(HeldLock { limiter, key, ttl, state: Mutex::new(state) });
        background::spawn(renewal::renew_while_held(Arc::clone(&shared)));
        Ok(Self { shared, decision, waited })
    }

    /// The decision that admitted the lock.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// How long the caller waited for the lock.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The lease, as last renewed. Its times are by the clock of the [locks](super::Locks).
    pub fn lease(&self) -> Lease {
        self.shared.lock().lease
    }

    /// The fencing token to present to what the lock protects. It is higher than the token of every earlier holder.
    pub fn fencing_token(&self) -> FencingToken {
        self.lease().fence
    }

    /// Whether the lock is still held: it is not lost and has not expired. It may expire a moment later, so what the
    /// lock protects should check the [fencing token](Self::fencing_token).
    pub fn is_held(&self) -> bool {
        let state = self.shared.lock();
        state.phase == LockPhase::Held && self.shared.limiter.clock().now() < state.lease.expires
    }

    /// Waits until the lock is lost, after which another holder may have it. Returns immediately if it is already lost.
    pub async fn lost(&self) {
        let waiter = {
            let mut state = self.shared.lock();
            state.lost_waiters_total += 1;
            LostWaiter { lock: &self.shared, number: state.lost_waiters_total }
        };
        poll_fn(|context| {
            let mut state = self.shared.lock();
            if state.phase == LockPhase::Lost {
                return Poll::Ready(());
            }
            let replaced = state.lost_wakers.insert(waiter.number, context.waker().clone());
            // Drop the old waker without the mutex held: it may own a task that uses this lock.
            drop(state);
            drop(replaced);
            Poll::Pending
        })
        .await;
    }

    /// Renews the lock now, in addition to the background renewals.
    pub async fn renew(&self) -> Result<Renewal, StoreError> {
        Ok(self.shared.renew().await?.into())
    }

    /// Releases the lock, and returns whether it was still held. If the store does not answer, the release is retried
    /// in the background.
    pub async fn release(self) -> Result<Release, StoreError> {
        let token = self.shared.lock().lease.token;
        let release = self.shared.ask(Op::Release { token }).await?;
        self.shared.end(LockPhase::Released);
        Ok(release.into())
    }
}

/// A future that waits for the lock to be lost. Dropping it removes its waker.
struct LostWaiter<'a, C: Timer + 'static, S: Store + 'static> {
    lock: &'a HeldLock<C, S>,
    number: u64,
}

impl<C: Timer + 'static, S: Store + 'static> Drop for LostWaiter<'_, C, S> {
    fn drop(&mut self) {
        let removed = self.lock.lock().lost_wakers.remove(&self.number);
        drop(removed);
    }
}

impl<C: Timer + 'static, S: Store + 'static> HeldLock<C, S> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HeldLockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ask(&self, op: Op) -> LimiterCall<'static, Result<LeaseReply, StoreError>, C, S> {
        LimiterCall::lease(LimiterRef::Owned(Arc::clone(&self.limiter)), &self.key, op)
    }

    /// Renews the lease. If the store reports that it is gone, the lock is lost.
    pub(crate) async fn renew(&self) -> Result<LeaseReply, StoreError> {
        let token = self.lock().lease.token;
        let renewed = self.ask(Op::Renew { token, ttl: Some(self.ttl) }).await?;
        match renewed.into_lease() {
            // Two renewals may be in flight: the later expiry counts.
            Some(lease) => {
                let mut state = self.lock();
                if lease.expires > state.lease.expires {
                    state.lease = lease;
                }
            }
            None => self.end(LockPhase::Lost),
        }
        Ok(renewed)
    }

    /// Ends a held lock, and wakes the futures that wait for that.
    pub(crate) fn end(&self, phase: LockPhase) {
        let (renewal, lost_wakers) = {
            let mut state = self.lock();
            if state.phase != LockPhase::Held {
                return;
            }
            state.phase = phase;
            (state.renewal_waker.take(), std::mem::take(&mut state.lost_wakers))
        };
        // Wake without the mutex held: a waker may run its task immediately.
        let lost_wakers = lost_wakers.into_values().filter(|_| phase == LockPhase::Lost);
        renewal.into_iter().chain(lost_wakers).for_each(Waker::wake);
    }
}

impl<C, S> Drop for LockGuard<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    fn drop(&mut self) {
        if self.shared.lock().phase == LockPhase::Held {
            self.shared.end(LockPhase::Released);
            let token = self.shared.lock().lease.token;
            // The release starts on this thread and continues in the background.
            let release = self.shared.ask(Op::Release { token });
            background::spawn(renewal::release_with_retry(Arc::clone(&self.shared), release));
        }
    }
}

impl<C, S> fmt::Debug for LockGuard<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("LockGuard").field("phase", &state.phase).field("lease", &state.lease).finish()
    }
}
