//! A request that waits for a limiter: it comes, enters the queue of its key if it has to wait, asks when it is its turn, and
//! leaves.
//!
//! Over the memory store a request asks as it comes, if no request waits, and again as the head of the queue. A shared store is not
//! asked twice: a request that has to wait enters the queue with the reply it got, unless units came back since.

use std::pin::Pin;
use std::time::Duration;

use tidegate_core::{Nanos, ReleaseRate, Timestamp, Wait};

use super::Refusal;
use super::forecast::Forecaster;
use super::wait_queue::too_long;
use super::queues::{Admission, Postponement, WaitQueues, AskContext};
use super::slot::{JoinPolicy, WaitContext, NewWaiter, QueueSlot, WakeReason};
use crate::store::Watch;
use crate::{Clock, Timer};

/// A request for units of one key.
pub(crate) trait Acquire {
    type Clock: Timer;
    type Forecaster: Forecaster;
    /// What it leaves with.
    type Units;
    /// Why it cannot be decided.
    type Error;

    fn clock(&self) -> &Self::Clock;
    fn queues(&self) -> &WaitQueues;
    fn key(&self) -> &[u8];
    fn cost(&self) -> u64;

    /// Asks a store that answers at once, and takes the units if they are admitted. None if the store answers later.
    fn attempt_now(&self, at: Timestamp) -> Option<AttemptResult<Self>>;

    /// Asks a store that answers later. It is in a box, because a request that waits in memory would have to make room for it.
    fn attempt_later(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = AttemptResult<Self>> + Send + '_>>;

    /// Gives back what an attempt took, and wakes requests that wait for it.
    fn refund(&self, given: &Self::Units);

    /// Lets the store tell when other nodes release leases, if it can.
    fn watch(&self) -> Option<Watch>;

    /// Exact forecasts, if the counters are in memory.
    fn forecaster(&self) -> Option<&Self::Forecaster>;

    /// Whether the limits alone say when they admit a request. Leases are released at any time.
    fn is_forecastable(&self, now: Timestamp) -> bool;

    /// When the next superseded counter is not enforced any more.
    fn next_expiry(&self, now: Timestamp) -> Option<Timestamp>;

    /// How fast requests follow one another, if that is known.
    fn release_rate(&self, now: Timestamp) -> Option<ReleaseRate>;
}

/// The result of asking, or why nothing could be decided.
pub(crate) type AttemptResult<R> = Result<Attempt<<R as Acquire>::Units>, <R as Acquire>::Error>;

/// The result of asking.
pub(crate) enum Attempt<G> {
    /// The units were taken.
    Admitted {
        units: G,
        /// How long the request is to be delayed.
        delay: Nanos,
        /// The units that are left.
        remaining: u64,
    },
    /// Not before this wait is over.
    Wait(Wait),
}

/// A request that was admitted.
pub(crate) struct AcquireOutput<G> {
    pub units: G,
    /// From when it came until it was due to leave.
    pub waited: Nanos,
}

/// Why a request was not admitted.
pub(crate) enum AcquireFailure<E> {
    Refused(Refusal),
    /// Nothing could be decided.
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
    let arrived = request.clock().now();
    let deadline = max_wait.map(|max_wait| arrived.saturating_add(Nanos::new(max_wait.as_nanos())));
    AcquireTask { request, arrived_at: arrived, deadline }.run().await
}

struct AcquireTask<'a, R: Acquire> {
    request: &'a R,
    arrived_at: Timestamp,
    deadline: Option<Timestamp>,
}

/// Units that are given back when this is dropped.
struct AcquireRefundGuard<'a, R: Acquire> {
    request: &'a R,
    units: Option<R::Units>,
}

type TaskSlot<'a, R> = QueueSlot<'a, <R as Acquire>::Clock>;
type AcquireTaskResult<R> = Result<AcquireOutput<<R as Acquire>::Units>, AcquireFailure<<R as Acquire>::Error>>;

