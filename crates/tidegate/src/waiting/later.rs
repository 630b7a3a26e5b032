//! Lines for a store that answers later: who is in front asks it without the line being locked.
//!
//! So units may come back while it is asked, and what it hears may be from before that. Whoever gives units back counts
//! a nudge. The one in front looks at the count before it asks and, with the line locked, before it sleeps: if it is
//! another then, it asks again.
//!
//! Nobody can play out on copies of states what is kept elsewhere. When the one in front fits is what the store told it,
//! and those behind it follow no sooner than the limit lets them ([`Limit::least_lag`](tidegate_core::Limit::least_lag)):
//! who gives up before that is refused.

use std::task::Waker;

use tidegate_core::{Backlog, Nanos, Timestamp};

use super::queue::{Queue, Ticket, Waiter, too_long};
use super::{Queues, Refusal};

/// Where a request in line finds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// In front.
    Front {
        /// How often units may have come back.
        nudges: u64,
        /// When the next of those behind it gives up. It is for the one in front to see to that, who has a timer.
        others_give_up: Option<Timestamp>,
    },
    /// Behind others; it will be woken.
    Behind,
    /// It does not wait any longer.
    Refused(Refusal),
}

/// The one in front has to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutOff {
    /// When it fits, as far as is known.
    pub due: Timestamp,
    /// How often units may have come back before it asked.
    pub nudges: u64,
}

/// What becomes of one that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Postponed {
    /// It waits.
    Sleeps,
    /// Units may have come back since it asked.
    AsksAgain,
}

impl Queues {
    /// A request gets in line before it asks, unless it is known to come too late. `lag` is how long after the first in
    /// line the last leaves at the least.
    pub(crate) fn stand(
        &self,
        line: &[u8],
        mut newcomer: Waiter,
        lag: impl Fn(Backlog) -> Option<Nanos>,
    ) -> Result<Ticket, Refusal> {
        let mut shard = self.lock(line);
        let queue = shard.entry(line.into()).or_default();
        let refusal = match self.is_full(queue.len()) {
            true => Some(Refusal::QueueFull),
            false => queue.foretells(&mut newcomer, lag),
        };
        let stands = match refusal {
            Some(refusal) => Err(refusal),
            None => {
                let ticket = self.enter(queue, newcomer);
                queue.watch(ticket);
                Ok(ticket)
            }
        };
        self.finish(shard, line);
        stands
    }

    /// A request in line looks where it is, and is woken by `waker` when that changes.
    pub(crate) fn look(&self, line: &[u8], ticket: Ticket, waker: &Waker) -> Look {
        let mut shard = self.lock(line);
        let look = shard.get_mut(line).map_or(Look::Behind, |queue| queue.look(ticket, waker));
        self.finish(shard, line);
        look
    }

    /// The one in front has to wait: it is told if it is to ask again, and those behind it who cannot wait so long leave.
    pub(crate) fn put_off(
        &self,
        line: &[u8],
        ticket: Ticket,
        put_off: PutOff,
        lag: impl Fn(Backlog) -> Option<Nanos>,
    ) -> Postponed {
        let mut shard = self.lock(line);
        let postponed = match shard.get_mut(line) {
            Some(queue) => queue.put_off(ticket, put_off, lag),
            None => Postponed::AsksAgain,
        };
        self.finish(shard, line);
        postponed
    }

    /// Those behind the one in front leave who give up now.
    pub(crate) fn give_up(&self, line: &[u8], front: Ticket, now: Timestamp) {
        let mut shard = self.lock(line);
        if let Some(queue) = shard.get_mut(line) {
            queue.give_up(front, now);
        }
        self.finish(shard, line);
    }
}

impl Queue {
    /// When a newcomer leaves at the least, if that is known; why it need not get in line, if that is too late.
    fn foretells(&self, newcomer: &mut Waiter, lag: impl Fn(Backlog) -> Option<Nanos>) -> Option<Refusal> {
        if self.is_before_others(newcomer.ticket) {
            return None;
        }
        let (due, (_, front)) = self.unlocked.due.zip(self.waiters.first_key_value())?;
        let behind = (self.unlocked.units - u128::from(front.cost)).saturating_add(newcomer.cost.into());
        let leaves = due.saturating_add(lag(backlog(front.cost, behind))?);
        newcomer.foreseen = Some(leaves);
        newcomer.gives_up_before(leaves).then(|| too_long(newcomer.arrived, leaves))
    }

    fn look(&mut self, ticket: Ticket, waker: &Waker) -> Look {
        if let Some(refusal) = self.refused.get(&ticket) {
            return Look::Refused(*refusal);
        }
        self.wakes_by(ticket, waker);
        if self.front() != Some(ticket) {
            return Look::Behind;
        }
        let mut others = self.deadlines.iter().filter(|(_, other)| *other != ticket);
        let others_give_up = others.next().map(|(deadline, _)| *deadline);
        Look::Front { nudges: self.unlocked.nudges, others_give_up }
    }

    fn put_off(
        &mut self,
        ticket: Ticket,
        put_off: PutOff,
        lag: impl Fn(Backlog) -> Option<Nanos>,
    ) -> Postponed {
        if self.unlocked.nudges != put_off.nudges || self.front() != Some(ticket) {
            return Postponed::AsksAgain;
        }
        let front = &self.waiters[&ticket];
        // Where nobody knows when units come back, nobody is told.
        if lag(backlog(front.cost, 0)).is_none() {
            return Postponed::Sleeps;
        }
        self.unlocked.due = Some(put_off.due);
        // Who came while it was known when the front leaves was told then, and only hears of it again if that is later.
        if front.foreseen.is_none_or(|foreseen| foreseen < put_off.due) {
            self.foretell_all(put_off.due, lag);
        }
        Postponed::Sleeps
    }

    /// Works out when all in line leave at the least, and refuses those for whom that is too late.
    fn foretell_all(&mut self, due: Timestamp, lag: impl Fn(Backlog) -> Option<Nanos>) {
        let mut first = None;
        let mut behind = 0;
        let mut refused = Vec::new();
        for (ticket, waiter) in &mut self.waiters {
            let leaves = match first {
                None => {
                    first = Some(waiter.cost);
                    due
                }
                Some(first) => {
                    behind += u128::from(waiter.cost);
                    due.saturating_add(lag(backlog(first, behind)).unwrap_or_default())
                }
            };
            waiter.foreseen = Some(leaves);
            if waiter.gives_up_before(leaves) {
                // It leaves no units behind for those who follow.
                behind -= u128::from(waiter.cost).min(behind);
                refused.push((*ticket, too_long(waiter.arrived, leaves)));
            }
        }
        refused.into_iter().for_each(|(ticket, refusal)| self.refuse(ticket, refusal));
    }

    fn give_up(&mut self, front: Ticket, now: Timestamp) {
        let due = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
        let late: Vec<Ticket> = due.map(|(_, ticket)| *ticket).filter(|ticket| *ticket != front).collect();
        late.into_iter().for_each(|ticket| self.refuse(ticket, Refusal::TooLong { wait: None }));
    }
}

fn backlog(first: u64, behind: u128) -> Backlog {
    Backlog { first, behind: u64::try_from(behind).unwrap_or(u64::MAX) }
}
