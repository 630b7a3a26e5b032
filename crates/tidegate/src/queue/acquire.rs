//! The task of a request that waits for a limiter: it arrives, enters the queue of its key if it has to wait, asks as
//! the head, and leaves.
//!
//! Over the memory store a request asks on arrival if the queue is empty, and again as the head. A shared store is not
//! asked twice: a request that has to wait enters the queue with the reply that it has, unless units came back since.

use std::pin::Pin;
use std::time::Duration;

use tidegate_core::{Nanos, ReleaseRate, Timestamp, Wait};

use super::Refusal;
use super::forecast::Forecaster;
use super::slot::{JoinPolicy, NewWaiter, QueueSlot, WaitContext, WakeReason};
use super::wait_queue::{Ticket, too_long};
use super::wait_queues::{Admission, AskContext, Postponement, WaitQueues};
use crate::store::Watch;
use crate::{Clock, Timer};

/// A request for units of one key.
pub(crate) trait Acquire {
    type Clock: Timer;
    type Forecaster: Forecaster;
    /// What an admitted request was charged.
    type Units;
    /// Why no decision could be made.
    type Error;

    fn clock(&self) -> &Self::Clock;
    fn queues(&self) -> &WaitQueues;
    fn key(&self) -> &[u8];
    fn cost(&self) -> u64;

    /// Asks a store that answers immediately, and takes the units if they are admitted. None if the store answers
    /// later.
    fn attempt_now(&self, at: Timestamp) -> Option<AttemptResult<Self>>;

    /// Asks a store that answers later. Boxed, so that a request that waits in memory does not reserve space for it.
    fn attempt_later(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = AttemptResult<Self>> + Send + '_>>;

    /// Refunds an attempt, and wakes the requests that wait for its units.
    fn refund(&self, units: &Self::Units);

    /// Asks the store to announce leases that other nodes release, if it can.
    fn watch(&self) -> Option<Watch>;

    /// Exact forecasts, if the counters are in memory.
    fn forecaster(&self) -> Option<&Self::Forecaster>;

    /// Whether the limits alone determine when a request is admitted. Not with leases, which can be released at any
    /// time.
    fn is_forecastable(&self, now: Timestamp) -> bool;

    /// When the next superseded counter expires.
    fn next_expiry(&self, now: Timestamp) -> Option<Timestamp>;

    /// How fast requests follow one another, if it is known.
    fn release_rate(&self, now: Timestamp) -> Option<ReleaseRate>;
}

/// The result of an attempt, or why no decision could be made.
pub(crate) type AttemptResult<R> = Result<Attempt<<R as Acquire>::Units>, <R as Acquire>::Error>;

/// The result of an attempt.
pub(crate) enum Attempt<G> {
    /// The units were taken.
    Admitted {
        units: G,
        /// How long the request has to be delayed.
        delay: Nanos,
        /// The units that remain.
        remaining: u64,
    },
    /// Not admitted before this wait is over.
    Wait(Wait),
}

/// An admitted request.
pub(crate) struct AcquireOutput<G> {
    pub units: G,
    /// From arrival until the request was due to leave.
    pub waited: Nanos,
}

/// Why a request was not admitted.
pub(crate) enum AcquireFailure<E> {
    Refused(Refusal),
    /// No decision could be made.
    Error(E),
}

impl<E> From<Refusal> for AcquireFailure<E> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Waits until the units are admitted, for at most `max_wait`.
pub(crate) async fn acquire<R: Acquire>(
    request: &R,
    max_wait: Option<Duration>,
) -> Result<AcquireOutput<R::Units>, AcquireFailure<R::Error>> {
    let arrived_at = request.clock().now();
    let deadline = max_wait.map(|max_wait| arrived_at.saturating_add(Nanos::new(max_wait.as_nanos())));
    AcquireTask { request, arrived_at, deadline }.run().await
}

struct AcquireTask<'a, R: Acquire> {
    request: &'a R,
    arrived_at: Timestamp,
    deadline: Option<Timestamp>,
}

/// Units that are refunded when this is dropped.
struct AcquireRefundGuard<'a, R: Acquire> {
    request: &'a R,
    units: Option<R::Units>,
}

type TaskSlot<'a, R> = QueueSlot<'a, <R as Acquire>::Clock>;
type AcquireTaskResult<R> =
    Result<AcquireOutput<<R as Acquire>::Units>, AcquireFailure<<R as Acquire>::Error>>;

