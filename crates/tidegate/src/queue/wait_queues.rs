//! The wait queues of a limiter or an engine, one for each key that requests wait for.
//!
//! No lock is held while the store is asked. Units may come back during the call, so a refund or a release counts a
//! wake in the queue of its key. The head reads the count before it asks, and compares it, with the queue locked,
//! before it sleeps. If the count has changed, the head asks again. A request that asks before it is in a queue
//! [observes](WaitQueues::observe) the queue of each key that it may have to wait for, so that wakes are counted there.
//!
//! An admitted request knows how many units remain. If they are enough for requests behind it, those ask at the same
//! time. One after the other, they would be limited to one per round trip, however high the limit is. They keep their
//! positions meanwhile. As soon as one of them has to wait, only the head asks again.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

use foldhash::fast::RandomState;
use tidegate_core::{ReleaseRate, Timestamp};

use super::Refusal;
use super::forecast::{Forecast, Forecaster};
use super::wait_queue::{Exit, Ticket, WaitQueue, Waiter};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

#[cfg(feature = "rules")]
use super::wait_queue::Wakers;

/// Queues are spread over several locks, so that keys do not contend.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };
/// The most requests that wait for one limiter or one engine, for all keys together.
pub const WAITERS_MAX: u64 = 1 << 20;
/// The most requests that may ask after one admission.
const ASK_AHEAD_MAX: usize = 256;

/// All wait queues of a limiter or an engine.
pub(crate) struct WaitQueues {
    shards: Box<[Mutex<QueueShard>]>,
    hasher: RandomState,
    /// The most requests in one queue.
    queue_max: AtomicUsize,
    /// The most requests in all queues.
    waiters_max: std::sync::atomic::AtomicU64,
    waiters: AtomicU64,
    /// Numbers tickets across all queues, so that a request keeps its position when it moves to another queue. Not
    /// loom's atomic: the protocol does not depend on it.
    next_ticket: std::sync::atomic::AtomicU64,
}

type QueueShard = HashMap<Box<[u8]>, WaitQueue, RandomState>;

/// The position of a request in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// It is the head.
    Head {
        context: AskContext,
        /// The next deadline of the requests behind it. The head enforces it, because only the head has a timer.
        next_deadline_behind: Option<Timestamp>,
        /// Whether another request was admitted since this one had to wait, and there may be units for this one too.
        may_ask: bool,
    },
    /// It is behind the head, and there may be units for it too.
    MayJoin(AskContext),
    /// It is behind the head, and will be woken.
    Behind,
    /// It stops waiting.
    Refused(Refusal),
}

/// What a request needs to know when it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskContext {
    /// How often units may have come back.
    pub wakes: u64,
    /// When the last request left, or units came back. No request is decided as of an earlier instant.
    pub not_before: Timestamp,
}

/// Why and until when the head has to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Postponement {
    /// When to ask again.
    pub due: Timestamp,
    /// How fast requests follow it, if it is known.
    pub release_rate: Option<ReleaseRate>,
    /// How often units may have come back before it asked.
    pub wakes: u64,
}

/// What a request that has to wait does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostponeResult {
    /// It sleeps.
    Sleeps,
    /// It asks again, because units may have come back since it asked.
    AsksAgain,
    /// It cannot be admitted in time.
    Refused(Refusal),
}

/// An admission from the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// When the request leaves.
    pub leaves_at: Timestamp,
    /// The units that remain for requests behind it. Zero if they have to ask one after the other.
    pub remaining_units: u64,
}

/// The entry of a request in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueEntry {
    pub ticket: Ticket,
    /// How often units may have come back to this queue.
    pub wakes: u64,
}

/// Keeps a queue, so that wakes are counted there, for a request that asks without being in it.
pub(crate) struct QueueObserver<'q> {
    queues: &'q WaitQueues,
    key: Box<[u8]>,
    /// How often units may have come back before the request asked.
    pub wakes: u64,
}

