//! The lines of a limiter, one for each key that somebody waits for.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::task::Waker;

use foldhash::fast::RandomState;
use tidegate_core::{Nanos, Timestamp};

use super::Refusal;
use super::queue::{Exit, Queue, Step, Ticket, Waiter, too_long};
use super::request::{Attempt, Request};
use crate::Clock;
use crate::holding::Admitted;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// Lines are spread over locks, so that keys do not wait for each other.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };
/// The most requests that wait for one limiter, whatever their keys.
pub const WAITERS_MAX: u64 = 1 << 20;

/// All lines of a limiter.
pub(crate) struct Queues {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// The most requests in one line.
    queue_max: usize,
    waiters: AtomicU64,
}

type Shard = HashMap<Box<[u8]>, Queue, RandomState>;

/// What a request hears when it comes.
pub(super) enum Arrival {
    /// Nobody waits and it is admitted.
    Leaves(Admitted),
    /// Nobody waits and it is admitted, but is to be held until this instant, in front of the line.
    Held { admitted: Admitted, leaves: Timestamp, ticket: Ticket },
    /// It is in line.
    Waits(Ticket),
    /// It does not wait.
    Refused(Refusal),
}

impl Queues {
    pub(crate) fn new(queue_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        Self { shards, hasher: RandomState::default(), queue_max, waiters: AtomicU64::new(0) }
    }

    pub(crate) fn queue_max(&self) -> usize {
        self.queue_max
    }

    /// A request comes: it leaves at once if nobody waits and it is admitted; else it gets in line or is refused.
    pub(super) fn arrive<C: Clock>(&self, request: &Request<'_, C>, waiter: Waiter) -> Arrival {
        // Locked while the store is asked: who gives units back after that finds the request in line.
        let mut shard = self.lock(&request.key);
        let arrival = match shard.get_mut(&request.key) {
            Some(queue) => self.get_in_line(queue, request, waiter),
            None => self.arrive_alone(&mut shard, request, waiter),
        };
        self.finish(shard, &request.key);
        arrival
    }

    fn arrive_alone<C: Clock>(&self, shard: &mut Shard, request: &Request<'_, C>, waiter: Waiter) -> Arrival {
        let admitted = match request.attempt(waiter.arrived) {
            Attempt::Admitted(admitted) if admitted.decision.delay == Nanos::ZERO => {
                return Arrival::Leaves(admitted);
            }
            Attempt::Admitted(admitted) => admitted,
            Attempt::Wait(_) => {
                let queue = shard.entry(request.key.clone()).or_default();
                return self.get_in_line(queue, request, waiter);
            }
        };
        let leaves = waiter.arrived.saturating_add(admitted.decision.delay);
        let refusal = match waiter.gives_up_before(leaves) {
            true => Some(too_long(waiter.arrived, leaves)),
            false => self.is_full(0).then_some(Refusal::QueueFull),
        };
        if let Some(refusal) = refusal {
            request.give_back(&admitted);
            return Arrival::Refused(refusal);
        }
        let queue = shard.entry(request.key.clone()).or_default();
        let ticket = self.enter(queue, waiter);
        queue.hold_front_until(leaves);
        Arrival::Held { admitted, leaves, ticket }
    }

    fn get_in_line<C: Clock>(
        &self,
        queue: &mut Queue,
        request: &Request<'_, C>,
        mut waiter: Waiter,
    ) -> Arrival {
        if self.is_full(queue.len()) {
            return Arrival::Refused(Refusal::QueueFull);
        }
        if let Some(refusal) = queue.refuses(request, &mut waiter) {
            return Arrival::Refused(refusal);
        }
        let is_foreseeable = request.is_foreseeable(waiter.arrived);
        let ticket = self.enter(queue, waiter);
        if !is_foreseeable {
            queue.watch(ticket);
        }
        Arrival::Waits(ticket)
    }

    /// A request in line asks whether it is its turn.
    pub(super) fn step<C: Clock>(
        &self,
        request: &Request<'_, C>,
        ticket: Ticket,
        now: Timestamp,
        waker: &Waker,
    ) -> Step {
        let mut shard = self.lock(&request.key);
        let step = match shard.get_mut(&request.key) {
            Some(queue) => queue.step(request, ticket, now, waker),
            None => unreachable!("a line is kept while anybody is in it"),
        };
        if matches!(step, Step::Leaves(_) | Step::Refused(_)) {
            self.waiters.fetch_sub(1, Ordering::Relaxed);
        }
        self.finish(shard, &request.key);
        step
    }

    /// A request leaves the line of its own accord.
    pub(super) fn leave(&self, key: &[u8], ticket: Ticket, exit: Exit) {
        let mut shard = self.lock(key);
        if let Some(queue) = shard.get_mut(key) {
            queue.leave(ticket, exit);
        }
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        self.finish(shard, key);
    }

    /// Tells whoever is in front that units may have come back.
    pub(super) fn nudge(&self, key: &[u8], now: Timestamp) {
        let mut shard = self.lock(key);
        if let Some(queue) = shard.get_mut(key) {
            queue.nudge(now);
        }
        self.finish(shard, key);
    }

    fn enter(&self, queue: &mut Queue, waiter: Waiter) -> Ticket {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        queue.enter(waiter)
    }

    fn is_full(&self, in_line: usize) -> bool {
        in_line >= self.queue_max || self.waiters.load(Ordering::Relaxed) >= WAITERS_MAX
    }

    fn lock(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        #[allow(clippy::cast_possible_truncation, reason = "below SHARDS")]
        let number = if SHARDS == 1 { 0 } else { self.hasher.hash_one(key) as usize % SHARDS };
        lock(&self.shards[number])
    }

    /// Unlocks, and then wakes whom the line wants to wake: they may run at once, and want the lock.
    fn finish(&self, mut shard: MutexGuard<'_, Shard>, key: &[u8]) {
        let Some(queue) = shard.get_mut(key) else { return };
        let wakers = queue.take_wakers();
        if queue.is_empty() {
            shard.remove(key);
        }
        drop(shard);
        wakers.woken.iter().for_each(Waker::wake_by_ref);
    }
}
