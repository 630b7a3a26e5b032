//! A request that waits for a limiter: it comes, enters the queue of its key if it has to wait, asks when it is its turn, and
//! leaves.
//!
//! Over the memory store a request asks as it comes, if no request waits, and again as the head of the queue. A shared store is not
//! asked twice: a request that has to wait enters the queue with the reply it got, unless units came back since.

use std::pin::Pin;
use std::time::Duration;

use tidegate_core::{Nanos, Pace, Timestamp, Wait};

use super::Refusal;
use super::forecast::Forecaster;
use super::queue::too_long;
use super::queues::{Admission, Postponement, Queues, Turn};
use super::slot::{Company, Delayed, Newcomer, QueueSlot, Woken};
use crate::store::Watch;
use crate::{Clock, Timer};

/// A request for units of one key.
pub(crate) trait Acquire {
    type Clock: Timer;
    type Forecaster: Forecaster;
    /// What it leaves with.
    type Given;
    /// Why it cannot be decided.
    type Error;

    fn clock(&self) -> &Self::Clock;
    fn queues(&self) -> &Queues;
    fn key(&self) -> &[u8];
    fn cost(&self) -> u64;

    /// Asks a store that answers at once, and takes the units if they are admitted. None if the store answers later.
    fn attempt_now(&self, at: Timestamp) -> Option<Attempted<Self>>;

    /// Asks a store that answers later. It is in a box, because a request that waits in memory would have to make room for it.
    fn attempt_later(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = Attempted<Self>> + Send + '_>>;

    /// Gives back what an attempt took, and wakes requests that wait for it.
    fn give_back(&self, given: &Self::Given);

    /// Lets the store tell when other nodes release leases, if it can.
    fn watch(&self) -> Option<Watch>;

    /// Exact forecasts, if the counters are in memory.
    fn forecaster(&self) -> Option<&Self::Forecaster>;

    /// Whether the limits alone say when they admit a request. Leases are released at any time.
    fn is_foreseeable(&self, now: Timestamp) -> bool;

    /// When the next superseded counter is not enforced any more.
    fn retires(&self, now: Timestamp) -> Option<Timestamp>;

    /// How fast requests follow one another, if that is known.
    fn pace(&self, now: Timestamp) -> Option<Pace>;
}

/// The result of asking, or why nothing could be decided.
pub(crate) type Attempted<R> = Result<Attempt<<R as Acquire>::Given>, <R as Acquire>::Error>;

/// The result of asking.
pub(crate) enum Attempt<G> {
    /// The units were taken.
    Admitted {
        given: G,
        /// How long the request is to be delayed.
        delay: Nanos,
        /// The units that are left.
        remaining: u64,
    },
    /// Not before this wait is over.
    Wait(Wait),
}

/// A request that was admitted.
pub(crate) struct Acquired<G> {
    pub given: G,
    /// From when it came until it was due to leave.
    pub waited: Nanos,
}

/// Why a request was not admitted.
pub(crate) enum Failure<E> {
    Refused(Refusal),
    /// Nothing could be decided.
    Error(E),
}

impl<E> From<Refusal> for Failure<E> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Waits until the units are admitted, for at most `max_wait`.
pub(crate) async fn acquire<R: Acquire>(
    request: &R,
    max_wait: Option<Duration>,
) -> Result<Acquired<R::Given>, Failure<R::Error>> {
    let arrived = request.clock().now();
    let deadline = max_wait.map(|max_wait| arrived.saturating_add(Nanos::new(max_wait.as_nanos())));
    Waiting { request, arrived, deadline }.run().await
}

struct Waiting<'a, R: Acquire> {
    request: &'a R,
    arrived: Timestamp,
    deadline: Option<Timestamp>,
}

/// Units that are given back when this is dropped.
struct Taken<'a, R: Acquire> {
    request: &'a R,
    given: Option<R::Given>,
}

