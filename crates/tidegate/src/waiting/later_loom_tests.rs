//! The wait queue over a store that answers later, under a model checker. A request asks the store while the queue is not
//! locked, so units may come back between the answer and the sleep. Nothing here has a timer: a wake-up that is lost is
//! a deadlock, which fails the test.
//!
//! [`Line::take`] waits as `engine/wait_task.rs` does, on a store of one number.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use loom::thread;
use tidegate_core::Timestamp;

use super::OfLimiter;
use super::Queues;
use super::later::{Admission, Forecast, Look, Postponed, PutOff};
use super::queue::{Exit, Ticket, Waiter};
use crate::ManualClock;
use crate::blocking::block_on;
use crate::sync::{Mutex, lock, model};

const KEY: &[u8] = b"key";
const NOW: Timestamp = Timestamp::from_nanos(0);
/// When units come back by themselves: not in any of these tests.
const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

/// A shared store makes no exact forecasts.
const NO_FORECASTER: Option<&OfLimiter<'_, ManualClock>> = None;

fn no_forecast<'a>() -> Option<Forecast<'a, OfLimiter<'a, ManualClock>>> {
    None
}

/// Units of a key, and the requests that wait for them.
struct Line {
    queues: Queues,
    units: Mutex<u64>,
}

/// A request in the queue, and how often units had come back when it was last answered; none: it may ask.
struct Stands {
    ticket: Ticket,
    put_off_at: Option<u64>,
}

impl Line {
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
        self.queues.nudge(KEY, NOW);
    }

    /// Waits for a unit and takes it.
    fn take(&self) {
        let Some(mut stands) = self.arrive() else { return };
        block_on(async {
            loop {
                let nudges = self.until_it_may_ask(&stands).await;
                let Some(left) = self.ask() else {
                    stands.put_off_at = Some(nudges);
                    continue;
                };
                let admission = Admission { at: NOW, left_units: left };
                return self.queues.leave_admitted(KEY, stands.ticket, admission, no_forecast());
            }
        });
    }

    /// A request comes and asks, unless others wait. None if it got a unit.
    fn arrive(&self) -> Option<Stands> {
        let (ticket, nudges_of_all) = (self.queues.next_ticket(), self.queues.nudges());
        let others_wait = self.queues.front(KEY).is_some();
        if !others_wait && self.ask().is_some() {
            return None;
        }
        let waiter = Waiter {
            ticket: Some(ticket),
            cost: 1,
            arrived: NOW,
            deadline: None,
            foreseen: None,
            waker: Waker::noop().clone(),
        };
        let stood = self.queues.stand(KEY, waiter, NO_FORECASTER).expect("there is room");
        // What it was told is no news if units came back since.
        let was_told = !others_wait && stood.nudges_of_all == nudges_of_all;
        Some(Stands { ticket, put_off_at: was_told.then_some(stood.nudges) })
    }

    /// Sleeps until it may ask. How often units have come back.
    async fn until_it_may_ask(&self, stands: &Stands) -> u64 {
        let put_off_at = stands.put_off_at.filter(|nudges| {
            let put_off = PutOff { due: NEVER, pace: None, nudges: *nudges };
            self.queues.put_off(KEY, stands.ticket, put_off, no_forecast()) == Postponed::Sleeps
        });
        poll_fn(|context| match self.queues.look(KEY, stands.ticket, context.waker()) {
            Look::Front { nudges, may_ask, .. } if may_ask || put_off_at != Some(nudges) => {
                Poll::Ready(nudges)
            }
            Look::Joins { nudges, .. } => Poll::Ready(nudges),
            Look::Front { .. } | Look::Behind => Poll::Pending,
            Look::Refused(refusal) => panic!("nobody gives up: {refusal}"),
        })
        .await
    }
}

fn takes(line: &Arc<Line>) -> thread::JoinHandle<()> {
    let line = line.clone();
    thread::spawn(move || line.take())
}

#[test]
fn what_comes_back_before_a_request_sleeps_is_seen() {
    model(3, || {
        let line = Line::new(0);
        let waiter = takes(&line);
        line.give_back(1);
        waiter.join().unwrap();
        assert_eq!(*lock(&line.units), 0);
    });
}

/// Only the first is woken by what comes back; it tells the others that there is more.
#[test]
fn all_go_for_whom_there_is_enough() {
    model(3, || {
        let line = Line::new(0);
        let waiters = [takes(&line), takes(&line)];
        line.give_back(2);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*lock(&line.units), 0);
    });
}

#[test]
fn what_comes_back_in_two_parts_is_enough_for_two() {
    model(3, || {
        let line = Line::new(0);
        let waiters = [takes(&line), takes(&line)];
        line.give_back(1);
        line.give_back(1);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*lock(&line.units), 0);
    });
}

/// A request that is dropped while it is in front has heard of the units that came back, and takes none.
#[test]
fn a_request_that_is_dropped_in_front_wakes_the_next() {
    model(3, || {
        let line = Line::new(0);
        let front = line.arrive().expect("there are no units");
        let waiter = takes(&line);
        line.give_back(1);
        line.queues.leave(KEY, front.ticket, Exit::Dropped(NOW));
        waiter.join().unwrap();
        assert_eq!(line.queues.waiters(), 0);
    });
}
