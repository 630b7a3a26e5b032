//! A wait queue: the requests that wait for one key, in the order they came.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use tidegate_core::{Nanos, Timestamp};

use super::Refusal;
use super::forecast::Tail;
use super::pace_forecast::RateForecast;

/// A position among all requests that wait: lower ones came earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// How a request leaves its queue of its own accord.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was admitted.
    Admitted,
    /// It was dropped or went to another queue, at this instant.
    Dropped(Timestamp),
}

/// Wakers that a queue is done with.
pub(super) struct Wakers {
    pub woken: Vec<Waker>,
    _unused: Vec<Waker>,
}

/// A request that waits.
pub(crate) struct Waiter {
    /// Its ticket, if it waited in another queue before.
    pub ticket: Option<Ticket>,
    pub cost: u64,
    pub arrived_at: Timestamp,
    /// When it gives up.
    pub deadline: Option<Timestamp>,
    /// When it leaves, by the last forecast. It may be sooner since.
    pub forecast_leaves_at: Option<Timestamp>,
    /// When it leaves, if it was admitted already and only its delay keeps it here.
    pub leaves_at: Option<Timestamp>,
    pub waker: Waker,
}

/// A wait queue. Its head asks the store; the others sleep.
#[derive(Default)]
pub(super) struct WaitQueue {
    pub waiters: BTreeMap<Ticket, Waiter>,
    pub deadlines: BTreeSet<(Timestamp, Ticket)>,
    /// Requests that were refused and have not been polled since.
    pub refused: BTreeMap<Ticket, Refusal>,
    /// How often units may have come back.
    pub wakes: u64,
    /// How many requests ask the store without being in the queue, and compare `wakes` before they enter it.
    pub observers: usize,
    /// When the last request left, or leaves if its delay keeps it: no request behind it is decided as of an earlier instant.
    pub last_left_at: Timestamp,
    /// Requests up to this one may ask without being the head: there was room for all of them when one was admitted, and none of
    /// them had to wait since.
    pub may_ask_up_to: Option<Ticket>,
    /// Whether the head asks a store whose outcomes are forecast. Its units may be counted already, or not.
    pub is_asking: bool,
    /// Whether a request entered meanwhile, for which no forecast was made.
    pub has_unforecast_waiter: bool,
    /// The states of the counters when all in the queue have left, for counters in memory.
    pub tail: Option<Tail>,
    /// When all in the queue leave at the earliest, for counters elsewhere.
    pub rate_forecast: Option<RateForecast>,
    /// Wakers to wake once the lock is released.
    woken: Vec<Waker>,
    /// Wakers that are of no use any more. They may own a task that is in this queue, so they are dropped once the lock is released.
    unused: Vec<Waker>,
}

impl Ticket {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }
}

impl Waiter {
    pub(super) fn gives_up_before(&self, instant: Timestamp) -> bool {
        self.deadline.is_some_and(|deadline| deadline < instant)
    }
}

impl WaitQueue {
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether the queue can be forgotten.
    pub fn is_unused(&self) -> bool {
        self.waiters.is_empty() && self.refused.is_empty() && self.observers == 0
    }

    pub fn head(&self) -> Option<Ticket> {
        self.waiters.first_key_value().map(|(ticket, _)| *ticket)
    }

    /// Whether the head was admitted already, and only its delay keeps it.
    pub fn head_is_admitted(&self) -> bool {
        self.waiters.first_key_value().is_some_and(|(_, head)| head.leaves_at.is_some())
    }

    /// Wakers to wake, and wakers to drop, when nothing is locked.
    pub fn take_wakers(&mut self) -> Wakers {
        Wakers { woken: std::mem::take(&mut self.woken), _unused: std::mem::take(&mut self.unused) }
    }

    pub fn enter(&mut self, ticket: Ticket, waiter: Waiter) {
        self.deadlines.extend(waiter.deadline.map(|deadline| (deadline, ticket)));
        self.waiters.insert(ticket, waiter);
    }

    /// Whether a request with this ticket comes before any that is here. A newcomer does not.
    pub fn is_before_others(&self, ticket: Option<Ticket>) -> bool {
        ticket.is_some_and(|ticket| self.waiters.last_key_value().is_some_and(|(last, _)| *last > ticket))
    }

    /// A request entered. If it is the next to give up, the head has to know, because the head may sleep for longer.
    pub fn wake_head_for_deadline(&mut self, ticket: Ticket) {
        let is_next = self.deadlines.first().is_some_and(|(_, first)| *first == ticket);
        if is_next && !self.head_is_admitted() && self.head() != Some(ticket) {
            self.wake_head();
        }
    }