type Slot<'a, R> = QueueSlot<'a, <R as Acquire>::Clock>;
type Ended<R> = Result<Acquired<<R as Acquire>::Given>, Failure<<R as Acquire>::Error>>;

/// What comes next.
enum Next<'a, R: Acquire> {
    Woken(Slot<'a, R>, Woken),
    End(Acquired<R::Given>),
}

impl<'a, R: Acquire> Waiting<'a, R> {
    /// Most requests that wait are behind others, so what only the head of a queue does is in boxes: the future of a request is
    /// small while it waits.
    async fn run(self) -> Ended<R> {
        let request = self.request;
        let mut next = self.arrive().await?;
        loop {
            next = match next {
                Next::End(acquired) => return Ok(acquired),
                Next::Woken(_, Woken::Refused(refusal)) => return Err(refusal.into()),
                Next::Woken(mut slot, Woken::Head(turn)) => {
                    if request.forecaster().is_none() && !request.is_foreseeable(request.clock().now()) {
                        slot.watch(|| request.watch());
                    }
                    Box::pin(self.ask(slot, turn)).await?
                }
                Next::Woken(slot, Woken::Joins(turn)) => Box::pin(self.ask(slot, turn)).await?,
                Next::Woken(slot, Woken::Changed) => self.stand(slot).await,
            };
        }
    }

