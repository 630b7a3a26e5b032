//! The lines of a limiter or an engine, one for each key that somebody waits for.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::task::Waker;

use foldhash::fast::RandomState;
use tidegate_core::{Nanos, Timestamp};

use super::Refusal;
#[cfg(feature = "rules")]
use super::queue::Wakers;
use super::queue::{Exit, Queue, Step, Ticket, Waiter, too_long};
use super::request::{Attempt, Request};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// Lines are spread over locks, so that keys do not wait for each other.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };
/// The most requests that wait for one limiter, or one engine, whatever their keys.
pub const WAITERS_MAX: u64 = 1 << 20;

/// All lines of a limiter or an engine.
pub(crate) struct Queues {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// The most requests in one line.
    queue_max: std::sync::atomic::AtomicUsize,
    waiters: AtomicU64,
    /// Counted over all lines, so that whoever goes from one to another keeps its place among those who came. It is
    /// counted while a line is locked, and there is nothing in it for the model checker.
    next_ticket: std::sync::atomic::AtomicU64,
    /// How often units may have come back, whatever the line: for those who ask before they are in any. It is counted
    /// while the line is locked that they came back to, be there anybody in it or not.
    #[cfg(feature = "rules")]
    nudges: std::sync::atomic::AtomicU64,
}

pub(super) type Shard = HashMap<Box<[u8]>, Queue, RandomState>;

/// What a request hears when it comes.
pub(crate) enum Arrival<G> {
    /// Nobody waits and it is admitted.
    Leaves(G),
    /// Nobody waits and it is admitted, but is to be held until this instant, in front of the line.
    Held { given: G, leaves: Timestamp, ticket: Ticket },
    /// It is in line.
    Waits(Ticket),
    /// It does not wait.
    Refused(Refusal),
}

impl Queues {
    pub(crate) fn new(queue_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        Self {
            shards,
            hasher: RandomState::default(),
            queue_max: std::sync::atomic::AtomicUsize::new(queue_max),
            waiters: AtomicU64::new(0),
            next_ticket: std::sync::atomic::AtomicU64::new(0),
            #[cfg(feature = "rules")]
            nudges: std::sync::atomic::AtomicU64::new(0),
        }
    }