impl WaitQueues {
    pub(crate) fn new(queue_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(QueueShard::default())).collect();
        Self {
            shards,
            hasher: RandomState::default(),
            queue_max: AtomicUsize::new(queue_max),
            waiters_max: std::sync::atomic::AtomicU64::new(WAITERS_MAX),
            waiters: AtomicU64::new(0),
            next_ticket: std::sync::atomic::AtomicU64::new(0),
        }
    }

    pub(crate) fn queue_max(&self) -> usize {
        self.queue_max.load(Relaxed)
    }

    #[cfg(feature = "rules")]
    pub(crate) fn set_queue_max(&self, queue_max: usize) {
        self.queue_max.store(queue_max, Relaxed);
    }

    /// Sets the most requests in all queues, at most [`WAITERS_MAX`].
    #[cfg(feature = "rules")]
    pub(crate) fn set_waiters_max(&self, waiters_max: u64) {
        self.waiters_max.store(waiters_max.min(WAITERS_MAX), Relaxed);
    }

    /// How many requests wait, in all queues.
    #[cfg(any(feature = "rules", all(test, loom)))]
    pub(crate) fn waiters(&self) -> u64 {
        self.waiters.load(Ordering::Relaxed)
    }

    /// A ticket after all earlier ones.
    pub(crate) fn next_ticket(&self) -> Ticket {
        Ticket::new(self.next_ticket.fetch_add(1, Relaxed))
    }

    /// The head of a queue.
    pub(crate) fn head(&self, key: &[u8]) -> Option<Ticket> {
        self.lock(key).get(key).and_then(WaitQueue::head)
    }

    /// Keeps the queue of a key, so that wakes are counted there.
    pub(crate) fn observe(&self, key: &[u8]) -> QueueObserver<'_> {
        let mut shard = self.lock(key);
        let queue = shard.entry(key.into()).or_default();
        queue.observers += 1;
        QueueObserver { queues: self, key: key.into(), wakes: queue.wakes }
    }

    /// Enters the queue of a key, unless the request is known to be too late.
    pub(crate) fn enter<F: Forecaster>(
        &self,
        key: &[u8],
        waiter: Waiter,
        forecaster: Option<&F>,
    ) -> Result<QueueEntry, Refusal> {
        let mut shard = self.lock(key);
        if !shard.contains_key(key) {
            shard.insert(key.into(), WaitQueue::default());
        }
        let Some(queue) = shard.get_mut(key) else { unreachable!("it was inserted") };
        let entered = match (self.is_full(queue.len()), forecaster) {
            (true, _) => Err(Refusal::QueueFull),
            (false, Some(forecaster)) => self.enter_with_forecast(queue, waiter, forecaster),
            (false, None) => self.enter_without_forecast(queue, waiter),
        };
        let wakes = queue.wakes;
        self.finish(shard, key);
        entered.map(|ticket| QueueEntry { ticket, wakes })
    }

    fn enter_without_forecast(&self, queue: &mut WaitQueue, mut waiter: Waiter) -> Result<Ticket, Refusal> {
        let has_waiters_behind = queue.has_waiters_behind(waiter.ticket);
        if waiter.leaves_at.is_none() && !has_waiters_behind {
            let refusal = queue.refusal_by_deadline(&waiter).or_else(|| queue.refusal_by_rate(&mut waiter));
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
        }
        let ticket = self.insert(queue, waiter);
        queue.wake_head_for_deadline(ticket);
        if has_waiters_behind {
            queue.forecast_all_by_rate();
        }
        Ok(ticket)
    }

    /// No forecast is made while the head asks, because its units may or may not be counted already.
    fn enter_with_forecast(
        &self,
        queue: &mut WaitQueue,
        mut waiter: Waiter,
        forecaster: &impl Forecaster,
    ) -> Result<Ticket, Refusal> {
        if waiter.leaves_at.is_some() || queue.is_asking {
            queue.has_unforecast_waiter = true;
            return Ok(self.insert(queue, waiter));
        }
        let now = waiter.arrived_at;
        let has_waiters_behind = queue.has_waiters_behind(waiter.ticket);
        if !has_waiters_behind && let Some(refusal) = queue.refusal_by_forecast(forecaster, &mut waiter) {
            return Err(refusal);
        }
        let ticket = self.insert(queue, waiter);
        if has_waiters_behind {
            queue.on_entered_before_waiters(forecaster, ticket, now);
        } else if !forecaster.is_forecastable(now) {
            queue.wake_head_for_deadline(ticket);
        }
        Ok(ticket)
    }

    fn insert(&self, queue: &mut WaitQueue, waiter: Waiter) -> Ticket {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let ticket = waiter.ticket.unwrap_or_else(|| self.next_ticket());
        let leaves_at = waiter.leaves_at;
        queue.enter(ticket, waiter);
        if let Some(leaves_at) = leaves_at {
            queue.set_admitted(ticket, leaves_at);
        }
        ticket
    }

    /// Marks that the head is about to ask a store that has forecasts.
    pub(crate) fn begin_ask(&self, key: &[u8], ticket: Ticket) {
        self.with_queue(key, |queue| queue.is_asking = queue.head() == Some(ticket));
    }

    /// The position of a request. Sets the waker that is woken when the position changes.
    pub(crate) fn poll_position(&self, key: &[u8], ticket: Ticket, waker: &Waker) -> Position {
        self.with_queue(key, |queue| queue.poll_position(ticket, waker)).unwrap_or(Position::Behind)
    }

    /// A request has to wait. If it is the head, requests behind it that cannot wait so long are refused. Otherwise it
    /// asks again once it is the head.
    pub(crate) fn postpone<F: Forecaster>(
        &self,
        key: &[u8],
        ticket: Ticket,
        postponement: Postponement,
        forecast: Option<Forecast<'_, F>>,
    ) -> PostponeResult {
        let postponed = self.with_queue(key, |queue| queue.postpone(ticket, postponement, forecast));
        postponed.unwrap_or(PostponeResult::AsksAgain)
    }

    /// A waiting request was admitted, and stays in the queue until its delay is over.
    pub(crate) fn admit_delayed<F: Forecaster>(
        &self,
        key: &[u8],
        ticket: Ticket,
        leaves_at: Timestamp,
        forecast: Option<Forecast<'_, F>>,
    ) {
        self.with_queue(key, |queue| {
            let forecast_at = queue.waiters.get(&ticket).and_then(|waiter| waiter.forecast_leaves_at);
            queue.set_admitted(ticket, leaves_at);
            match forecast {
                Some(forecast) => queue.on_admitted(forecast_at, leaves_at, forecast),
                None => queue.refuse_if(|deadline| deadline < leaves_at),
            }
        });
    }

    /// An admitted request leaves the queue. Requests behind it may ask if the remaining units are enough for them.
    pub(crate) fn leave_admitted<F: Forecaster>(
        &self,
        key: &[u8],
        ticket: Ticket,
        admission: Admission,
        forecast: Option<Forecast<'_, F>>,
    ) {
        self.count_departure();
        self.with_queue(key, |queue| {
            let forecast_at = queue.waiters.get(&ticket).and_then(|waiter| waiter.forecast_leaves_at);
            queue.leave(ticket, Exit::Admitted);
            match forecast {
                Some(forecast) => {
                    queue.last_left_at = match queue.head_is_admitted() {
                        true => queue.last_left_at.max(admission.leaves_at),
                        false => admission.leaves_at,
                    };
                    queue.on_admitted(forecast_at, admission.leaves_at, forecast);
                }
                None => queue.let_behind_ask(admission.remaining_units),
            }
        });
    }

    /// A request leaves the queue, admitted or dropped.
    pub(crate) fn leave(&self, key: &[u8], ticket: Ticket, exit: Exit) {
        self.count_departure();
        self.with_queue(key, |queue| queue.leave(ticket, exit));
    }

    /// Refuses requests behind the head whose deadline has passed.
    pub(crate) fn refuse_expired(&self, key: &[u8], head: Ticket, now: Timestamp) {
        self.with_queue(key, |queue| queue.refuse_expired(head, now));
    }

    /// Wakes the head of a queue: units may have come back.
    pub(crate) fn wake(&self, key: &[u8], now: Timestamp) {
        self.with_queue(key, |queue| queue.wake(now));
    }

    /// Wakes the heads of all queues: the limits or a signal have changed.
    #[cfg(feature = "rules")]
    pub(crate) fn wake_all(&self, now: Timestamp) {
        self.wake_changed(now, |_| true);
    }

    /// Wakes the heads of the queues whose limits have changed.
    #[cfg(feature = "rules")]
    pub(crate) fn wake_changed(&self, now: Timestamp, has_changed: impl Fn(&[u8]) -> bool) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            let wake = |(_, queue): (_, &mut WaitQueue)| {
                queue.wake_after_change(now);
                queue.take_wakers()
            };
            let changed = shard.iter_mut().filter(|(key, _)| has_changed(key));
            let wakers: Vec<Wakers> = changed.map(wake).collect();
            drop(shard);
            wakers.iter().flat_map(|wakers| &wakers.woken).for_each(Waker::wake_by_ref);
        }
    }

    fn count_departure(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_full(&self, in_queue: usize) -> bool {
        in_queue >= self.queue_max() || self.waiters.load(Ordering::Relaxed) >= self.waiters_max.load(Relaxed)
    }

    /// Runs `f` on the queue of a key, if there is one.
    fn with_queue<R>(&self, key: &[u8], f: impl FnOnce(&mut WaitQueue) -> R) -> Option<R> {
        let mut shard = self.lock(key);
        let result = shard.get_mut(key).map(f);
        self.finish(shard, key);
        result
    }

    fn lock(&self, key: &[u8]) -> MutexGuard<'_, QueueShard> {
        #[allow(clippy::cast_possible_truncation, reason = "below SHARDS")]
        let number = if SHARDS == 1 { 0 } else { self.hasher.hash_one(key) as usize % SHARDS };
        lock(&self.shards[number])
    }

    /// Unlocks, and then wakes: a woken request may run immediately and take the lock.
    fn finish(&self, mut shard: MutexGuard<'_, QueueShard>, key: &[u8]) {
        let Some(queue) = shard.get_mut(key) else { return };
        let wakers = queue.take_wakers();
        if queue.is_unused() {
            shard.remove(key);
        }
        drop(shard);
        wakers.woken.iter().for_each(Waker::wake_by_ref);
    }
}

