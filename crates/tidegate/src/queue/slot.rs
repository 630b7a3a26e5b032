//! The slot of a request in a wait queue, and how the request waits there.

use std::future::poll_fn;
use std::task::Poll;

use tidegate_core::{Nanos, Timestamp, Wait};

use super::Refusal;
use super::forecast::{Forecast, Forecaster};
use super::resettable_sleep::ResettableSleep;
use super::wait_queue::{Exit, Ticket, Waiter};
use super::wait_queues::{
    Admission, AskContext, Position, PostponeResult, Postponement, QueueEntry, WaitQueues,
};
use crate::Timer;
use crate::store::Watch;

/// The head of a queue asks a shared store at least this often, because other nodes may refund units.
const POLL_EVERY_NS: u128 = 1_000_000_000;
/// The head of a queue asks this often for leases, if the store does not announce that other nodes release them.
const POLL_LEASES_EVERY_NS: u128 = 100_000_000;

/// A slot in a wait queue. Dropping it leaves the queue.
pub(crate) struct QueueSlot<'q, C: Timer> {
    queues: &'q WaitQueues,
    clock: &'q C,
    key: Box<[u8]>,
    entered: QueueEntry,
    /// When the request entered this queue.
    pub entered_at: Timestamp,
    /// Announces leases that other nodes release, to the head.
    watch: Option<Watch>,
    has_left: bool,
}

/// A request that enters a queue.
#[derive(Clone, Copy)]
pub(crate) struct NewWaiter {
    /// Its ticket, if it already has one.
    pub ticket: Option<Ticket>,
    pub cost: u64,
    /// When it arrived.
    pub entered_at: Timestamp,
    /// When it stops waiting.
    pub deadline: Option<Timestamp>,
    /// When it leaves, if it is already admitted and waits only for its delay.
    pub leaves_at: Option<Timestamp>,
}

/// Why a waiting request continues.
#[derive(Clone, Copy)]
pub(crate) enum WakeReason {
    /// It is the head of the queue.
    Head(AskContext),
    /// It is behind the head, and there may be units for it too.
    MayJoin(AskContext),
    /// It stops waiting.
    Refused(Refusal),
    /// The limits have changed.
    Changed,
}

/// Whether a request behind the head may ask, if there may be units for it too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinPolicy {
    Join,
    /// It waits until it is the head.
    #[cfg(feature = "rules")]
    HeadOnly,
}

/// A request that has to wait, and what is known about when it may be admitted.
#[derive(Clone, Copy)]
pub(crate) struct WaitContext {
    /// When it entered its queue.
    pub entered_at: Timestamp,
    /// The instant as of which it was decided.
    pub decided_at: Timestamp,
    pub now: Timestamp,
    /// When it stops waiting.
    pub deadline: Option<Timestamp>,
    /// When the next superseded counter expires. The request may be waiting for that one.
    pub next_expiry: Option<Timestamp>,
    /// Whether the limit alone determines when it admits the request. Not with leases, which can be released at any
    /// time.
    pub is_forecastable: bool,
    /// Whether exact forecasts are made.
    pub has_forecaster: bool,
    /// Whether the store announces released leases.
    pub is_watched: bool,
}

impl WaitContext {
    /// When to ask again if the request has to wait for `wait`.
    pub fn due(&self, wait: Wait) -> Result<Timestamp, Refusal> {
        let Self {
            entered_at,
            decided_at,
            now,
            deadline,
            next_expiry,
            is_forecastable,
            has_forecaster,
            is_watched,
        } = *self;
        let due = wait.span().map(|wait| decided_at.saturating_add(wait.max(Nanos::new(1))));
        let due = due.into_iter().chain(next_expiry).min().filter(|due| *due > decided_at);
        let Some(due) = due else { return Err(Refusal::Never) };
        let deadline = deadline.unwrap_or(Timestamp::from_nanos(u64::MAX));
        let poll_at = || now.saturating_add(Nanos::new(POLL_LEASES_EVERY_NS));
        match (is_forecastable, has_forecaster) {
            // The forecast decides whether that is too late.
            (true, true) => Ok(due),
            (true, false) if due > deadline => {
                let wait_ns = due.as_nanos().saturating_sub(entered_at.as_nanos());
                Err(Refusal::TooLong { wait: Some(Nanos::new(u128::from(wait_ns))) })
            }
            (true, false) => Ok(due),
            (false, _) if deadline <= now => Err(Refusal::TooLong { wait: None }),
            (false, true) => Ok(due.min(deadline)),
            (false, false) if is_watched => Ok(due.min(deadline)),
            (false, false) => Ok(due.min(deadline).min(poll_at())),
        }
    }
}

impl<'q, C: Timer> QueueSlot<'q, C> {
    /// Enters the queue of a key.
    pub async fn enter<F: Forecaster>(
        queues: &'q WaitQueues,
        clock: &'q C,
        key: &[u8],
        new_waiter: NewWaiter,
        forecaster: Option<&F>,
    ) -> Result<Self, Refusal> {
        let NewWaiter { ticket, cost, entered_at, deadline, leaves_at } = new_waiter;
        let entered = poll_fn(|context| {
            let waker = context.waker().clone();
            let waiter = Waiter {
                ticket,
                cost,
                arrived_at: entered_at,
                deadline,
                forecast_leaves_at: None,
                leaves_at,
                waker,
            };
            Poll::Ready(queues.enter(key, waiter, forecaster))
        });
        let entered = entered.await?;
        Ok(Self { queues, clock, key: key.into(), entered, entered_at, watch: None, has_left: false })
    }