/// What the task does next.
enum AcquireStep<'a, R: Acquire> {
    Woken(TaskSlot<'a, R>, WakeReason),
    End(AcquireOutput<R::Units>),
}

impl<'a, R: Acquire> AcquireTask<'a, R> {
    /// Only the head of a queue asks, and most waiters are behind it. The futures of a call are boxed, so that the
    /// future of a waiter stays small.
    async fn run(self) -> AcquireTaskResult<R> {
        let request = self.request;
        let mut next = self.arrive().await?;
        loop {
            next = match next {
                AcquireStep::End(acquired) => return Ok(acquired),
                AcquireStep::Woken(_, WakeReason::Refused(refusal)) => return Err(refusal.into()),
                AcquireStep::Woken(mut slot, WakeReason::Head(context)) => {
                    if request.forecaster().is_none() && !request.is_forecastable(request.clock().now()) {
                        slot.watch(|| request.watch());
                    }
                    Box::pin(self.ask(slot, context)).await?
                }
                AcquireStep::Woken(slot, WakeReason::MayJoin(context)) => {
                    Box::pin(self.ask(slot, context)).await?
                }
                AcquireStep::Woken(slot, WakeReason::Changed) => self.wait_for_head(slot).await,
            };
        }
    }

    /// Arrives, and asks unless other requests wait.
    async fn arrive(&self) -> Result<AcquireStep<'a, R>, AcquireFailure<R::Error>> {
        let Self { request, arrived_at, .. } = *self;
        if request.queues().head(request.key()).is_none() {
            match request.attempt_now(arrived_at) {
                None => return Box::pin(self.arrive_async()).await,
                Some(attempted) => {
                    if let Attempt::Admitted { units, delay, .. } =
                        attempted.map_err(AcquireFailure::Error)?
                    {
                        return self.admit_on_arrival(units, delay).await;
                    }
                }
            }
        }
        Ok(self.wait_for_head(self.enter(None, None).await?).await)
    }

    /// Arrives at an empty queue, over a store that answers later.
    async fn arrive_async(&self) -> Result<AcquireStep<'a, R>, AcquireFailure<R::Error>> {
        let Self { request, arrived_at, .. } = *self;
        // If the request has to wait, its position is before all requests that arrive while it asks.
        let ticket = request.queues().next_ticket();
        let observer = request.queues().observe(request.key());
        let wait = match self.attempt(arrived_at).await? {
            Attempt::Admitted { units, delay, .. } => {
                return self.admit_on_arrival(units, delay).await;
            }
            Attempt::Wait(wait) => wait,
        };
        let now = request.clock().now();
        let due = self.wait_context(arrived_at, now, now, false).due(wait)?;
        let mut slot = self.enter(Some(ticket), None).await?;
        // Leases may have been released since the call. The request learns of that only once it watches them, so it
        // asks again.
        if slot.wakes() != observer.wakes || !request.is_forecastable(now) {
            return Ok(self.wait_for_head(slot).await);
        }
        let reason = self.until_due(&mut slot, due, observer.wakes).await;
        Ok(AcquireStep::Woken(slot, reason))
    }

    /// Asks, and then leaves with its units or waits.
    async fn ask(
        &self,
        mut slot: TaskSlot<'a, R>,
        context: AskContext,
    ) -> Result<AcquireStep<'a, R>, AcquireFailure<R::Error>> {
        let request = self.request;
        let forecaster = request.forecaster();
        let mut now = request.clock().now();
        let mut at = now;
        if let Some(forecaster) = forecaster {
            at = slot.entered_at.max(context.not_before).max(forecaster.earliest(now)).min(now);
            slot.begin_ask();
        } else if self.deadline.is_some_and(|deadline| deadline < now) {
            return Err(Refusal::TooLong { wait: None }.into());
        }
        loop {
            let wait = match self.attempt(at).await? {
                Attempt::Admitted { units, delay, remaining } => {
                    let guard = AcquireRefundGuard { request, units: Some(units) };
                    let leaves_at = at.saturating_add(delay);
                    if self.deadline.is_some_and(|deadline| deadline < leaves_at) {
                        drop(slot);
                        return Err(too_long(self.arrived_at, leaves_at).into());
                    }
                    if leaves_at > now {
                        slot.wait_out_delay(leaves_at, forecaster).await;
                    } else {
                        let remaining_units = if forecaster.is_some() { 0 } else { remaining };
                        slot.leave(Admission { leaves_at, remaining_units }, forecaster);
                    }
                    return Ok(AcquireStep::End(self.finish_admitted(guard, leaves_at)));
                }
                Attempt::Wait(wait) => wait,
            };
            // A shared store decides when it is asked, by its own clock.
            if forecaster.is_none() {
                now = request.clock().now();
                at = now;
            }
            let due = self.wait_context(slot.entered_at, at, now, slot.is_watched()).due(wait)?;
            if forecaster.is_some() && due <= now {
                at = due;
                continue;
            }
            let reason = self.until_due(&mut slot, due, context.wakes).await;
            return Ok(AcquireStep::Woken(slot, reason));
        }
    }

    /// Admitted on arrival. The request leaves when its delay is over.
    async fn admit_on_arrival(
        &self,
        units: R::Units,
        delay: Nanos,
    ) -> Result<AcquireStep<'a, R>, AcquireFailure<R::Error>> {
        let guard = AcquireRefundGuard { request: self.request, units: Some(units) };
        let leaves_at = self.arrived_at.saturating_add(delay);
        if delay > Nanos::ZERO {
            if self.deadline.is_some_and(|deadline| deadline < leaves_at) {
                return Err(too_long(self.arrived_at, leaves_at).into());
            }
            let slot = self.enter(None, Some(leaves_at)).await?;
            Box::pin(slot.leave_at(leaves_at)).await;
        }
        Ok(AcquireStep::End(self.finish_admitted(guard, leaves_at)))
    }

    fn finish_admitted(
        &self,
        mut guard: AcquireRefundGuard<'a, R>,
        leaves_at: Timestamp,
    ) -> AcquireOutput<R::Units> {
        let waited_ns = leaves_at.as_nanos().saturating_sub(self.arrived_at.as_nanos());
        match guard.units.take() {
            Some(units) => AcquireOutput { units, waited: Nanos::new(u128::from(waited_ns)) },
            None => unreachable!("units are returned once"),
        }
    }

    /// Waits until the request may ask.
    async fn wait_for_head(&self, slot: TaskSlot<'a, R>) -> AcquireStep<'a, R> {
        let reason = slot.until_head(JoinPolicy::Join, || false).await;
        AcquireStep::Woken(slot, reason)
    }

    async fn until_due(&self, slot: &mut TaskSlot<'a, R>, due: Timestamp, wakes: u64) -> WakeReason {
        let release_rate = self.request.release_rate(self.request.clock().now());
        slot.until_due(Postponement { due, release_rate, wakes }, self.request.forecaster(), || false).await
    }

    async fn enter(
        &self,
        ticket: Option<Ticket>,
        leaves_at: Option<Timestamp>,
    ) -> Result<TaskSlot<'a, R>, Refusal> {
        let Self { request, arrived_at, deadline } = *self;
        let new_waiter =
            NewWaiter { ticket, cost: request.cost(), entered_at: arrived_at, deadline, leaves_at };
        QueueSlot::enter(request.queues(), request.clock(), request.key(), new_waiter, request.forecaster())
            .await
    }

    async fn attempt(&self, at: Timestamp) -> Result<Attempt<R::Units>, AcquireFailure<R::Error>> {
        let attempted = match self.request.attempt_now(at) {
            Some(attempted) => attempted,
            None => self.request.attempt_later(at).await,
        };
        attempted.map_err(AcquireFailure::Error)
    }

    fn wait_context(
        &self,
        entered_at: Timestamp,
        decided_at: Timestamp,
        now: Timestamp,
        is_watched: bool,
    ) -> WaitContext {
        WaitContext {
            entered_at,
            decided_at,
            now,
            deadline: self.deadline,
            next_expiry: self.request.next_expiry(decided_at),
            is_forecastable: self.request.is_forecastable(now),
            has_forecaster: self.request.forecaster().is_some(),
            is_watched,
        }
    }
}

impl<R: Acquire> Drop for AcquireRefundGuard<'_, R> {
    fn drop(&mut self) {
        if let Some(units) = &self.units {
            self.request.refund(units);
        }
    }
}
