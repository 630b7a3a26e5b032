//! Refunds the parts of a plan that was not admitted as a whole, and releases leases whose caller is gone.
//!
//! A refund is retried until Redis has it or it is too late to matter. If its effect is unknown, it is not
//! retried: a refund made twice would admit requests over the limit, while a lost refund is free again when
//! its window ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::Op;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::batcher::{PlanFailure, PossibleEffect};
use super::deny_cache::{DenialCaching, ReplyTime, StatesBefore};
use super::plan::RedisPlan;
use super::script::KeyStates;
use super::store::{PlanBudget, RedisInner};
use super::topology::KeyLocation;
use crate::StoreError;

/// How long a refund is retried.
const RETRY_FOR: Duration = Duration::from_secs(10);
/// The pause after a failed attempt at most: Redis is down or overloaded. It doubles each time. The second
/// half of it is random, because all operations that failed together wait together.
const FIRST_PAUSE_MAX: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_millis(1_600);
/// Refunds that run at a time. More are given up.
const PENDING_MAX: usize = 8_192;

/// The refunds that are running or may become necessary.
#[derive(Default)]
pub(super) struct PendingRefunds {
    /// Refunds that are running.
    running: AtomicUsize,
    /// Those, and plans for which it is not known yet whether a refund is necessary.
    guards: AtomicUsize,
    /// Notified when there are none left.
    idle: Notify,
}

/// Counts as outstanding until it is dropped: a refund that runs or may become necessary.
pub(super) struct RefundGuard(Arc<RedisInner>);

/// Counts as a running refund until it is dropped.
struct RefundPermit<'a>(&'a PendingRefunds);

impl PendingRefunds {
    /// The number of outstanding refunds.
    pub(super) fn outstanding(&self) -> usize {
        self.guards.load(Ordering::SeqCst)
    }

    /// Waits until no refund is outstanding.
    pub(super) async fn wait_idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.outstanding() == 0 {
                return;
            }
            idle.await;
        }
    }

    fn acquire_permit(&self) -> Option<RefundPermit<'_>> {
        let permit = RefundPermit(self);
        (self.running.fetch_add(1, Ordering::Relaxed) < PENDING_MAX).then_some(permit)
    }
}

impl RefundGuard {
    pub(super) fn new(inner: &Arc<RedisInner>) -> Self {
        inner.refunds.guards.fetch_add(1, Ordering::SeqCst);
        Self(inner.clone())
    }

    pub(super) fn store(&self) -> &Arc<RedisInner> {
        &self.0
    }
}

impl Drop for RefundGuard {
    fn drop(&mut self) {
        let refunds = &self.0.refunds;
        if refunds.guards.fetch_sub(1, Ordering::SeqCst) == 1 {
            refunds.idle.notify_waiters();
        }
    }
}

impl Drop for RefundPermit<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A part of a plan to refund.
pub(super) struct PartRefund {
    pub location: KeyLocation,
    /// A refund, or a release if the part holds a lease.
    pub plan: RedisPlan,
    /// The states before the part was charged, if the deny cache can use them.
    pub before: Option<(KeyStates, ReplyTime)>,
}

/// Starts the refund of a part.
pub(super) fn spawn_refund(inner: &Arc<RedisInner>, refund: PartRefund) -> JoinHandle<()> {
    let guard = RefundGuard::new(inner);
    inner.runtime.spawn(async move {
        refund_with_retries(&guard.0, refund).await;
    })
}

async fn refund_with_retries(inner: &RedisInner, refund: PartRefund) {
    let PartRefund { mut location, plan, before } = refund;
    let counters = &inner.context.counters;
    counters.split_refunds.add(1);
    let Some(_permit) = inner.refunds.acquire_permit() else { return counters.split_refunds_lost.add(1) };
    let until = Instant::now() + RETRY_FOR;
    let mut pause = FIRST_PAUSE_MAX;
    loop {
        let budget = PlanBudget { deadline: until, denial_caching: DenialCaching::Disabled };
        let result = inner.enqueue(location, plan.clone(), budget).await;
        match result {
            Ok(Ok(timed)) => {
                if let Some((states, reply_time)) = &before {
                    let before = StatesBefore { states, reply_time: *reply_time };
                    inner.context.deny_cache.restore(&plan.charges, before, timed.time.server_time);
                }
                return;
            }
            Ok(Err(failure)) if is_retryable(&plan, &failure) && Instant::now() < until => {
                sleep_until(until.min(Instant::now() + jittered(pause, inner.random_u64()))).await;
                pause = PAUSE_MAX.min(pause * 2);
                location = inner.relocate(location, &plan);
            }
            _ => return counters.split_refunds_lost.add(1),
        }
    }
}

fn is_retryable(plan: &RedisPlan, failure: &PlanFailure) -> bool {
    // A release is idempotent.
    let is_safe = failure.effect == PossibleEffect::None || matches!(plan.op, Op::Release { .. });
    is_safe && !matches!(failure.error, StoreError::Unreadable(_) | StoreError::RuntimeGone)
}

/// A random duration between half of a pause and all of it.
fn jittered(pause: Duration, random: u64) -> Duration {
    let half_us = u64::try_from(pause.as_micros() / 2).unwrap_or(u64::MAX);
    pause / 2 + Duration::from_micros(random % half_us.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::{FIRST_PAUSE_MAX, jittered};

    #[test]
    fn jittered_pauses_stay_between_half_and_all() {
        let pauses: Vec<_> = (0..1_000).map(|random| jittered(FIRST_PAUSE_MAX, random * 7_919)).collect();
        assert!(pauses.iter().all(|pause| (FIRST_PAUSE_MAX / 2..=FIRST_PAUSE_MAX).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause < FIRST_PAUSE_MAX * 6 / 10));
        assert!(pauses.iter().any(|pause| *pause > FIRST_PAUSE_MAX * 9 / 10));
    }
}
