//! A request's slot in a wait queue.

use std::future::poll_fn;
use std::task::Poll;

use tidegate_core::{Nanos, Timestamp, Wait};

use super::Refusal;
use super::forecast::{Forecast, Forecaster};
use super::resettable_sleep::ResettableSleep;
use super::wait_queue::{Exit, Ticket, Waiter};
use super::queues::{Admission, QueueEntry, Position, PostponeResult, Postponement, WaitQueues, AskContext};
use crate::Timer;
use crate::store::Watch;

/// How often the head of a queue asks a shared store at least: refunds made by other nodes are not announced.
const POLL_EVERY_NS: u128 = 1_000_000_000;
/// How often the head of a queue asks a shared store for leases, if the store does not tell when other nodes release them.
const POLL_LEASES_EVERY_NS: u128 = 100_000_000;

/// A slot in a wait queue. Dropped, it is given up.
pub(crate) struct QueueSlot<'q, C: Timer> {
    queues: &'q WaitQueues,
    clock: &'q C,
    key: Box<[u8]>,
    entered: QueueEntry,
    /// When the request came to this queue.
    pub entered_at: Timestamp,
    /// Tells the head of leases that other nodes release.
    watch: Option<Watch>,
    has_left: bool,
}

/// A request that enters a queue.
#[derive(Clone, Copy)]
pub(crate) struct NewWaiter {
    /// Its ticket, if it has one.
    pub ticket: Option<Ticket>,
    pub cost: u64,
    /// When it came.
    pub entered_at: Timestamp,
    /// When it gives up.
    pub deadline: Option<Timestamp>,
    /// When it leaves, if it was admitted already and only its delay keeps it.
    pub leaves_at: Option<Timestamp>,
}

/// Why a request in a queue goes on.
#[derive(Clone, Copy)]
pub(crate) enum WakeReason {
    /// It is the head of the queue.
    Head(AskContext),
    /// It is behind others, and there may be room for it too.
    MayJoin(AskContext),
    /// It does not wait any longer.
    Refused(Refusal),
    /// The limits have changed.
    Changed,
}

/// Whether a request asks with those before it where there may be room for all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinPolicy {
    Join,
    /// It waits until it is the head itself.
    #[cfg(feature = "rules")]
    HeadOnly,
}

/// A request that has to wait, and what is known of when it may be admitted.
#[derive(Clone, Copy)]
pub(crate) struct WaitContext {
    /// When it came to its queue.
    pub entered_at: Timestamp,
    /// The instant that it was decided as of.
    pub decided_at: Timestamp,
    pub now: Timestamp,
    /// When it gives up.
    pub deadline: Option<Timestamp>,
    /// When the next superseded counter is not enforced any more, which may be the one that it waits for.
    pub next_expiry: Option<Timestamp>,
    /// Whether the limit alone says when it admits the request. Leases are released at any time.
    pub is_forecastable: bool,
    /// Whether exact forecasts are made.
    pub has_forecaster: bool,
    /// Whether the store tells when leases are released.
    pub is_watched: bool,
}