    #[cfg(feature = "rules")]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    #[cfg(feature = "rules")]
    pub fn ticket(&self) -> Ticket {
        self.entered.ticket
    }

    /// How often units had come back when the request entered.
    pub fn wakes(&self) -> u64 {
        self.entered.wakes
    }

    /// Whether the store announces released leases.
    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Asks the store to announce released leases. Call it before the request asks as the head, so that no release is
    /// missed.
    pub fn watch(&mut self, watch: impl FnOnce() -> Option<Watch>) {
        if self.watch.is_none() {
            self.watch = watch();
        }
    }

    /// Marks that the request is about to ask, as the head.
    pub fn begin_ask(&self) {
        self.queues.begin_ask(&self.key, self.entered.ticket);
    }

    /// Leaves the queue, admitted.
    pub fn leave<F: Forecaster>(mut self, admission: Admission, forecaster: Option<&F>) {
        let forecast = self.forecast(forecaster);
        self.queues.leave_admitted(&self.key, self.entered.ticket, admission, forecast);
        self.has_left = true;
    }

    /// The request was admitted. Waits in the queue until its delay is over.
    pub async fn wait_out_delay<F: Forecaster>(self, leaves_at: Timestamp, forecaster: Option<&F>) {
        let forecast = self.forecast(forecaster);
        self.queues.admit_delayed(&self.key, self.entered.ticket, leaves_at, forecast);
        self.leave_at(leaves_at).await;
    }

    /// Waits until the delay is over, and leaves.
    pub async fn leave_at(mut self, leaves_at: Timestamp) {
        self.clock.sleep_until(leaves_at).await;
        self.queues.leave(&self.key, self.entered.ticket, Exit::Admitted);
        self.has_left = true;
    }

    /// Waits until the request is the head of the queue, or may ask from behind the head.
    pub async fn until_head(&self, policy: JoinPolicy, is_changed: impl Fn() -> bool) -> WakeReason {
        poll_fn(|context| match self.queues.poll_position(&self.key, self.entered.ticket, context.waker()) {
            Position::Refused(refusal) => Poll::Ready(WakeReason::Refused(refusal)),
            _ if is_changed() => Poll::Ready(WakeReason::Changed),
            Position::Head { context: ask_context, .. } => Poll::Ready(WakeReason::Head(ask_context)),
            Position::MayJoin(ask_context) if policy == JoinPolicy::Join => {
                Poll::Ready(WakeReason::MayJoin(ask_context))
            }
            Position::MayJoin(_) | Position::Behind => Poll::Pending,
        })
        .await
    }

    /// Waits, as the head, until the request may be admitted: it is due, or units may have come back. Removes waiters
    /// behind it whose deadline passes meanwhile.
    pub async fn until_due<F: Forecaster>(
        &mut self,
        postponement: Postponement,
        forecaster: Option<&F>,
        is_changed: impl Fn() -> bool,
    ) -> WakeReason {
        let (queues, ticket) = (self.queues, self.entered.ticket);
        let now = self.clock.now();
        match queues.postpone(&self.key, ticket, postponement, self.forecast(forecaster)) {
            PostponeResult::AsksAgain => return self.until_head(JoinPolicy::Join, is_changed).await,
            PostponeResult::Refused(refusal) => return WakeReason::Refused(refusal),
            PostponeResult::Sleeps => {}
        }
        // Only a shared store has to be polled.
        let poll_at = now.saturating_add(Nanos::new(POLL_EVERY_NS));
        let due = if forecaster.is_some() { postponement.due } else { postponement.due.min(poll_at) };
        let (mut sleep, mut watch) = (ResettableSleep::idle(), self.watch.take());
        let reason = poll_fn(|context| {
            loop {
                let (ask_context, next_deadline_behind, may_ask) =
                    match queues.poll_position(&self.key, ticket, context.waker()) {
                        Position::Refused(refusal) => return Poll::Ready(WakeReason::Refused(refusal)),
                        _ if is_changed() => return Poll::Ready(WakeReason::Changed),
                        // A request with an earlier ticket came from another queue. This one asks again when it is the
                        // head.
                        Position::Behind => return Poll::Pending,
                        Position::MayJoin(ask_context) => {
                            return Poll::Ready(WakeReason::MayJoin(ask_context));
                        }
                        Position::Head { context: ask_context, next_deadline_behind, may_ask } => {
                            (ask_context, next_deadline_behind, may_ask)
                        }
                    };
                let is_released = watch.as_mut().is_some_and(|watch| watch.poll_changed(context).is_ready());
                if is_released || may_ask || ask_context.wakes != postponement.wakes {
                    return Poll::Ready(WakeReason::Head(ask_context));
                }
                let wake = next_deadline_behind.map_or(due, |deadline| due.min(deadline));
                match sleep.poll_until(wake, self.clock, context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) if wake == due => return Poll::Ready(WakeReason::Head(ask_context)),
                    Poll::Ready(()) => queues.refuse_expired(&self.key, ticket, self.clock.now()),
                }
            }
        })
        .await;
        self.watch = watch;
        reason
    }

    fn forecast<'a, F: Forecaster>(&self, forecaster: Option<&'a F>) -> Option<Forecast<'a, F>> {
        forecaster.map(|forecaster| Forecast { forecaster, now: self.clock.now() })
    }
}

impl<C: Timer> Drop for QueueSlot<'_, C> {
    fn drop(&mut self) {
        if !self.has_left {
            self.queues.leave(&self.key, self.entered.ticket, Exit::Dropped(self.clock.now()));
        }
    }
}