    pub(crate) fn queue_max(&self) -> usize {
        self.queue_max.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[cfg(feature = "rules")]
    pub(crate) fn set_queue_max(&self, queue_max: usize) {
        self.queue_max.store(queue_max, std::sync::atomic::Ordering::Relaxed);
    }

    /// How many wait, in all lines.
    #[cfg(feature = "rules")]
    pub(crate) fn waiters(&self) -> u64 {
        self.waiters.load(Ordering::Relaxed)
    }

    /// A request comes: it leaves at once if nobody waits and it is admitted; else it gets in line or is refused.
    pub(crate) fn arrive<R: Request>(&self, request: &R, waiter: Waiter) -> Arrival<R::Given> {
        // Locked while the store is asked: who gives units back after that finds the request in line.
        let mut shard = self.lock(request.line());
        let arrival = match shard.get_mut(request.line()) {
            Some(queue) => self.get_in_line(queue, request, waiter),
            None => self.arrive_alone(&mut shard, request, waiter),
        };
        self.finish(shard, request.line());
        arrival
    }

    fn arrive_alone<R: Request>(&self, shard: &mut Shard, request: &R, waiter: Waiter) -> Arrival<R::Given> {
        let given = match request.attempt(waiter.arrived) {
            Attempt::Admitted(given) if request.held(&given) == Nanos::ZERO => {
                return Arrival::Leaves(given);
            }
            Attempt::Admitted(given) => given,
            Attempt::Wait(_) => {
                let queue = shard.entry(request.line().into()).or_default();
                return self.get_in_line(queue, request, waiter);
            }
        };
        let leaves = waiter.arrived.saturating_add(request.held(&given));
        let refusal = match waiter.gives_up_before(leaves) {
            true => Some(too_long(waiter.arrived, leaves)),
            false => self.is_full(0).then_some(Refusal::QueueFull),
        };
        if let Some(refusal) = refusal {
            request.give_back(&given);
            return Arrival::Refused(refusal);
        }
        let queue = shard.entry(request.line().into()).or_default();
        let ticket = self.enter(queue, waiter);
        queue.hold_front_until(leaves);
        Arrival::Held { given, leaves, ticket }
    }

    fn get_in_line<R: Request>(
        &self,
        queue: &mut Queue,
        request: &R,
        mut waiter: Waiter,
    ) -> Arrival<R::Given> {
        if self.is_full(queue.len()) {
            return Arrival::Refused(Refusal::QueueFull);
        }
        let now = waiter.arrived;
        let is_foreseeable = request.is_foreseeable(now);
        if queue.is_before_others(waiter.ticket) {
            let ticket = self.enter(queue, waiter);
            queue.pushed_in(request, ticket, now);
            return Arrival::Waits(ticket);
        }
        if let Some(refusal) = queue.refuses(request, &mut waiter) {
            return Arrival::Refused(refusal);
        }
        let ticket = self.enter(queue, waiter);
        if !is_foreseeable {
            queue.watch(ticket);
        }
        Arrival::Waits(ticket)
    }

    /// A request in line asks whether it is its turn.
    pub(crate) fn step<R: Request>(
        &self,
        request: &R,
        ticket: Ticket,
        now: Timestamp,
        waker: &Waker,
    ) -> Step<R::Given> {
        let mut shard = self.lock(request.line());
        let step = match shard.get_mut(request.line()) {
            Some(queue) => queue.step(request, ticket, now, waker),
            None => unreachable!("a line is kept while anybody is in it"),
        };
        if matches!(step, Step::Leaves(_) | Step::Refused(_)) {
            self.has_left();
        }
        self.finish(shard, request.line());
        step
    }

    /// A request leaves the line of its own accord.
    pub(crate) fn leave(&self, line: &[u8], ticket: Ticket, exit: Exit) {
        let mut shard = self.lock(line);
        if let Some(queue) = shard.get_mut(line) {
            queue.leave(ticket, exit);
        }
        self.has_left();
        self.finish(shard, line);
    }

    pub(super) fn has_left(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Tells whoever is in front that units may have come back.
    pub(super) fn nudge(&self, key: &[u8], now: Timestamp) {
        let mut shard = self.lock(key);
        #[cfg(feature = "rules")]
        self.nudges.fetch_add(1, std::sync::atomic::Ordering::Release);
        if let Some(queue) = shard.get_mut(key) {
            queue.nudge(now);
        }
        self.finish(shard, key);
    }

    /// The limits are others, or what they go by is: whoever is in front of any line is to ask again.
    #[cfg(feature = "rules")]
    pub(crate) fn nudge_all(&self, now: Timestamp) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            let nudge = |queue: &mut Queue| {
                queue.nudge_afresh(now);
                queue.take_wakers()
            };
            let wakers: Vec<Wakers> = shard.values_mut().map(nudge).collect();
            drop(shard);
            wakers.iter().flat_map(|wakers| &wakers.woken).for_each(Waker::wake_by_ref);
        }
    }

    /// Who stands in front of a line.
    #[cfg(feature = "rules")]
    pub(crate) fn front(&self, line: &[u8]) -> Option<Ticket> {
        self.lock(line).get(line).and_then(Queue::front)
    }

    /// How often units may have come back, in all lines.
    #[cfg(feature = "rules")]
    pub(crate) fn nudges(&self) -> u64 {
        self.nudges.load(std::sync::atomic::Ordering::Acquire)
    }

    /// A place among all who come, behind those who have one.
    pub(crate) fn next_ticket(&self) -> Ticket {
        Ticket::new(self.next_ticket.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }

    pub(super) fn enter(&self, queue: &mut Queue, waiter: Waiter) -> Ticket {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let ticket = waiter.ticket.unwrap_or_else(|| self.next_ticket());
        queue.enter(ticket, waiter);
        ticket
    }

    pub(super) fn is_full(&self, in_line: usize) -> bool {
        in_line >= self.queue_max() || self.waiters.load(Ordering::Relaxed) >= WAITERS_MAX
    }

    pub(super) fn lock(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        #[allow(clippy::cast_possible_truncation, reason = "below SHARDS")]
        let number = if SHARDS == 1 { 0 } else { self.hasher.hash_one(key) as usize % SHARDS };
        lock(&self.shards[number])
    }

    /// Unlocks, and then wakes whom the line wants to wake: they may run at once, and want the lock.
    pub(super) fn finish(&self, mut shard: MutexGuard<'_, Shard>, key: &[u8]) {
        let Some(queue) = shard.get_mut(key) else { return };
        let wakers = queue.take_wakers();
        if queue.is_empty() {
            shard.remove(key);
        }
        drop(shard);
        wakers.woken.iter().for_each(Waker::wake_by_ref);
    }
}
