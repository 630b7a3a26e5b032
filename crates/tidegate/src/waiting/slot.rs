//! A request's slot in a wait queue.

use std::future::poll_fn;
use std::task::Poll;

use tidegate_core::{Nanos, Timestamp, Wait};

use super::Refusal;
use super::forecast::{Forecast, Forecaster};
use super::nap::Nap;
use super::queue::{Exit, Ticket, Waiter};
use super::queues::{Admission, Entered, Position, Postponed, Postponement, Queues, Turn};
use crate::Timer;
use crate::store::Watch;

/// How often the head of a queue asks a shared store at least: refunds made by other nodes are not announced.
const POLL_EVERY_NS: u128 = 1_000_000_000;
/// How often the head of a queue asks a shared store for leases, if the store does not tell when other nodes release them.
const POLL_LEASES_EVERY_NS: u128 = 100_000_000;

/// A slot in a wait queue. Dropped, it is given up.
pub(crate) struct QueueSlot<'q, C: Timer> {
    queues: &'q Queues,
    clock: &'q C,
    key: Box<[u8]>,
    entered: Entered,
    /// When the request came to this queue.
    pub since: Timestamp,
    /// Tells the head of leases that other nodes release.
    watch: Option<Watch>,
    is_left: bool,
}

/// A request that enters a queue.
#[derive(Clone, Copy)]
pub(crate) struct Newcomer {
    /// Its ticket, if it has one.
    pub ticket: Option<Ticket>,
    pub cost: u64,
    /// When it came.
    pub since: Timestamp,
    /// When it gives up.
    pub deadline: Option<Timestamp>,
    /// When it leaves, if it was admitted already and only its delay keeps it.
    pub leaves: Option<Timestamp>,
}

/// Why a request in a queue goes on.
#[derive(Clone, Copy)]
pub(crate) enum Woken {
    /// It is the head of the queue.
    Head(Turn),
    /// It is behind others, and there may be room for it too.
    Joins(Turn),
    /// It does not wait any longer.
    Refused(Refusal),
    /// The limits have changed.
    Changed,
}

/// Whether a request asks with those before it where there may be room for all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    Joins,
    /// It waits until it is the head itself.
    #[cfg(feature = "rules")]
    Alone,
}

/// A request that has to wait, and what is known of when it may be admitted.
#[derive(Clone, Copy)]
pub(crate) struct Delayed {
    /// When it came to its queue.
    pub since: Timestamp,
    /// The instant that it was decided as of.
    pub at: Timestamp,
    pub now: Timestamp,
    /// When it gives up.
    pub deadline: Option<Timestamp>,
    /// When the next superseded counter is not enforced any more, which may be the one that it waits for.
    pub retires: Option<Timestamp>,
    /// Whether the limit alone says when it admits the request. Leases are released at any time.
    pub is_foreseeable: bool,
    /// Whether exact forecasts are made.
    pub is_forecast: bool,
    /// Whether the store tells when leases are released.
    pub is_watched: bool,
}

impl Delayed {
    /// When to ask again if the request has to wait this long.
    pub fn due(&self, wait: Wait) -> Result<Timestamp, Refusal> {
        let Self { since, at, now, deadline, retires, is_foreseeable, is_forecast, is_watched } = *self;
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
        queues: &'q Queues,
        clock: &'q C,
        key: &[u8],
        newcomer: Newcomer,
        forecaster: Option<&F>,
    ) -> Result<Self, Refusal> {
        let Newcomer { ticket, cost, since, deadline, leaves } = newcomer;
        let entered = poll_fn(|context| {
            let waker = context.waker().clone();
            let waiter = Waiter { ticket, cost, arrived: since, deadline, forecast: None, leaves, waker };
            Poll::Ready(queues.enter(key, waiter, forecaster))
        });
        let entered = entered.await?;
        Ok(Self { queues, clock, key: key.into(), entered, since, watch: None, is_left: false })
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
        self.is_left = true;
    }

    /// The request was admitted, and waits here until its delay is over.
    pub async fn hold<F: Forecaster>(self, leaves: Timestamp, forecaster: Option<&F>) {
        let forecast = self.forecast(forecaster);
        self.queues.hold(&self.key, self.entered.ticket, leaves, forecast);
        self.held_until(leaves).await;
    }

    /// Waits until a delay is over, and leaves.
    pub async fn held_until(mut self, leaves: Timestamp) {
        self.clock.sleep_until(leaves).await;
        self.queues.leave(&self.key, self.entered.ticket, Exit::Admitted);
        self.is_left = true;
    }

    /// Waits until the request is the head of the queue, or may ask with those before it.
    pub async fn until_head(&self, company: Company, is_changed: impl Fn() -> bool) -> Woken {
        poll_fn(|context| match self.queues.look(&self.key, self.entered.ticket, context.waker()) {
            Position::Refused(refusal) => Poll::Ready(Woken::Refused(refusal)),
            _ if is_changed() => Poll::Ready(Woken::Changed),
            Position::Head { turn, .. } => Poll::Ready(Woken::Head(turn)),
            Position::Joins(turn) if company == Company::Joins => Poll::Ready(Woken::Joins(turn)),
            Position::Joins(_) | Position::Behind => Poll::Pending,
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
    ) -> Woken {
        let (queues, ticket) = (self.queues, self.entered.ticket);
        let now = self.clock.now();
        match queues.postpone(&self.key, ticket, postponement, self.forecast(forecaster)) {
            Postponed::AsksAgain => return self.until_head(Company::Joins, is_changed).await,
            Postponed::Refused(refusal) => return Woken::Refused(refusal),
            Postponed::Sleeps => {}
        }
        // Only a shared store has to be polled.
        let poll_at = now.saturating_add(Nanos::new(POLL_EVERY_NS));
        let due = if forecaster.is_some() { postponement.due } else { postponement.due.min(poll_at) };
        let (mut nap, mut watch) = (Nap::none(), self.watch.take());
        let woken = poll_fn(|context| {
            loop {
                let (turn, others_give_up, may_ask) = match queues.look(&self.key, ticket, context.waker()) {
                    Position::Refused(refusal) => return Poll::Ready(Woken::Refused(refusal)),
                    _ if is_changed() => return Poll::Ready(Woken::Changed),
                    // A request that came earlier, from another queue: this one asks again when it is the head.
                    Position::Behind => return Poll::Pending,
                    Position::Joins(turn) => return Poll::Ready(Woken::Joins(turn)),
                    Position::Head { turn, others_give_up, may_ask } => (turn, others_give_up, may_ask),
                };
                let is_released = watch.as_mut().is_some_and(|watch| watch.poll_changed(context).is_ready());
                if is_released || may_ask || turn.wakes != postponement.wakes {
                    return Poll::Ready(Woken::Head(turn));
                }
                let wake = others_give_up.map_or(due, |give_up| due.min(give_up));
                match nap.poll_until(wake, self.clock, context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) if wake == due => return Poll::Ready(Woken::Head(turn)),
                    Poll::Ready(()) => queues.give_up(&self.key, ticket, self.clock.now()),
                }
            }
        })
        .await;
        self.watch = watch;
        woken
    }

    fn forecast<'a, F: Forecaster>(&self, forecaster: Option<&'a F>) -> Option<Forecast<'a, F>> {
        forecaster.map(|by| Forecast { by, now: self.clock.now() })
    }
}

impl<C: Timer> Drop for QueueSlot<'_, C> {
    fn drop(&mut self) {
        if !self.is_left {
            self.queues.leave(&self.key, self.entered.ticket, Exit::Dropped(self.clock.now()));
        }
    }
}