impl WaitContext {
    /// When to ask again if the request has to wait this long.
    pub fn due(&self, wait: Wait) -> Result<Timestamp, Refusal> {
        let Self { entered_at: since, decided_at: at, now, deadline, next_expiry: retires, is_forecastable: is_foreseeable, has_forecaster: is_forecast, is_watched } = *self;
        let due = wait.span().map(|wait| at.saturating_add(wait.max(Nanos::new(1))));
        let due = due.into_iter().chain(retires).min().filter(|due| *due > at);
        let Some(due) = due else { return Err(Refusal::Never) };
        let deadline = deadline.unwrap_or(Timestamp::from_nanos(u64::MAX));
        let poll_at = || now.saturating_add(Nanos::new(POLL_LEASES_EVERY_NS));
        match (is_foreseeable, is_forecast) {
            // The forecast says whether it is too late.
            (true, true) => Ok(due),
            (true, false) if due > deadline => {
                let wait_ns = due.as_nanos().saturating_sub(since.as_nanos());
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
        newcomer: NewWaiter,
        forecaster: Option<&F>,
    ) -> Result<Self, Refusal> {
        let NewWaiter { ticket, cost, entered_at: since, deadline, leaves_at: leaves } = newcomer;
        let entered = poll_fn(|context| {
            let waker = context.waker().clone();
            let waiter = Waiter { ticket, cost, arrived_at: since, deadline, forecast_leaves_at: None, leaves_at: leaves, waker };
            Poll::Ready(queues.enter(key, waiter, forecaster))
        });
        let entered = entered.await?;
        Ok(Self { queues, clock, key: key.into(), entered, entered_at: since, watch: None, has_left: false })
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

    /// Whether the store tells when leases are released.
    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Lets the store tell when leases are released. Call it before the request asks as the head, so that no release is missed.
    pub fn watch(&mut self, watch: impl FnOnce() -> Option<Watch>) {
        if self.watch.is_none() {
            self.watch = watch();
        }
    }

    /// The request is about to ask, as the head.
    pub fn begin_ask(&self) {
        self.queues.begin_ask(&self.key, self.entered.ticket);
    }

    /// Leaves the queue, admitted.
    pub fn leave<F: Forecaster>(mut self, admission: Admission, forecaster: Option<&F>) {
        let forecast = self.forecast(forecaster);
        self.queues.leave_admitted(&self.key, self.entered.ticket, admission, forecast);
        self.has_left = true;
    }

    /// The request was admitted, and waits here until its delay is over.
    pub async fn wait_out_delay<F: Forecaster>(self, leaves: Timestamp, forecaster: Option<&F>) {
        let forecast = self.forecast(forecaster);
        self.queues.admit_delayed(&self.key, self.entered.ticket, leaves, forecast);
        self.leave_at(leaves).await;
    }

    /// Waits until a delay is over, and leaves.
    pub async fn leave_at(mut self, leaves: Timestamp) {
        self.clock.sleep_until(leaves).await;
        self.queues.leave(&self.key, self.entered.ticket, Exit::Admitted);
        self.has_left = true;
    }

    /// Waits until the request is the head of the queue, or may ask with those before it.
    pub async fn until_head(&self, company: JoinPolicy, is_changed: impl Fn() -> bool) -> WakeReason {
        poll_fn(|context| match self.queues.poll_position(&self.key, self.entered.ticket, context.waker()) {
            Position::Refused(refusal) => Poll::Ready(WakeReason::Refused(refusal)),
            _ if is_changed() => Poll::Ready(WakeReason::Changed),
            Position::Head { context: turn, .. } => Poll::Ready(WakeReason::Head(turn)),
            Position::MayJoin(turn) if company == JoinPolicy::Join => Poll::Ready(WakeReason::MayJoin(turn)),
            Position::MayJoin(_) | Position::Behind => Poll::Pending,
        })
        .await
    }

    /// Waits, as the head, until the request may fit: until it is due, or until units may have come back. Lets those behind it
    /// leave that give up meanwhile.
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
        let (mut nap, mut watch) = (ResettableSleep::idle(), self.watch.take());
        let woken = poll_fn(|context| {
            loop {
                let (turn, others_give_up, may_ask) = match queues.poll_position(&self.key, ticket, context.waker()) {
                    Position::Refused(refusal) => return Poll::Ready(WakeReason::Refused(refusal)),
                    _ if is_changed() => return Poll::Ready(WakeReason::Changed),
                    // A request that came earlier, from another queue: this one asks again when it is the head.
                    Position::Behind => return Poll::Pending,
                    Position::MayJoin(turn) => return Poll::Ready(WakeReason::MayJoin(turn)),
                    Position::Head { context: turn, next_deadline_behind: others_give_up, may_ask } => (turn, others_give_up, may_ask),
                };
                let is_released = watch.as_mut().is_some_and(|watch| watch.poll_changed(context).is_ready());
                if is_released || may_ask || turn.wakes != postponement.wakes {
                    return Poll::Ready(WakeReason::Head(turn));
                }
                let wake = others_give_up.map_or(due, |give_up| due.min(give_up));
                match nap.poll_until(wake, self.clock, context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) if wake == due => return Poll::Ready(WakeReason::Head(turn)),
                    Poll::Ready(()) => queues.refuse_expired(&self.key, ticket, self.clock.now()),
                }
            }
        })
        .await;
        self.watch = watch;
        woken
    }

    fn forecast<'a, F: Forecaster>(&self, forecaster: Option<&'a F>) -> Option<Forecast<'a, F>> {
        forecaster.map(|by| Forecast { forecaster: by, now: self.clock.now() })
    }
}

impl<C: Timer> Drop for QueueSlot<'_, C> {
    fn drop(&mut self) {
        if !self.has_left {
            self.queues.leave(&self.key, self.entered.ticket, Exit::Dropped(self.clock.now()));
        }
    }
}
