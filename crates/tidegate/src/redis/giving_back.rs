//! Giving back what parts of a plan were charged, because the plan as a whole was not admitted.
//!
//! It is tried until Redis has it or it is too late to matter. It is not tried again if it is not known whether Redis has it
//! already: units that were given back twice would be admitted over the limit, and units that were not are free again with
//! their window.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::deny_cache::{Before, Denials, SeenAt};
use super::desk::{Effect, Unanswered};
use super::order::{Op, Order};
use super::script::States;
use super::servers::Place;
use super::store::{Inner, Patience};
use crate::StoreFailure;

/// For how long it is tried.
const TRIED_FOR: Duration = Duration::from_secs(10);
/// How long after a try that failed the next one is: Redis is away or has too much to do.
const PAUSE: Duration = Duration::from_millis(100);
/// How many parts are on their way back at a time. More are given up.
const PENDING_MAX: usize = 8_192;

/// How many parts are on their way back.
#[derive(Default)]
pub(super) struct GivingBack {
    pending: AtomicUsize,
}

/// One of those that are, for as long as it is.
struct Pending<'a>(&'a GivingBack);

impl GivingBack {
    fn begin(&self) -> Option<Pending<'_>> {
        let pending = Pending(self);
        (self.pending.fetch_add(1, Ordering::Relaxed) < PENDING_MAX).then_some(pending)
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
pub(super) async fn give_back(inner: Arc<Inner>, part: GivenBack) {
    let GivenBack { mut place, order, before } = part;
    let counters = &inner.office.counters;
    counters.split_refunds.add(1);
    let Some(_pending) = inner.giving_back.begin() else { return counters.split_refunds_lost.add(1) };
    let until = Instant::now() + TRIED_FOR;
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
                tokio::time::sleep(PAUSE).await;
                place = inner.place_again(place, &order);
            }
            _ => return counters.split_refunds_lost.add(1),
        }
    }
}

fn may_try_again(order: &Order, unanswered: &Unanswered) -> bool {
    // A lease is released once however often that is said.
    let is_safe = unanswered.effect == Effect::Nothing || matches!(order.op, Op::Release { .. });
    is_safe && !matches!(unanswered.why, StoreFailure::Unreadable(_))
}
