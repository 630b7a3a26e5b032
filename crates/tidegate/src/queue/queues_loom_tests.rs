//! The wait queue under a model checker. A request asks the store while the queue is not locked, so units may come back between the
//! reply and the sleep. Nothing here has a timer: a wake-up that is lost is a deadlock, which fails the test.
//!
//! [`Units::take`] waits as `acquire.rs` and `engine/wait_task.rs` do, on a store of one number.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use loom::thread;
use tidegate_core::Timestamp;

use super::queue::{Exit, Ticket, Waiter};
use super::queues::{Admission, Position, Postponed, Postponement, Queues};
use super::testing::{NoForecaster, no_forecast};
use crate::blocking::block_on;
use crate::sync::{Mutex, lock, model};

const KEY: &[u8] = b"key";
const NOW: Timestamp = Timestamp::from_nanos(0);
/// When units come back by themselves: not in any of these tests.
const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

/// Units of a key, and the requests that wait for them.
struct Units {
    queues: Queues,
    units: Mutex<u64>,
}

/// A request in the queue, and how often units had come back when it was last told to wait; none: it may ask.
struct InQueue {
    ticket: Ticket,
    postponed_at: Option<u64>,
}

impl Units {
    fn new(units: u64) -> Arc<Self> {
        Arc::new(Self { queues: Queues::new(8), units: Mutex::new(units) })
    }

    /// What the store says: a unit is taken and so many are left, or there is none.
    fn ask(&self) -> Option<u64> {
        let mut units = lock(&self.units);
        *units = units.checked_sub(1)?;
        Some(*units)
    }

    fn give_back(&self, units: u64) {
        *lock(&self.units) += units;
        self.queues.wake(KEY, NOW);
    }

    /// Waits for a unit and takes it.
    fn take(&self) {
        let Some(mut in_queue) = self.arrive() else { return };
        block_on(async {
            loop {
                let wakes = self.wait_until_may_ask(&in_queue).await;
                let Some(left) = self.ask() else {
                    in_queue.postponed_at = Some(wakes);
                    continue;
                };
                let admission = Admission { leaves: NOW, left_units: left };
                return self.queues.leave_admitted(KEY, in_queue.ticket, admission, no_forecast());
            }
        });
    }

    /// A request comes and asks, unless others wait. None if it got a unit.
    fn arrive(&self) -> Option<InQueue> {
        let (ticket, observed) = (self.queues.next_ticket(), self.queues.observe(KEY));
        let others_wait = self.queues.head(KEY).is_some();
        if !others_wait && self.ask().is_some() {
            return None;
        }
        let waiter = Waiter {
            ticket: Some(ticket),
            cost: 1,
            arrived: NOW,
            deadline: None,
            forecast: None,
            leaves: None,
            waker: Waker::noop().clone(),
        };
        let entered = self.queues.enter(KEY, waiter, None::<&NoForecaster>).expect("there is room");
        // The reply is out of date if units came back since.
        let is_told = !others_wait && entered.wakes == observed.wakes;
        Some(InQueue { ticket, postponed_at: is_told.then_some(entered.wakes) })
    }

    /// Sleeps until it may ask. How often units have come back.
    async fn wait_until_may_ask(&self, in_queue: &InQueue) -> u64 {
        let postponed_at = in_queue.postponed_at.filter(|wakes| {
            let postponement = Postponement { due: NEVER, pace: None, wakes: *wakes };
            self.queues.postpone(KEY, in_queue.ticket, postponement, no_forecast()) == Postponed::Sleeps
        });
        poll_fn(|context| match self.queues.look(KEY, in_queue.ticket, context.waker()) {
            Position::Head { turn, may_ask, .. } if may_ask || postponed_at != Some(turn.wakes) => {
                Poll::Ready(turn.wakes)
            }
            Position::Joins(turn) => Poll::Ready(turn.wakes),
            Position::Head { .. } | Position::Behind => Poll::Pending,
            Position::Refused(refusal) => panic!("no request gives up: {refusal:?}"),
        })
        .await
    }
}

fn takes(units: &Arc<Units>) -> thread::JoinHandle<()> {
    let units = units.clone();
    thread::spawn(move || units.take())
}

#[test]
fn units_returned_before_a_request_sleeps_are_seen() {
    model(3, || {
        let units = Units::new(0);
        let waiter = takes(&units);
        units.give_back(1);
        waiter.join().unwrap();
        assert_eq!(*lock(&units.units), 0);
    });
}

/// Only the first is woken by what comes back; it tells the others that there is more.
#[test]
fn one_return_admits_every_waiter_that_fits() {
    model(3, || {
        let units = Units::new(0);
        let waiters = [takes(&units), takes(&units)];
        units.give_back(2);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*lock(&units.units), 0);
    });
}

#[test]
fn two_returns_admit_two_waiters() {
    model(3, || {
        let units = Units::new(0);
        let waiters = [takes(&units), takes(&units)];
        units.give_back(1);
        units.give_back(1);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*lock(&units.units), 0);
    });
}

/// A request that is dropped while it is in front has heard of the units that came back, and takes none.
#[test]
fn a_dropped_head_wakes_the_next_waiter() {
    model(3, || {
        let units = Units::new(0);
        let front = units.arrive().expect("there are no units");
        let waiter = takes(&units);
        units.give_back(1);
        units.queues.leave(KEY, front.ticket, Exit::Dropped(NOW));
        waiter.join().unwrap();
        assert_eq!(units.queues.waiters(), 0);
    });
}
