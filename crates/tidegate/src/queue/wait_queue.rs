//! A wait queue: the requests that wait for one key, in the order of their tickets.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use tidegate_core::{Nanos, Timestamp};

use super::Refusal;
use super::forecast::Tail;
use super::rate_forecast::RateForecast;

/// A position among all waiting requests. Lower tickets came earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// How a request leaves its queue, unless it is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was admitted.
    Admitted,
    /// It was dropped, or moved to another queue, at this instant.
    Dropped(Timestamp),
}

/// Wakers that were taken out of a queue, to wake or to drop once nothing is locked.
pub(super) struct Wakers {
    pub woken: Vec<Waker>,
    _unused: Vec<Waker>,
}

/// A waiting request.
pub(crate) struct Waiter {
    /// Its ticket, if it waited in another queue before.
    pub ticket: Option<Ticket>,
    pub cost: u64,
    pub arrived_at: Timestamp,
    /// When it stops waiting.
    pub deadline: Option<Timestamp>,
    /// When it leaves, by the last forecast. Since then it may have become earlier.
    pub forecast_leaves_at: Option<Timestamp>,
    /// When it leaves, if it is already admitted and waits only for its delay.
    pub leaves_at: Option<Timestamp>,
    pub waker: Waker,
}

/// A wait queue. Its head asks the store, and the other waiters sleep.
#[derive(Default)]
pub(super) struct WaitQueue {
    pub waiters: BTreeMap<Ticket, Waiter>,
    pub deadlines: BTreeSet<(Timestamp, Ticket)>,
    /// Refused requests that have not been polled since.
    pub refused: BTreeMap<Ticket, Refusal>,
    /// How often units may have come back.
    pub wakes: u64,
    /// How many requests ask the store without being in the queue. They compare `wakes` when they enter it.
    pub observers: usize,
    /// When the last request left, or will leave after its delay. No request behind it is decided as of an earlier
    /// instant.
    pub last_left_at: Timestamp,
    /// Waiters up to this ticket may ask without being the head: when a request was admitted, units for all of them
    /// remained, and none of them had to wait since.
    pub may_ask_up_to: Option<Ticket>,
    /// Whether the head is asking a store that has forecasts. Its units may or may not be counted already.
    pub is_asking: bool,
    /// Whether a request entered without a forecast.
    pub has_unforecast_waiter: bool,
    /// The states after all waiters have left, for counters in memory.
    pub tail: Option<Tail>,
    /// The earliest time at which all waiters have left, for counters in a shared store.
    pub rate_forecast: Option<RateForecast>,
    /// Wakers to wake once the lock is released.
    woken: Vec<Waker>,
    /// Wakers that are not needed any more. They may own a task that is in this queue, so they are dropped once the
    /// lock is released.
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

    /// Whether the queue can be removed.
    pub fn is_unused(&self) -> bool {
        self.waiters.is_empty() && self.refused.is_empty() && self.observers == 0
    }

    pub fn head(&self) -> Option<Ticket> {
        self.waiters.first_key_value().map(|(ticket, _)| *ticket)
    }

    /// Whether the head is already admitted and waits only for its delay.
    pub fn head_is_admitted(&self) -> bool {
        self.waiters.first_key_value().is_some_and(|(_, head)| head.leaves_at.is_some())
    }

    /// Takes the wakers, to wake or drop them when nothing is locked.
    pub fn take_wakers(&mut self) -> Wakers {
        Wakers { woken: std::mem::take(&mut self.woken), _unused: std::mem::take(&mut self.unused) }
    }

    pub fn enter(&mut self, ticket: Ticket, waiter: Waiter) {
        self.deadlines.extend(waiter.deadline.map(|deadline| (deadline, ticket)));
        self.waiters.insert(ticket, waiter);
    }

