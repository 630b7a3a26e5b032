//! The wait queue under loom. A request asks the store while the queue is not locked, so units may come back between
//! the reply and the sleep. There are no timers here, so a lost wake is a deadlock, which fails the test.
//!
//! [`Units::take`] waits as `acquire.rs` and `engine/wait_task.rs` do, over a store that is one number.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use loom::thread;
use tidegate_core::Timestamp;

use super::forecast::testing::{NoForecaster, no_forecast};
use super::wait_queue::{Exit, Ticket, Waiter};
use super::wait_queues::{Admission, Position, PostponeResult, Postponement, WaitQueues};
use crate::blocking::block_on;
use crate::sync::{Mutex, check_interleavings, lock};

const KEY: &[u8] = b"key";
const NOW: Timestamp = Timestamp::from_nanos(0);
/// When units come back with time: not within these tests.
const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

/// Units of a key, and the requests that wait for them.
struct Units {
    queues: WaitQueues,
    units: Mutex<u64>,
}

/// A request in the queue. `postponed_at` is how often units had come back when it last had to wait. None if it may
/// ask.
struct QueuedRequest {
    ticket: Ticket,
    postponed_at: Option<u64>,
}

impl Units {
    fn new(units: u64) -> Arc<Self> {
        Arc::new(Self { queues: WaitQueues::new(8), units: Mutex::new(units) })
    }

    /// Asks the store. Takes a unit and returns how many remain, or none if there is no unit.
    fn ask(&self) -> Option<u64> {
        let mut units = lock(&self.units);
        *units = units.checked_sub(1)?;
        Some(*units)
    }

    fn give_back(&self, units: u64) {
        *lock(&self.units) += units;
        self.queues.wake(KEY, NOW);
    }

    /// Waits for a unit and spawn_taker it.
    fn take(&self) {
        let Some(mut in_queue) = self.arrive() else { return };
        block_on(async {
            loop {
                let wakes = self.wait_until_may_ask(&in_queue).await;
                let Some(left) = self.ask() else {
                    in_queue.postponed_at = Some(wakes);
                    continue;
                };
                let admission = Admission { leaves_at: NOW, remaining_units: left };
                return self.queues.leave_admitted(KEY, in_queue.ticket, admission, no_forecast());
            }
        });
    }

    /// Arrives, and asks unless other requests wait. None if it got a unit.
    fn arrive(&self) -> Option<QueuedRequest> {
        let (ticket, observed) = (self.queues.next_ticket(), self.queues.observe(KEY));
        let others_wait = self.queues.head(KEY).is_some();
        if !others_wait && self.ask().is_some() {
            return None;
        }
        let waiter = Waiter {
            ticket: Some(ticket),
            cost: 1,
            arrived_at: NOW,
            deadline: None,
            forecast_leaves_at: None,
            leaves_at: None,
            waker: Waker::noop().clone(),
        };
        let entered = self.queues.enter(KEY, waiter, None::<&NoForecaster>).expect("there is room");
        // The reply is stale if units came back since.
        let is_told = !others_wait && entered.wakes == observed.wakes;
        Some(QueuedRequest { ticket, postponed_at: is_told.then_some(entered.wakes) })
    }

    /// Sleeps until the request may ask. Returns how often units have come back.
    async fn wait_until_may_ask(&self, in_queue: &QueuedRequest) -> u64 {
        let postponed_at = in_queue.postponed_at.filter(|wakes| {
            let postponement = Postponement { due: NEVER, release_rate: None, wakes: *wakes };
            self.queues.postpone(KEY, in_queue.ticket, postponement, no_forecast()) == PostponeResult::Sleeps
        });
        poll_fn(|task| match self.queues.poll_position(KEY, in_queue.ticket, task.waker()) {
            Position::Head { context, may_ask, .. } if may_ask || postponed_at != Some(context.wakes) => {
                Poll::Ready(context.wakes)
            }
            Position::MayJoin(context) => Poll::Ready(context.wakes),
            Position::Head { .. } | Position::Behind => Poll::Pending,
            Position::Refused(refusal) => panic!("no request has a deadline: {refusal:?}"),
        })
        .await
    }
}

fn spawn_taker(units: &Arc<Units>) -> thread::JoinHandle<()> {
    let units = units.clone();
    thread::spawn(move || units.take())
}

#[test]
fn units_returned_before_a_request_sleeps_are_seen() {
    check_interleavings(3, || {
        let units = Units::new(0);
        let waiter = spawn_taker(&units);
        units.give_back(1);
        waiter.join().unwrap();
        assert_eq!(*lock(&units.units), 0);
    });
}

/// Units that come back wake only the first waiter, which lets the others ask.
#[test]
fn one_return_admits_every_waiter_that_fits() {
    check_interleavings(3, || {
        let units = Units::new(0);
        let waiters = [spawn_taker(&units), spawn_taker(&units)];
        units.give_back(2);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*lock(&units.units), 0);
    });
}

#[test]
fn two_returns_admit_two_waiters() {
    check_interleavings(3, || {
        let units = Units::new(0);
        let waiters = [spawn_taker(&units), spawn_taker(&units)];
        units.give_back(1);
        units.give_back(1);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*lock(&units.units), 0);
    });
}

/// A request that is dropped while it is the head was woken for the units, and spawn_taker none.
#[test]
fn a_dropped_head_wakes_the_next_waiter() {
    check_interleavings(3, || {
        let units = Units::new(0);
        let front = units.arrive().expect("there are no units");
        let waiter = spawn_taker(&units);
        units.give_back(1);
        units.queues.leave(KEY, front.ticket, Exit::Dropped(NOW));
        waiter.join().unwrap();
        assert_eq!(units.queues.waiters(), 0);
    });
}