impl Drop for QueueObserver<'_> {
    fn drop(&mut self) {
        self.queues.with_queue(&self.key, |queue| queue.observers -= 1);
    }
}

impl WaitQueue {
    fn poll_position(&mut self, ticket: Ticket, waker: &Waker) -> Position {
        if let Some(refusal) = self.refused.get(&ticket) {
            return Position::Refused(*refusal);
        }
        self.set_waker(ticket, waker);
        let context = AskContext { wakes: self.wakes, not_before: self.last_left_at };
        let may_ask = self.may_ask_up_to.is_some_and(|last| ticket <= last);
        if self.head() != Some(ticket) {
            return if may_ask { Position::MayJoin(context) } else { Position::Behind };
        }
        let mut deadlines_behind = self.deadlines.iter().filter(|(_, other)| *other != ticket);
        let next_deadline_behind = deadlines_behind.next().map(|(deadline, _)| *deadline);
        Position::Head { context, next_deadline_behind, may_ask }
    }

    /// Lets requests behind the head ask if `remaining_units` are enough for them. A request that may already ask is not
    /// woken again.
    fn let_behind_ask(&mut self, mut remaining_units: u64) {
        let before = self.may_ask_up_to;
        let mut fits = Vec::new();
        for (ticket, waiter) in self.waiters.iter().take(ASK_AHEAD_MAX) {
            let Some(rest) = remaining_units.checked_sub(waiter.cost) else { break };
            remaining_units = rest;
            if Some(*ticket) > before {
                fits.push(*ticket);
            }
        }
        for ticket in fits {
            self.may_ask_up_to = Some(ticket);
            self.wake_one(ticket);
        }
    }

