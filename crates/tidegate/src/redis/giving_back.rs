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

use super::deny_cache::{Before, Denials, SeenAt};
use super::desk::{Effect, Unanswered};
use super::order::Order;
use super::script::States;
use super::servers::Place;
use super::store::{Inner, Patience};
use crate::StoreFailure;

/// For how long it is tried.
const TRIED_FOR: Duration = Duration::from_secs(10);
/// How long after a try that failed the next one is at most: Redis is away or has too much to do. It doubles each time, and
/// half of it is drawn, for all that was refused with it waits too.
const FIRST_PAUSE_MAX: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_millis(1_600);
/// How many parts are on their way back at a time. More are given up.
const PENDING_MAX: usize = 8_192;

/// What is on its way back.
#[derive(Default)]
pub(super) struct GivingBack {
    /// Parts that are.
    pending: AtomicUsize,
    /// Those, and plans of which it is not known yet whether something is to be given back.
    under_way: AtomicUsize,
    /// When none is any more.
    none_under_way: Notify,
}

/// Something that is to be given back, or may be, for as long as that is so.
pub(super) struct UnderWay(Arc<Inner>);

/// A part that is on its way back, for as long as it is.
struct Pending<'a>(&'a GivingBack);

impl GivingBack {
    /// How many are under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }

    /// Comes to an end when nothing is under way.
    pub(super) async fn done(&self) {
        loop {
            let none_under_way = self.none_under_way.notified();
            if self.under_way() == 0 {
                return;
            }
            none_under_way.await;
        }
    }

    fn begin(&self) -> Option<Pending<'_>> {
        let pending = Pending(self);
        (self.pending.fetch_add(1, Ordering::Relaxed) < PENDING_MAX).then_some(pending)
    }
}

impl UnderWay {
    pub(super) fn begin(inner: &Arc<Inner>) -> Self {
        inner.giving_back.under_way.fetch_add(1, Ordering::SeqCst);
        Self(inner.clone())
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let giving_back = &self.0.giving_back;
        if giving_back.under_way.fetch_sub(1, Ordering::SeqCst) == 1 {
            giving_back.none_under_way.notify_waiters();
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A part of a plan on its way back.
pub(super) struct GivenBack {
    pub place: Place,
    /// A refund, or a release if it holds a lease.
    pub order: Order,
    /// What was seen before it was charged, if that says something about denials to come.
    pub before: Option<(States, SeenAt)>,
}

/// Gives a part back.
pub(super) fn give_back(inner: &Arc<Inner>, part: GivenBack) -> JoinHandle<()> {
    let under_way = UnderWay::begin(inner);
    inner.runtime.spawn(async move {
        try_to_give_back(&under_way.0, part).await;
    })
}

async fn try_to_give_back(inner: &Inner, part: GivenBack) {
    let GivenBack { mut place, order, before } = part;
    let counters = &inner.office.counters;
    counters.split_refunds.add(1);
    let Some(_pending) = inner.giving_back.begin() else { return counters.split_refunds_lost.add(1) };
    let until = Instant::now() + TRIED_FOR;
    let mut pause = FIRST_PAUSE_MAX;
    loop {
        let patience = Patience { deadline: until, denials: Denials::NotKept };
        let answer = inner.put(place, order.clone(), patience).await;
        match answer {
            Ok(Ok(answered)) => {
                if let Some((states, seen)) = &before {
                    let before = Before { states, seen: *seen };
                    inner.office.deny_cache.restore(&order.charges, before, answered.when.at);
                }
                return;
            }
            Ok(Err(unanswered)) if may_try_again(&order, &unanswered) && Instant::now() < until => {
                sleep_until(until.min(Instant::now() + drawn(pause, inner.random()))).await;
                pause = PAUSE_MAX.min(pause * 2);
                place = inner.place_again(place, &order);
            }
            _ => return counters.split_refunds_lost.add(1),
        }
    }
}

fn may_try_again(order: &Order, unanswered: &Unanswered) -> bool {
    // A lease is released once however often that is said.
    let is_safe = unanswered.effect == Effect::Nothing || matches!(order.op, Op::Release { .. });
    is_safe && !matches!(unanswered.why, StoreFailure::Unreadable(_) | StoreFailure::RuntimeGone)
}

/// Between half of a pause and all of it.
fn drawn(pause: Duration, random: u64) -> Duration {
    let half_us = u64::try_from(pause.as_micros() / 2).unwrap_or(u64::MAX);
    pause / 2 + Duration::from_micros(random % half_us.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::{FIRST_PAUSE_MAX, drawn};

    #[test]
    fn pauses_differ_and_stay_between_half_and_all() {
        let pauses: Vec<_> = (0..1_000).map(|random| drawn(FIRST_PAUSE_MAX, random * 7_919)).collect();
        assert!(pauses.iter().all(|pause| (FIRST_PAUSE_MAX / 2..=FIRST_PAUSE_MAX).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause < FIRST_PAUSE_MAX * 6 / 10));
        assert!(pauses.iter().any(|pause| *pause > FIRST_PAUSE_MAX * 9 / 10));
    }
}
