//! Giving back what parts of a plan were charged, because the plan as a whole was not admitted, and leases that nobody waits
//! for any more.
//!
//! It is tried until Redis has it or it is too late to matter. It is not tried again if it is not known whether Redis has it
//! already: units that were given back twice would be admitted over the limit, and units that were not are free again with
//! their window.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::Op;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::deny_cache::{StatesBefore, DenialCaching, ReplyTime};
use super::desk::{PossibleEffect, PlanFailure};
use super::plan::RedisPlan;
use super::script::KeyStates;
use super::servers::KeyLocation;
use super::store::{RedisInner, PlanBudget};
use crate::StoreError;

/// For how long it is tried.
const RETRY_FOR: Duration = Duration::from_secs(10);
/// How long after a try that failed the next one is at most: Redis is away or has too much to do. It doubles each time, and
/// half of it is drawn, for all that was refused with it waits too.
const FIRST_PAUSE_MAX: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_millis(1_600);
/// How many parts are on their way back at a time. More are given up.
const PENDING_MAX: usize = 8_192;

/// What is on its way back.
#[derive(Default)]
pub(super) struct PendingRefunds {
    /// Parts that are.
    running: AtomicUsize,
    /// Those, and plans of which it is not known yet whether something is to be given back.
    guards: AtomicUsize,
    /// When none is any more.
    idle: Notify,
}

/// Something that is to be given back, or may be, for as long as that is so.
pub(super) struct RefundGuard(Arc<RedisInner>);

/// A part that is on its way back, for as long as it is.
struct RefundPermit<'a>(&'a PendingRefunds);

impl PendingRefunds {
    /// How many are under way.
    pub(super) fn outstanding(&self) -> usize {
        self.guards.load(Ordering::SeqCst)
    }

    /// Comes to an end when nothing is under way.
    pub(super) async fn wait_idle(&self) {
        loop {
            let none_under_way = self.idle.notified();
            if self.outstanding() == 0 {
                return;
            }
            none_under_way.await;
        }
    }

    fn acquire_permit(&self) -> Option<RefundPermit<'_>> {
        let pending = RefundPermit(self);
        (self.running.fetch_add(1, Ordering::Relaxed) < PENDING_MAX).then_some(pending)
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
        let giving_back = &self.0.refunds;
        if giving_back.guards.fetch_sub(1, Ordering::SeqCst) == 1 {
            giving_back.idle.notify_waiters();
        }
    }
}

impl Drop for RefundPermit<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A part of a plan on its way back.
pub(super) struct PartRefund {
    pub location: KeyLocation,
    /// A refund, or a release if it holds a lease.
    pub plan: RedisPlan,
    /// What was seen before it was charged, if that says something about denials to come.
    pub before: Option<(KeyStates, ReplyTime)>,
}

/// Gives a part back.
pub(super) fn spawn_refund(inner: &Arc<RedisInner>, part: PartRefund) -> JoinHandle<()> {
    let under_way = RefundGuard::new(inner);
    inner.runtime.spawn(async move {
        refund_with_retries(&under_way.0, part).await;
    })
}

async fn refund_with_retries(inner: &RedisInner, part: PartRefund) {
    let PartRefund { location: mut place, plan: order, before } = part;
    let counters = &inner.context.counters;
    counters.split_refunds.add(1);
    let Some(_pending) = inner.refunds.acquire_permit() else { return counters.split_refunds_lost.add(1) };
    let until = Instant::now() + RETRY_FOR;
    let mut pause = FIRST_PAUSE_MAX;
    loop {
        let patience = PlanBudget { deadline: until, denial_caching: DenialCaching::Disabled };
        let answer = inner.enqueue(place, order.clone(), patience).await;
        match answer {
            Ok(Ok(answered)) => {
                if let Some((states, seen)) = &before {
                    let before = StatesBefore { states, reply_time: *seen };
                    inner.context.deny_cache.restore(&order.charges, before, answered.time.server_time);
                }
                return;
            }
            Ok(Err(unanswered)) if is_retryable(&order, &unanswered) && Instant::now() < until => {
                sleep_until(until.min(Instant::now() + jittered(pause, inner.random_u64()))).await;
                pause = PAUSE_MAX.min(pause * 2);
                place = inner.relocate(place, &order);
            }
            _ => return counters.split_refunds_lost.add(1),
        }
    }
}

fn is_retryable(order: &RedisPlan, unanswered: &PlanFailure) -> bool {
    // A lease is released once however often that is said.
    let is_safe = unanswered.effect == PossibleEffect::None || matches!(order.op, Op::Release { .. });
    is_safe && !matches!(unanswered.error, StoreError::Unreadable(_) | StoreError::RuntimeGone)
}

/// Between half of a pause and all of it.
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
