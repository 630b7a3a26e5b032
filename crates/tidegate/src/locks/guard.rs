//! A lock of a fleet that is held.

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

/// A lock that is held, over a store that a fleet shares. Made by [`Locks::lock`](super::Locks::lock) and its kind.
///
/// It is renewed in the background, every third of its ttl. If that fails until the ttl is over, or the store says that the
/// lease is gone, the lock is [lost](Self::lost). Dropped, it is released in the background, and dropping does not wait.
#[must_use = "the lock is released when this is dropped"]
pub struct LockGuard<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    held: Arc<HeldLock<C, S>>,
    decision: Decision,
    waited: Duration,
}

/// What a guard and its renewal share.
pub(super) struct HeldLock<C, S> {
    pub limiter: Arc<Limiter<C, S>>,
    pub key: Box<[u8]>,
    /// How long it lasts without renewal.
    pub ttl: Nanos,
    state: Mutex<HeldLockState>,
}

pub(super) struct HeldLockState {
    pub lease: Lease,
    pub phase: LockPhase,
    /// Wakes the renewal.
    pub renewal_waker: Option<Waker>,
    /// Those that wait for the lock to be lost.
    lost_wakers: BTreeMap<u64, Waker>,
    /// How many futures have waited for that.
    lost_waiters_total: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockPhase {
    Held,
    /// The store says that the lease is gone, or its time is over.
    Lost,
    /// The guard gave it back.
    Released,
}

impl<C, S> LockGuard<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    /// A guard of what was just acquired, which is renewed from now on.
    pub(super) fn start(
        limiter: Arc<Limiter<C, S>>,
        key: Box<[u8]>,
        mut admitted: Admitted<'static, C, S>,
    ) -> Result<Self, Refused> {
        let (decision, waited) = (*admitted.decision(), admitted.waited());
        let Some(lease) = admitted.take_lease() else {
            return Err(Refused::Store(StoreError::Refused("it gave no lease".into())));
        };
        let ttl = admitted.ttl().unwrap_or(lease.ttl());
        let state =
            HeldLockState { lease, phase: LockPhase::Held, renewal_waker: None, lost_wakers: BTreeMap::new(), lost_waiters_total: 0 };
        let hold = Arc::new(HeldLock { limiter, key, ttl, state: Mutex::new(state) });
        background::spawn(renewal::renew_while_held(Arc::clone(&hold)));
        Ok(Self { held: hold, decision, waited })
    }

    /// What the limit said when it was locked.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// How long it waited for the lock.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The lease, as it was last renewed. Its times are by the clock of the [locks](super::Locks).
    pub fn lease(&self) -> Lease {
        self.held.lock().lease
    }

    /// The fencing token: the number to show to what the lock protects. It is higher than that of every holder before.
    pub fn fencing_token(&self) -> FencingToken {
        self.lease().fence
    }

    /// Whether the lock is still held: it is not lost, and its time is not over. It may be over a moment later, so what the lock
    /// protects should look at the [fence](Self::fence).
    pub fn is_held(&self) -> bool {
        let state = self.held.lock();
        state.phase == LockPhase::Held && self.held.limiter.clock().now() < state.lease.expires
    }

    /// Waits until the lock is lost: another holder may have it by then. Is over at once if it is lost already.
    pub async fn lost(&self) {
        let call = {
            let mut state = self.held.lock();
            state.lost_waiters_total += 1;
            LostWaiter { hold: &self.held, number: state.lost_waiters_total }
        };
        poll_fn(|context| {
            let mut state = self.held.lock();
            if state.phase == LockPhase::Lost {
                return Poll::Ready(());
            }
            let replaced = state.lost_wakers.insert(call.number, context.waker().clone());
            // A waker may own a task that uses the lock, so it is dropped when nothing is locked.
            drop(state);
            drop(replaced);
            Poll::Pending
        })
        .await;
    }

    /// Renews the lock now. It is renewed in the background anyway.
    pub async fn renew(&self) -> Result<Renewal, StoreError> {
        Ok(self.held.renew().await?.into())
    }

    /// Releases the lock and says whether it was still held. If the store does not answer, it is tried again in the background.
    pub async fn release(self) -> Result<Release, StoreError> {
        let token = self.held.lock().lease.token;
        let release = self.held.ask(Op::Release { token }).await?;
        self.held.end(LockPhase::Released);
        Ok(release.into())
    }
}

/// A future that waits for the lock to be lost. Dropped, it is not woken any more.
struct LostWaiter<'a, C: Timer + 'static, S: Store + 'static> {
    hold: &'a HeldLock<C, S>,
    number: u64,
}

impl<C: Timer + 'static, S: Store + 'static> Drop for LostWaiter<'_, C, S> {
    fn drop(&mut self) {
        let removed = self.hold.lock().lost_wakers.remove(&self.number);
        drop(removed);
    }
}

impl<C: Timer + 'static, S: Store + 'static> HeldLock<C, S> {
    pub(super) fn lock(&self) -> MutexGuard<'_, HeldLockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ask(&self, op: Op) -> LimiterCall<'static, Result<LeaseReply, StoreError>, C, S> {
        LimiterCall::lease(LimiterRef::Owned(Arc::clone(&self.limiter)), &self.key, op)
    }

    /// Renews the lease. One that is gone is lost.
    pub(super) async fn renew(&self) -> Result<LeaseReply, StoreError> {
        let token = self.lock().lease.token;
        let renewed = self.ask(Op::Renew { token, ttl: Some(self.ttl) }).await?;
        match renewed.into_lease() {
            // Two renewals may be under way: the later one counts.
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

    /// Ends a lock that is held, and wakes those that wait for that.
    pub(super) fn end(&self, phase: LockPhase) {
        let (renewal, losers) = {
            let mut state = self.lock();
            if state.phase != LockPhase::Held {
                return;
            }
            state.phase = phase;
            (state.renewal_waker.take(), std::mem::take(&mut state.lost_wakers))
        };
        // Without the lock: a waker may run its task at once.
        let losers = losers.into_values().filter(|_| phase == LockPhase::Lost);
        renewal.into_iter().chain(losers).for_each(Waker::wake);
    }
}

impl<C, S> Drop for LockGuard<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    fn drop(&mut self) {
        if self.held.lock().phase == LockPhase::Held {
            self.held.end(LockPhase::Released);
            let token = self.held.lock().lease.token;
            // It starts here, on whatever thread this is, and goes on in the background.
            let asking = self.held.ask(Op::Release { token });
            background::spawn(renewal::release_with_retry(Arc::clone(&self.held), asking));
        }
    }
}

impl<C, S> fmt::Debug for LockGuard<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.held.lock();
        f.debug_struct("LockGuard").field("phase", &state.phase).field("lease", &state.lease).finish()
    }
}
