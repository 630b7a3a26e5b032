//! The wait queues of a limiter or an engine, one for each key that a request waits for.
//!
//! No lock is held while a store is asked. Units may come back meanwhile, so a refund or a release counts a wake in the queue of its
//! key. The head reads the count before it asks, and compares it, with the queue locked, before it sleeps: if it has changed, the
//! head asks again. A request that asks before it is in a queue [observes](Queues::observe) the queue of each key that it may have to
//! wait for, so that wakes are counted there.
//!
//! A request that was admitted knows how much is left. Where that is enough for requests behind it, they ask at once and together:
//! one after the other they would go no faster than a round trip each, however high the limit is. They keep their positions
//! meanwhile, and as soon as one of them has to wait, only the head asks again.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Waker;

use foldhash::fast::RandomState;
use tidegate_core::{ReleaseRate, Timestamp};

use super::Refusal;
use super::forecast::{Forecast, Forecaster};
#[cfg(feature = "rules")]
use super::wait_queue::Wakers;
use super::wait_queue::{Exit, WaitQueue, Ticket, Waiter};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// Queues are spread over locks, so that keys do not wait for each other.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };
/// The most requests that wait for one limiter, or one engine, whatever their keys.
pub const WAITERS_MAX: u64 = 1 << 20;
/// The most requests that one admission lets ask together.
const ASK_AHEAD_MAX: usize = 256;

/// All wait queues of a limiter or an engine.
pub(crate) struct WaitQueues {
    shards: Box<[Mutex<QueueShard>]>,
    hasher: RandomState,
    /// The most requests in one queue.
    queue_max: AtomicUsize,
    waiters: AtomicU64,
    /// Counted over all queues, so that a request keeps its position when it moves to another queue. There is nothing in it for the
    /// model checker.
    next_ticket: std::sync::atomic::AtomicU64,
}

type QueueShard = HashMap<Box<[u8]>, WaitQueue, RandomState>;

/// Where a request is in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// It is the head.
    Head {
        context: AskContext,
        /// When the next of the requests behind it gives up. The head sees to that, because it has a timer.
        next_deadline_behind: Option<Timestamp>,
        /// Whether another request was admitted since this one had to wait, and there may be room for it too.
        may_ask: bool,
    },
    /// It is behind others, and there may be room for it too.
    MayJoin(AskContext),
    /// It is behind others, and will be woken.
    Behind,
    /// It does not wait any longer.
    Refused(Refusal),
}

/// What a request that asks goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskContext {
    /// How often units may have come back.
    pub wakes: u64,
    /// When the last request left, or units came back: no request is decided as of an earlier instant.
    pub not_before: Timestamp,
}

/// The head has to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Postponement {
    /// When it is to ask again.
    pub due: Timestamp,
    /// How fast requests follow it, as far as is known.
    pub release_rate: Option<ReleaseRate>,
    /// How often units may have come back before it asked.
    pub wakes: u64,
}

/// What becomes of a request that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostponeResult {
    /// It waits.
    Sleeps,
    /// Units may have come back since it asked.
    AsksAgain,
    /// It cannot be admitted in time.
    Refused(Refusal),
}

/// How a request was admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// When it leaves.
    pub leaves_at: Timestamp,
    /// The units that were left, for requests behind it; none if they ask one after the other.
    pub remaining_units: u64,
}

/// A position that a request got in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueEntry {
    pub ticket: Ticket,
    /// How often units may have come back to this queue.
    pub wakes: u64,
}

/// A queue that is kept, so that wakes are counted there, while a request asks that is not in it.
pub(crate) struct QueueObserver<'q> {
    queues: &'q WaitQueues,
    key: Box<[u8]>,
    /// How often units may have come back before it asked.
    pub wakes: u64,
}