    fn postpone<F: Forecaster>(
        &mut self,
        ticket: Ticket,
        postponement: Postponement,
        forecast: Option<Forecast<'_, F>>,
    ) -> PostponeResult {
        let Postponement { due, release_rate, wakes } = postponement;
        self.is_asking &= self.head() != Some(ticket);
        if self.may_ask_up_to >= Some(ticket) {
            self.may_ask_up_to = None;
        }
        if self.wakes != wakes || self.head() != Some(ticket) {
            return PostponeResult::AsksAgain;
        }
        match forecast {
            Some(forecast) => self.on_postponed(ticket, due, forecast),
            None => self.on_postponed_by_rate(ticket, due, release_rate),
        }
        self.refused.get(&ticket).map_or(PostponeResult::Sleeps, |refusal| PostponeResult::Refused(*refusal))
    }

    fn refuse_expired(&mut self, head: Ticket, now: Timestamp) {
        let due = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
        let late: Vec<Ticket> = due.map(|(_, ticket)| *ticket).filter(|ticket| *ticket != head).collect();
        late.into_iter().for_each(|ticket| self.refuse(ticket, Refusal::TooLong { wait: None }));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::queue::forecast::testing::{NoForecaster, no_forecast};

    const KEY: &[u8] = b"key";

    fn enter(queues: &WaitQueues) -> Ticket {
        let waiter = Waiter {
            ticket: None,
            cost: 1,
            arrived_at: Timestamp::from_nanos(0),
            deadline: None,
            forecast_leaves_at: None,
            leaves_at: None,
            waker: Waker::noop().clone(),
        };
        queues.enter(KEY, waiter, None::<&NoForecaster>).unwrap().ticket
    }

    fn may_ask(queues: &WaitQueues, ticket: Ticket) -> bool {
        match queues.poll_position(KEY, ticket, Waker::noop()) {
            Position::Head { may_ask, .. } => may_ask,
            position => matches!(position, Position::MayJoin(_)),
        }
    }

    /// Two requests ask at the same time. The head has to wait, and then units come back for the other one.
    #[test]
    fn the_head_does_not_sleep_while_requests_behind_it_ask() {
        let queues = WaitQueues::new(10);
        let [head, second, third] = [(); 3].map(|()| enter(&queues));
        let postponement = Postponement { due: Timestamp::from_nanos(9), release_rate: None, wakes: 0 };
        assert_eq!(queues.postpone(KEY, head, postponement, no_forecast()), PostponeResult::Sleeps);
        assert_eq!([head, third].map(|ticket| may_ask(&queues, ticket)), [false, false]);
        let admission = Admission { leaves_at: Timestamp::from_nanos(0), remaining_units: 5 };
        queues.leave_admitted(KEY, second, admission, no_forecast());
        assert_eq!([head, third].map(|ticket| may_ask(&queues, ticket)), [true, true]);
        assert_eq!(queues.postpone(KEY, head, postponement, no_forecast()), PostponeResult::Sleeps);
        assert_eq!([head, third].map(|ticket| may_ask(&queues, ticket)), [false, false]);
    }

    /// A wake of one key does not make requests for another key ask again.
    #[test]
    fn wakes_are_counted_for_each_key() {
        let queues = WaitQueues::new(10);
        let [one, other] = [KEY, b"other"].map(|key| queues.observe(key));
        queues.wake(KEY, Timestamp::from_nanos(0));
        assert_ne!(queues.observe(KEY).wakes, one.wakes);
        assert_eq!(queues.observe(b"other").wakes, other.wakes);
        drop((one, other));
        assert_eq!(queues.shards.iter().map(|shard| lock(shard).len()).sum::<usize>(), 0);
    }
}