/// What comes next.
enum AcquireStep<'a, R: Acquire> {
    Woken(TaskSlot<'a, R>, WakeReason),
    End(AcquireOutput<R::Units>),
}

impl<'a, R: Acquire> AcquireTask<'a, R> {
    /// Most requests that wait are behind others, so what only the head of a queue does is in boxes: the future of a request is
    /// small while it waits.
    async fn run(self) -> AcquireTaskResult<R> {
        let request = self.request;
        let mut next = self.arrive().await?;
        loop {
            next = match next {
                AcquireStep::End(acquired) => return Ok(acquired),
                AcquireStep::Woken(_, WakeReason::Refused(refusal)) => return Err(refusal.into()),
                AcquireStep::Woken(mut slot, WakeReason::Head(turn)) => {
                    if request.forecaster().is_none() && !request.is_forecastable(request.clock().now()) {
                        slot.watch(|| request.watch());
                    }
                    Box::pin(self.ask(slot, turn)).await?
                }
                AcquireStep::Woken(slot, WakeReason::MayJoin(turn)) => Box::pin(self.ask(slot, turn)).await?,
                AcquireStep::Woken(slot, WakeReason::Changed) => self.wait_for_head(slot).await,
            };
        }
    }

    /// It comes, and asks unless others wait.
    async fn arrive(&self) -> Result<AcquireStep<'a, R>, AcquireFailure<R::Error>> {
        let Self { request, arrived_at: arrived, .. } = *self;
        if request.queues().head(request.key()).is_none() {
            match request.attempt_now(arrived) {
                None => return Box::pin(self.arrive_async()).await,
                Some(attempted) => {
                    if let Attempt::Admitted { units: given, delay, .. } = attempted.map_err(AcquireFailure::Error)? {
                        return self.admit_on_arrival(given, delay).await;
                    }
                }
            }
        }
        Ok(self.wait_for_head(self.enter(None, None).await?).await)
    }

    /// It comes, no request waits, and the store answers later.
    async fn arrive_async(&self) -> Result<AcquireStep<'a, R>, AcquireFailure<R::Error>> {
        let Self { request, arrived_at: arrived, .. } = *self;
        // If it has to wait, it does so before all that come while it asks.
        let ticket = request.queues().next_ticket();
        let observed = request.queues().observe(request.key());
        let wait = match self.attempt(arrived).await? {
            Attempt::Admitted { units: given, delay, .. } => return self.admit_on_arrival(given, delay).await,
            Attempt::Wait(wait) => wait,
        };
        let now = request.clock().now();
        let due = self.wait_context(arrived, now, now, false).due(wait)?;
        let mut slot = self.enter(Some(ticket), None).await?;
        // Leases may have been released since it asked, which it hears of once it watches them.
        if slot.wakes() != observed.wakes || !request.is_forecastable(now) {
            return Ok(self.wait_for_head(slot).await);
        }
        let woken = self.until_due(&mut slot, due, observed.wakes).await;
        Ok(AcquireStep::Woken(slot, woken))
    }

    /// It asks, and leaves with what it got or waits.
    async fn ask(&self, mut slot: TaskSlot<'a, R>, turn: AskContext) -> Result<AcquireStep<'a, R>, AcquireFailure<R::Error>> {
        let request = self.request;
        let forecaster = request.forecaster();
        let mut now = request.clock().now();
        let mut at = now;
        if let Some(forecaster) = forecaster {
            at = slot.entered_at.max(turn.not_before).max(forecaster.earliest(now)).min(now);
            slot.begin_ask();
        } else if self.deadline.is_some_and(|deadline| deadline < now) {
            return Err(Refusal::TooLong { wait: None }.into());
        }
        loop {
            let wait = match self.attempt(at).await? {
                Attempt::Admitted { units: given, delay, remaining } => {
                    let taken = AcquireRefundGuard { request, units: Some(given) };
                    let leaves = at.saturating_add(delay);
                    if self.deadline.is_some_and(|deadline| deadline < leaves) {
                        drop(slot);
                        return Err(too_long(self.arrived_at, leaves).into());
                    }
                    if leaves > now {
                        slot.wait_out_delay(leaves, forecaster).await;
                    } else {
                        let left_units = if forecaster.is_some() { 0 } else { remaining };
                        slot.leave(Admission { leaves_at: leaves, remaining_units: left_units }, forecaster);
                    }
                    return Ok(AcquireStep::End(self.finish_admitted(taken, leaves)));
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
            let woken = self.until_due(&mut slot, due, turn.wakes).await;
            return Ok(AcquireStep::Woken(slot, woken));
        }
    }

    /// It was admitted as it came, and leaves when its delay is over.
    async fn admit_on_arrival(
        &self,
        given: R::Units,
        delay: Nanos,
    ) -> Result<AcquireStep<'a, R>, AcquireFailure<R::Error>> {
        let taken = AcquireRefundGuard { request: self.request, units: Some(given) };
        let leaves = self.arrived_at.saturating_add(delay);
        if delay > Nanos::ZERO {
            if self.deadline.is_some_and(|deadline| deadline < leaves) {
                return Err(too_long(self.arrived_at, leaves).into());
            }
            let slot = self.enter(None, Some(leaves)).await?;
            Box::pin(slot.leave_at(leaves)).await;
        }
        Ok(AcquireStep::End(self.finish_admitted(taken, leaves)))
    }

    fn finish_admitted(&self, mut taken: AcquireRefundGuard<'a, R>, leaves: Timestamp) -> AcquireOutput<R::Units> {
        let waited_ns = leaves.as_nanos().saturating_sub(self.arrived_at.as_nanos());
        match taken.units.take() {
            Some(given) => AcquireOutput { units: given, waited: Nanos::new(u128::from(waited_ns)) },
            None => unreachable!("what was taken is given once"),
        }
    }

    /// Waits for its turn.
    async fn wait_for_head(&self, slot: TaskSlot<'a, R>) -> AcquireStep<'a, R> {
        let woken = slot.until_head(JoinPolicy::Join, || false).await;
        AcquireStep::Woken(slot, woken)
    }

    async fn until_due(&self, slot: &mut TaskSlot<'a, R>, due: Timestamp, wakes: u64) -> WakeReason {
        let pace = self.request.release_rate(self.request.clock().now());
        slot.until_due(Postponement { due, release_rate: pace, wakes }, self.request.forecaster(), || false).await
    }

    async fn enter(
        &self,
        ticket: Option<super::wait_queue::Ticket>,
        leaves: Option<Timestamp>,
    ) -> Result<TaskSlot<'a, R>, Refusal> {
        let Self { request, arrived_at: arrived, deadline } = *self;
        let newcomer = NewWaiter { ticket, cost: request.cost(), entered_at: arrived, deadline, leaves_at: leaves };
        QueueSlot::enter(request.queues(), request.clock(), request.key(), newcomer, request.forecaster())
            .await
    }

    async fn attempt(&self, at: Timestamp) -> Result<Attempt<R::Units>, AcquireFailure<R::Error>> {
        let attempted = match self.request.attempt_now(at) {
            Some(attempted) => attempted,
            None => self.request.attempt_later(at).await,
        };
        attempted.map_err(AcquireFailure::Error)
    }

    fn wait_context(&self, since: Timestamp, at: Timestamp, now: Timestamp, is_watched: bool) -> WaitContext {
        WaitContext {
            entered_at: since,
            decided_at: at,
            now,
            deadline: self.deadline,
            next_expiry: self.request.next_expiry(at),
            is_forecastable: self.request.is_forecastable(now),
            has_forecaster: self.request.forecaster().is_some(),
            is_watched,
        }
    }
}

impl<R: Acquire> Drop for AcquireRefundGuard<'_, R> {
    fn drop(&mut self) {
        if let Some(given) = &self.units {
            self.request.refund(given);
        }
    }
}