impl WaitQueues {
    pub(crate) fn new(queue_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(QueueShard::default())).collect();
        Self {
            shards,
            hasher: RandomState::default(),
            queue_max: AtomicUsize::new(queue_max),
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

    /// How many requests wait, in all queues.
    #[cfg(any(feature = "rules", all(test, loom)))]
    pub(crate) fn waiters(&self) -> u64 {
        self.waiters.load(Ordering::Relaxed)
    }

    /// A position among all that come, behind those that have one.
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

    /// A request enters a queue, unless it is known to come too late.
    pub(crate) fn enter<F: Forecaster>(
        &self,
        key: &[u8],
        newcomer: Waiter,
        forecaster: Option<&F>,
    ) -> Result<QueueEntry, Refusal> {
        let mut shard = self.lock(key);
        if !shard.contains_key(key) {
            shard.insert(key.into(), WaitQueue::default());
        }
        let Some(queue) = shard.get_mut(key) else { unreachable!("it was inserted") };
        let entered = match (self.is_full(queue.len()), forecaster) {
            (true, _) => Err(Refusal::QueueFull),
            (false, Some(forecaster)) => self.enter_with_forecast(queue, newcomer, forecaster),
            (false, None) => self.enter_without_forecast(queue, newcomer),
        };
        let wakes = queue.wakes;
        self.finish(shard, key);
        entered.map(|ticket| QueueEntry { ticket, wakes })
    }

    fn enter_without_forecast(&self, queue: &mut WaitQueue, mut newcomer: Waiter) -> Result<Ticket, Refusal> {
        let is_before_others = queue.is_before_others(newcomer.ticket);
        if newcomer.leaves_at.is_none() && !is_before_others {
            let refusal = queue.refusal_by_deadline(&newcomer).or_else(|| queue.refusal_by_rate(&mut newcomer));
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
        }
        let ticket = self.insert(queue, newcomer);
        queue.wake_head_for_deadline(ticket);
        if is_before_others {
            queue.forecast_all_by_rate();
        }
        Ok(ticket)
    }

    /// No forecast is made while the head asks: its units may be counted already or not.
    fn enter_with_forecast(
        &self,
        queue: &mut WaitQueue,
        mut newcomer: Waiter,
        forecaster: &impl Forecaster,
    ) -> Result<Ticket, Refusal> {
        if newcomer.leaves_at.is_some() || queue.is_asking {
            queue.has_unforecast_waiter = true;
            return Ok(self.insert(queue, newcomer));
        }
        let now = newcomer.arrived_at;
        let is_before_others = queue.is_before_others(newcomer.ticket);
        if !is_before_others && let Some(refusal) = queue.refusal_by_forecast(forecaster, &mut newcomer) {
            return Err(refusal);
        }
        let ticket = self.insert(queue, newcomer);
        if is_before_others {
            queue.on_entered_before_others(forecaster, ticket, now);
        } else if !forecaster.is_forecastable(now) {
            queue.wake_head_for_deadline(ticket);
        }
        Ok(ticket)
    }

    fn insert(&self, queue: &mut WaitQueue, waiter: Waiter) -> Ticket {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let ticket = waiter.ticket.unwrap_or_else(|| self.next_ticket());
        let leaves = waiter.leaves_at;
        queue.enter(ticket, waiter);
        if let Some(leaves) = leaves {
            queue.set_admitted(ticket, leaves);
        }
        ticket
    }

    /// The head is about to ask a store whose outcomes are forecast.
    pub(crate) fn begin_ask(&self, key: &[u8], ticket: Ticket) {
        self.with_queue(key, |queue| queue.is_asking = queue.head() == Some(ticket));
    }

    /// Where a request is. It is woken by `waker` when that changes.
    pub(crate) fn poll_position(&self, key: &[u8], ticket: Ticket, waker: &Waker) -> Position {
        self.with_queue(key, |queue| queue.poll_position(ticket, waker)).unwrap_or(Position::Behind)
    }

    /// A request has to wait. If it is the head, requests behind it that cannot wait so long leave; else it asks again when it is.
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

    /// A request in the queue was admitted, and its delay keeps it there until it leaves.
    pub(crate) fn admit_delayed<F: Forecaster>(
        &self,
        key: &[u8],
        ticket: Ticket,
        leaves: Timestamp,
        forecast: Option<Forecast<'_, F>>,
    ) {
        self.with_queue(key, |queue| {
            let was_forecast = queue.waiters.get(&ticket).and_then(|waiter| waiter.forecast_leaves_at);
            queue.set_admitted(ticket, leaves);
            match forecast {
                Some(forecast) => queue.on_admitted(was_forecast, leaves, forecast),
                None => queue.refuse_if(|deadline| deadline < leaves),
            }
        });
    }

    /// A request leaves the queue with what it waited for. As many requests behind it as the units that were left are enough for
    /// ask together.
    pub(crate) fn leave_admitted<F: Forecaster>(
        &self,
        key: &[u8],
        ticket: Ticket,
        admission: Admission,
        forecast: Option<Forecast<'_, F>>,
    ) {
        self.count_departure();
        self.with_queue(key, |queue| {
            let was_forecast = queue.waiters.get(&ticket).and_then(|waiter| waiter.forecast_leaves_at);
            queue.leave(ticket, Exit::Admitted);
            match forecast {
                Some(forecast) => {
                    queue.last_left_at = match queue.head_is_admitted() {
                        true => queue.last_left_at.max(admission.leaves_at),
                        false => admission.leaves_at,
                    };
                    queue.on_admitted(was_forecast, admission.leaves_at, forecast);
                }
                None => queue.let_behind_ask(admission.remaining_units),
            }
        });
    }

    /// A request leaves the queue of its own accord.
    pub(crate) fn leave(&self, key: &[u8], ticket: Ticket, exit: Exit) {
        self.count_departure();
        self.with_queue(key, |queue| queue.leave(ticket, exit));
    }

    /// Requests behind the head leave that give up now.
    pub(crate) fn refuse_expired(&self, key: &[u8], head: Ticket, now: Timestamp) {
        self.with_queue(key, |queue| queue.refuse_expired(head, now));
    }

    /// Wakes the head of a queue: units may have come back.
    pub(crate) fn wake(&self, key: &[u8], now: Timestamp) {
        self.with_queue(key, |queue| queue.wake(now));
    }

    /// Wakes the heads of all queues: the limits have changed, or a signal has.
    #[cfg(feature = "rules")]
    pub(crate) fn wake_all(&self, now: Timestamp) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            let wake = |queue: &mut WaitQueue| {
                queue.wake_after_change(now);
                queue.take_wakers()
            };
            let wakers: Vec<Wakers> = shard.values_mut().map(wake).collect();
            drop(shard);
            wakers.iter().flat_map(|wakers| &wakers.woken).for_each(Waker::wake_by_ref);
        }
    }

    fn count_departure(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_full(&self, in_queue: usize) -> bool {
        in_queue >= self.queue_max() || self.waiters.load(Ordering::Relaxed) >= WAITERS_MAX
    }

    /// Does something with the queue of a key, if there is one.
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

    /// Unlocks, and then wakes the requests that the queue wants to wake: they may run at once, and take the lock.
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
        let turn = AskContext { wakes: self.wakes, not_before: self.last_left_at };
        let may_ask = self.may_ask_up_to.is_some_and(|last| ticket <= last);
        if self.head() != Some(ticket) {
            return if may_ask { Position::MayJoin(turn) } else { Position::Behind };
        }
        let mut others = self.deadlines.iter().filter(|(_, other)| *other != ticket);
        let others_give_up = others.next().map(|(deadline, _)| *deadline);
        Position::Head { context: turn, next_deadline_behind: others_give_up, may_ask }
    }

    /// There was room for this many more units: requests that fit need not wait until they are the head. A request that was let ask
    /// before is not woken again.
    fn let_behind_ask(&mut self, mut left_units: u64) {
        let before = self.may_ask_up_to;
        let mut fits = Vec::new();
        for (ticket, waiter) in self.waiters.iter().take(ASK_AHEAD_MAX) {
            let Some(rest) = left_units.checked_sub(waiter.cost) else { break };
            left_units = rest;
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
        let Postponement { due, release_rate: pace, wakes } = postponement;
        self.is_asking &= self.head() != Some(ticket);
        if self.may_ask_up_to >= Some(ticket) {
            self.may_ask_up_to = None;
        }
        if self.wakes != wakes || self.head() != Some(ticket) {
            return PostponeResult::AsksAgain;
        }
        match forecast {
            Some(forecast) => self.on_postponed(ticket, due, forecast),
            None => self.on_postponed_by_rate(ticket, due, pace),
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
    use crate::queue::testing::{NoForecaster, no_forecast};

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

    /// Two requests asked at once. The head had to wait, and then units had come back for the other.
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

    /// Wakes of one key do not let requests for another ask again.
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