    /// It comes, and asks unless others wait.
    async fn arrive(&self) -> Result<Next<'a, R>, Failure<R::Error>> {
        let Self { request, arrived, .. } = *self;
        if request.queues().head(request.key()).is_none() {
            match request.attempt_now(arrived) {
                None => return Box::pin(self.arrive_later()).await,
                Some(attempted) => {
                    if let Attempt::Admitted { given, delay, .. } = attempted.map_err(Failure::Error)? {
                        return self.admitted_at_once(given, delay).await;
                    }
                }
            }
        }
        Ok(self.stand(self.enter(None, None).await?).await)
    }

    /// It comes, no request waits, and the store answers later.
    async fn arrive_later(&self) -> Result<Next<'a, R>, Failure<R::Error>> {
        let Self { request, arrived, .. } = *self;
        // If it has to wait, it does so before all that come while it asks.
        let ticket = request.queues().next_ticket();
        let observed = request.queues().observe(request.key());
        let wait = match self.attempt(arrived).await? {
            Attempt::Admitted { given, delay, .. } => return self.admitted_at_once(given, delay).await,
            Attempt::Wait(wait) => wait,
        };
        let now = request.clock().now();
        let due = self.delayed(arrived, now, now, false).due(wait)?;
        let mut slot = self.enter(Some(ticket), None).await?;
        // Leases may have been released since it asked, which it hears of once it watches them.
        if slot.wakes() != observed.wakes || !request.is_foreseeable(now) {
            return Ok(self.stand(slot).await);
        }
        let woken = self.until_due(&mut slot, due, observed.wakes).await;
        Ok(Next::Woken(slot, woken))
    }

    /// It asks, and leaves with what it got or waits.
    async fn ask(&self, mut slot: Slot<'a, R>, turn: Turn) -> Result<Next<'a, R>, Failure<R::Error>> {
        let request = self.request;
        let forecaster = request.forecaster();
        let mut now = request.clock().now();
        let mut at = now;
        if let Some(forecaster) = forecaster {
            at = slot.since.max(turn.left).max(forecaster.earliest(now)).min(now);
            slot.begin_ask();
        } else if self.deadline.is_some_and(|deadline| deadline < now) {
            return Err(Refusal::TooLong { wait: None }.into());
        }
        loop {
            let wait = match self.attempt(at).await? {
                Attempt::Admitted { given, delay, remaining } => {
                    let taken = Taken { request, given: Some(given) };
                    let leaves = at.saturating_add(delay);
                    if self.deadline.is_some_and(|deadline| deadline < leaves) {
                        drop(slot);
                        return Err(too_long(self.arrived, leaves).into());
                    }
                    if leaves > now {
                        slot.hold(leaves, forecaster).await;
                    } else {
                        let left_units = if forecaster.is_some() { 0 } else { remaining };
                        slot.leave(Admission { leaves, left_units }, forecaster);
                    }
                    return Ok(Next::End(self.acquired(taken, leaves)));
                }
                Attempt::Wait(wait) => wait,
            };
            // A shared store decides when it is asked, by its own clock.
            if forecaster.is_none() {
                now = request.clock().now();
                at = now;
            }
            let due = self.delayed(slot.since, at, now, slot.is_watched()).due(wait)?;
            if forecaster.is_some() && due <= now {
                at = due;
                continue;
            }
            let woken = self.until_due(&mut slot, due, turn.wakes).await;
            return Ok(Next::Woken(slot, woken));
        }
    }

    /// It was admitted as it came, and leaves when its delay is over.
    async fn admitted_at_once(
        &self,
        given: R::Given,
        delay: Nanos,
    ) -> Result<Next<'a, R>, Failure<R::Error>> {
        let taken = Taken { request: self.request, given: Some(given) };
        let leaves = self.arrived.saturating_add(delay);
        if delay > Nanos::ZERO {
            if self.deadline.is_some_and(|deadline| deadline < leaves) {
                return Err(too_long(self.arrived, leaves).into());
            }
            let slot = self.enter(None, Some(leaves)).await?;
            Box::pin(slot.held_until(leaves)).await;
        }
        Ok(Next::End(self.acquired(taken, leaves)))
    }

    fn acquired(&self, mut taken: Taken<'a, R>, leaves: Timestamp) -> Acquired<R::Given> {
        let waited_ns = leaves.as_nanos().saturating_sub(self.arrived.as_nanos());
        match taken.given.take() {
            Some(given) => Acquired { given, waited: Nanos::new(u128::from(waited_ns)) },
            None => unreachable!("what was taken is given once"),
        }
    }

    /// Waits for its turn.
    async fn stand(&self, slot: Slot<'a, R>) -> Next<'a, R> {
        let woken = slot.until_head(Company::Joins, || false).await;
        Next::Woken(slot, woken)
    }

    async fn until_due(&self, slot: &mut Slot<'a, R>, due: Timestamp, wakes: u64) -> Woken {
        let pace = self.request.pace(self.request.clock().now());
        slot.until_due(Postponement { due, pace, wakes }, self.request.forecaster(), || false).await
    }

    async fn enter(
        &self,
        ticket: Option<super::queue::Ticket>,
        leaves: Option<Timestamp>,
    ) -> Result<Slot<'a, R>, Refusal> {
        let Self { request, arrived, deadline } = *self;
        let newcomer = Newcomer { ticket, cost: request.cost(), since: arrived, deadline, leaves };
        QueueSlot::enter(request.queues(), request.clock(), request.key(), newcomer, request.forecaster())
            .await
    }

    async fn attempt(&self, at: Timestamp) -> Result<Attempt<R::Given>, Failure<R::Error>> {
        let attempted = match self.request.attempt_now(at) {
            Some(attempted) => attempted,
            None => self.request.attempt_later(at).await,
        };
        attempted.map_err(Failure::Error)
    }

    fn delayed(&self, since: Timestamp, at: Timestamp, now: Timestamp, is_watched: bool) -> Delayed {
        Delayed {
            since,
            at,
            now,
            deadline: self.deadline,
            retires: self.request.retires(at),
            is_foreseeable: self.request.is_foreseeable(now),
            is_forecast: self.request.forecaster().is_some(),
            is_watched,
        }
    }
}

impl<R: Acquire> Drop for Taken<'_, R> {
    fn drop(&mut self) {
        if let Some(given) = &self.given {
            self.request.give_back(given);
        }
    }
}