    /// Whether a request with this ticket comes before a waiter of this queue. A new request has no ticket and does
    /// not.
    pub fn has_waiters_behind(&self, ticket: Option<Ticket>) -> bool {
        ticket.is_some_and(|ticket| self.waiters.last_key_value().is_some_and(|(last, _)| *last > ticket))
    }

    /// Wakes the head if the request that entered has the earliest deadline, because the head may sleep for longer.
    pub fn wake_head_for_deadline(&mut self, ticket: Ticket) {
        let is_next = self.deadlines.first().is_some_and(|(_, first)| *first == ticket);
        if is_next && !self.head_is_admitted() && self.head() != Some(ticket) {
            self.wake_head();
        }
    }

    /// Sets the waker of a request.
    pub fn set_waker(&mut self, ticket: Ticket, waker: &Waker) {
        if let Some(waiter) = self.waiters.get_mut(&ticket)
            && !waiter.waker.will_wake(waker)
        {
            self.unused.push(std::mem::replace(&mut waiter.waker, waker.clone()));
        }
    }

    /// The request was admitted, and waits here until its delay is over.
    pub fn set_admitted(&mut self, ticket: Ticket, leaves_at: Timestamp) {
        let is_head = self.head() == Some(ticket);
        self.is_asking &= !is_head;
        self.last_left_at = if is_head { leaves_at } else { self.last_left_at.max(leaves_at) };
        if let Some(waiter) = self.waiters.get_mut(&ticket) {
            waiter.leaves_at = Some(leaves_at);
            // It has its units, so its deadline does not matter any more.
            if let Some(deadline) = waiter.deadline {
                self.deadlines.remove(&(deadline, ticket));
            }
        }
    }

    /// A request leaves, admitted or dropped.
    pub fn leave(&mut self, ticket: Ticket, exit: Exit) {
        self.is_asking &= self.head() != Some(ticket);
        self.refused.remove(&ticket);
        let Some(waiter) = self.waiters.get(&ticket) else { return };
        let was_admitted = waiter.leaves_at.is_some();
        if let Exit::Dropped(now) = exit {
            self.mark_forecast_late(ticket);
            if was_admitted {
                let rest = self.waiters.iter().filter(|(other, _)| **other != ticket);
                let rest_left_at = rest.filter_map(|(_, waiter)| waiter.leaves_at).max();
                self.last_left_at = rest_left_at.unwrap_or_else(|| self.last_left_at.min(now));
            }
        }
        self.remove(ticket);
    }

    /// Wakes the head after a change of the limits. No forecast is valid any more.
    #[cfg(feature = "rules")]
    pub fn wake_after_change(&mut self, now: Timestamp) {
        self.tail = None;
        // Without a forecast of its own, the head forecasts the whole queue again.
        if let Some(mut head) = self.waiters.first_entry() {
            head.get_mut().forecast_leaves_at = None;
        }
        self.wake(now);
    }

    /// Units came back. Requests may be admitted earlier than forecast, but not before this instant.
    pub fn wake(&mut self, now: Timestamp) {
        self.mark_tail_late();
        self.wakes += 1;
        self.rate_forecast = None;
        if !self.head_is_admitted() {
            self.last_left_at = self.last_left_at.max(now);
            self.wake_head();
        }
    }

    /// A request leaves without taking units, so other requests may leave earlier than forecast.
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

    /// Removes a request. If it was the head, the next waiter is woken.
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

    /// Wakes one request.
    pub fn wake_one(&mut self, ticket: Ticket) {
        self.woken.extend(self.waiters.get(&ticket).map(|waiter| waiter.waker.clone()));
    }
}

/// The refusal of a request that arrived at `arrived_at` and would leave at `leaves_at`.
pub(super) fn too_long(arrived_at: Timestamp, leaves_at: Timestamp) -> Refusal {
    let wait_ns = leaves_at.as_nanos().saturating_sub(arrived_at.as_nanos());
    Refusal::TooLong { wait: Some(Nanos::new(u128::from(wait_ns))) }
}