    /// A request is woken by `waker` from now on.
    pub fn set_waker(&mut self, ticket: Ticket, waker: &Waker) {
        if let Some(waiter) = self.waiters.get_mut(&ticket)
            && !waiter.waker.will_wake(waker)
        {
            self.unused.push(std::mem::replace(&mut waiter.waker, waker.clone()));
        }
    }

    /// A request was admitted, and its delay keeps it here until it leaves.
    pub fn set_admitted(&mut self, ticket: Ticket, leaves: Timestamp) {
        let is_head = self.head() == Some(ticket);
        self.is_asking &= !is_head;
        self.last_left_at = if is_head { leaves } else { self.last_left_at.max(leaves) };
        if let Some(waiter) = self.waiters.get_mut(&ticket) {
            waiter.leaves_at = Some(leaves);
            // It has what it waited for, so it does not give up any more.
            if let Some(deadline) = waiter.deadline {
                self.deadlines.remove(&(deadline, ticket));
            }
        }
    }

    /// A request leaves of its own accord.
    pub fn leave(&mut self, ticket: Ticket, exit: Exit) {
        self.is_asking &= self.head() != Some(ticket);
        self.refused.remove(&ticket);
        let Some(waiter) = self.waiters.get(&ticket) else { return };
        let was_admitted = waiter.leaves_at.is_some();
        if let Exit::Dropped(now) = exit {
            self.mark_forecast_late(ticket);
            if was_admitted {
                let others = self.waiters.iter().filter(|(other, _)| **other != ticket);
                let others_leave = others.filter_map(|(_, other)| other.leaves_at).max();
                self.last_left_at = others_leave.unwrap_or_else(|| self.last_left_at.min(now));
            }
        }
        self.remove(ticket);
    }

    /// The limits themselves may have changed: no forecast holds.
    #[cfg(feature = "rules")]
    pub fn wake_after_change(&mut self, now: Timestamp) {
        self.tail = None;
        // Without it the head forecasts all of them again.
        if let Some(mut head) = self.waiters.first_entry() {
            head.get_mut().forecast_leaves_at = None;
        }
        self.wake(now);
    }

    /// Units came back: requests may be admitted sooner than was forecast, but none before this instant.
    pub fn wake(&mut self, now: Timestamp) {
        self.mark_tail_late();
        self.wakes += 1;
        self.rate_forecast = None;
        if !self.head_is_admitted() {
            self.last_left_at = self.last_left_at.max(now);
            self.wake_head();
        }
    }

    /// A request leaves without having taken anything, so others may leave sooner than was forecast.
    fn mark_forecast_late(&mut self, ticket: Ticket) {
        self.mark_tail_late();
        self.rate_forecast = match self.head() == Some(ticket) {
            true => None,
            false => self.rate_forecast.map(RateForecast::marked_late),
        };
    }

    /// Refuses the requests whose deadline is too early.
    pub fn refuse_if(&mut self, is_too_early: impl Fn(Timestamp) -> bool) {
        while let Some((deadline, late)) = self.deadlines.first().copied()
            && is_too_early(deadline)
        {
            self.refuse(late, Refusal::TooLong { wait: None });
        }
    }

    pub fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        let waker = self.waiters.get(&ticket).map(|waiter| waiter.waker.clone());
        self.mark_forecast_late(ticket);
        self.remove(ticket);
        self.refused.insert(ticket, refusal);
        self.woken.extend(waker);
    }

    /// Removes a request. If it was the head, the next one is woken.
    fn remove(&mut self, ticket: Ticket) {
        let was_head = self.head() == Some(ticket);
        let Some(waiter) = self.waiters.remove(&ticket) else { return };
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        self.unused.push(waiter.waker);
        if was_head {
            self.wake_head();
        }
    }

    fn wake_head(&mut self) {
        let head = self.waiters.first_key_value();
        self.woken.extend(head.map(|(_, waiter)| waiter.waker.clone()));
    }

    /// Wakes a request.
    pub fn wake_one(&mut self, ticket: Ticket) {
        self.woken.extend(self.waiters.get(&ticket).map(|waiter| waiter.waker.clone()));
    }
}

/// The refusal of a request that arrived then and would leave then.
pub(super) fn too_long(arrived: Timestamp, leaves: Timestamp) -> Refusal {
    let wait_ns = leaves.as_nanos().saturating_sub(arrived.as_nanos());
    Refusal::TooLong { wait: Some(Nanos::new(u128::from(wait_ns))) }
}
