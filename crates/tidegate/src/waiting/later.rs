//! Lines for a store that answers later: who is in front asks it without the line being locked.
//!
//! So units may come back while it is asked, and what it hears may be from before that. Whoever gives units back counts
//! a nudge. The one in front looks at the count before it asks and, with the line locked, before it sleeps: if it is
//! another then, it asks again. A line that nobody is in has no count, so who asks before it gets in line goes by the
//! count of all lines.
//!
//! Who is admitted hears how much was left. Where that is enough for some of those behind it they ask at once, together, for one
//! after the other they would go no faster than a round trip each, however high the limit is. They keep their places
//! meanwhile, and as soon as one of them is put off, only the one in front asks again.
//!
//! Nobody can play out on copies of states what is kept elsewhere. When the one in front fits is what the store told it,
//! and those behind it follow no sooner than the limit lets them ([`Pace`]): who gives up before that is refused.

use std::task::Waker;

use tidegate_core::{Pace, Timestamp};

use super::queue::{Exit, Queue, Ticket, Waiter, too_long};
use super::request::Forecaster;
use super::unlocked::{Foretold, Precision};
use super::{LATE_NS_MAX, Queues, Refusal};

/// The most of a line that are let ask by one answer. They wait at the store's desk together with all others.
const ASK_TOGETHER_MAX: usize = 256;

/// Where a request in line finds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// In front.
    Front {
        /// How often units may have come back.
        nudges: u64,
        /// When the last request left, or units came back: no request is decided as of an earlier instant.
        left: Timestamp,
        /// When the next of those behind it gives up. It is for the one in front to see to that, who has a timer.
        others_give_up: Option<Timestamp>,
        /// Whether somebody was admitted since it was put off, and there may be room for it too.
        may_ask: bool,
    },
    /// Behind others, and there may be room for it too.
    Joins {
        /// How often units may have come back.
        nudges: u64,
        /// When the last request left, or units came back.
        left: Timestamp,
    },
    /// Behind others; it will be woken.
    Behind,
    /// It does not wait any longer.
    Refused(Refusal),
}

/// The one in front has to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutOff {
    /// When it is to ask again.
    pub due: Timestamp,
    /// Who follows it, if it fits then, as far as is known.
    pub pace: Option<Pace>,
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
    /// It cannot be admitted in time.
    Refused(Refusal),
}

/// How a request was admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// As of when.
    pub at: Timestamp,
    /// The units that were left, for requests behind it; none if they ask one after the other.
    pub left_units: u64,
}

/// Exact forecasts, for counters that are in memory, and the present instant.
pub(crate) struct Forecast<'a, F> {
    pub by: &'a F,
    pub now: Timestamp,
}

impl<F> Clone for Forecast<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Forecast<'_, F> {}

/// A place that somebody got in a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stood {
    pub ticket: Ticket,
    /// How often units may have come back to this line.
    pub nudges: u64,
    /// How often they may have come back to any.
    pub nudges_of_all: u64,
}

impl Queues {
    /// A request gets in line, unless it is known to come too late.
    pub(crate) fn stand<F: Forecaster>(
        &self,
        line: &[u8],
        newcomer: Waiter,
        forecast: Option<&F>,
    ) -> Result<Stood, Refusal> {
        let mut shard = self.lock(line);
        let queue = shard.entry(line.into()).or_default();
        let stands = match self.is_full(queue.len()) {
            true => Err(Refusal::QueueFull),
            false => match forecast {
                Some(forecast) => self.stand_in_forecast(queue, newcomer, forecast),
                None => self.stand_in(queue, newcomer),
            },
        };
        let (nudges, nudges_of_all) = (queue.unlocked.nudges, self.nudges());
        self.finish(shard, line);
        stands.map(|ticket| Stood { ticket, nudges, nudges_of_all })
    }

    fn stand_in(&self, queue: &mut Queue, mut newcomer: Waiter) -> Result<Ticket, Refusal> {
        let is_before_others = queue.is_before_others(newcomer.ticket);
        if !is_before_others && let Some(refusal) = queue.comes_in_vain(&mut newcomer) {
            return Err(refusal);
        }
        let ticket = self.enter(queue, newcomer);
        queue.watch(ticket);
        if is_before_others {
            queue.foretell_all();
        }
        Ok(ticket)
    }

    /// As `stand_in`, with exact forecasts. None is made while the head asks: its units may be counted already or not.
    fn stand_in_forecast(
        &self,
        queue: &mut Queue,
        mut newcomer: Waiter,
        forecast: &impl Forecaster,
    ) -> Result<Ticket, Refusal> {
        let now = newcomer.arrived;
        let is_foreseeable = forecast.is_foreseeable(now);
        let is_before_others = queue.is_before_others(newcomer.ticket);
        if queue.is_asking {
            queue.is_unforecast = true;
            return Ok(self.enter(queue, newcomer));
        }
        if !is_before_others && let Some(refusal) = queue.refuses(forecast, &mut newcomer) {
            return Err(refusal);
        }
        let ticket = self.enter(queue, newcomer);
        if is_before_others {
            queue.pushed_in(forecast, ticket, now);
        } else if !is_foreseeable {
            queue.watch(ticket);
        }
        Ok(ticket)
    }

    /// The head is about to ask a store whose outcomes are forecast.
    pub(crate) fn begin_ask(&self, line: &[u8], ticket: Ticket) {
        let mut shard = self.lock(line);
        if let Some(queue) = shard.get_mut(line) {
            queue.is_asking = queue.front() == Some(ticket);
        }
        self.finish(shard, line);
    }

    /// A request in line looks where it is, and is woken by `waker` when that changes.
    pub(crate) fn look(&self, line: &[u8], ticket: Ticket, waker: &Waker) -> Look {
        let mut shard = self.lock(line);
        let look = shard.get_mut(line).map_or(Look::Behind, |queue| queue.look(ticket, waker));
        self.finish(shard, line);
        look
    }

    /// A request has to wait: it is told if it is to ask again when it is in front, and if it is in front, those behind it
    /// who cannot wait so long leave.
    pub(crate) fn put_off<F: Forecaster>(
        &self,
        line: &[u8],
        ticket: Ticket,
        put_off: PutOff,
        forecast: Option<Forecast<'_, F>>,
    ) -> Postponed {
        let mut shard = self.lock(line);
        let postponed = shard
            .get_mut(line)
            .map_or(Postponed::AsksAgain, |queue| queue.put_off(ticket, put_off, forecast));
        self.finish(shard, line);
        postponed
    }

    /// A request leaves the line with what it waited for. As many of those behind it as the units that were left are enough for
    /// ask together.
    pub(crate) fn leave_admitted<F: Forecaster>(
        &self,
        line: &[u8],
        ticket: Ticket,
        admission: Admission,
        forecast: Option<Forecast<'_, F>>,
    ) {
        let mut shard = self.lock(line);
        if let Some(queue) = shard.get_mut(line) {
            let foreseen = queue.waiters.get(&ticket).and_then(|waiter| waiter.foreseen);
            queue.leave(ticket, Exit::Done);
            match forecast {
                Some(forecast) => queue.left_admitted(admission.at, foreseen, forecast),
                None => queue.let_ask(admission.left_units),
            }
        }
        self.has_left();
        self.finish(shard, line);
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
    /// Why a newcomer need not get in line, if that is known.
    fn comes_in_vain(&mut self, newcomer: &mut Waiter) -> Option<Refusal> {
        let (mut leaves, precision) = self.follows_all(newcomer)?;
        if precision == Precision::MaybeSooner && newcomer.gives_up_before(leaves) {
            self.foretell_all();
            (leaves, _) = self.follows_all(newcomer)?;
        }
        if newcomer.gives_up_before(leaves) {
            return Some(too_long(newcomer.arrived, leaves));
        }
        newcomer.foreseen = Some(leaves);
        if let Some(foretold) = &mut self.unlocked.foretold {
            foretold.tail.follow(newcomer.cost);
        }
        None
    }

    /// When a newcomer leaves at the least, behind all in line.
    fn follows_all(&self, newcomer: &Waiter) -> Option<(Timestamp, Precision)> {
        let Foretold { due, mut tail, precision, .. } = self.unlocked.foretold?;
        Some((due.saturating_add(tail.follow(newcomer.cost)), precision))
    }

    fn look(&mut self, ticket: Ticket, waker: &Waker) -> Look {
        if let Some(refusal) = self.refused.get(&ticket) {
            return Look::Refused(*refusal);
        }
        self.wakes_by(ticket, waker);
        let (nudges, left) = (self.unlocked.nudges, self.left);
        let may_ask = self.unlocked.asks_up_to.is_some_and(|last| ticket <= last);
        if self.front() != Some(ticket) {
            return if may_ask { Look::Joins { nudges, left } } else { Look::Behind };
        }
        let mut others = self.deadlines.iter().filter(|(_, other)| *other != ticket);
        let others_give_up = others.next().map(|(deadline, _)| *deadline);
        Look::Front { nudges, left, others_give_up, may_ask }
    }

    /// There was room for so many units: those behind the one in front who fit need not wait for it. Who was let before is
    /// not woken again.
    fn let_ask(&mut self, mut left: u64) {
        let before = self.unlocked.asks_up_to;
        for (ticket, waiter) in self.waiters.iter().take(ASK_TOGETHER_MAX) {
            let Some(rest) = left.checked_sub(waiter.cost) else { break };
            left = rest;
            if Some(*ticket) > before {
                self.unlocked.asks_up_to = Some(*ticket);
                self.woken.push(waiter.waker.clone());
            }
        }
    }

    /// A request was admitted as of `at`, which its forecast may have been too early for.
    fn left_admitted<F: Forecaster>(
        &mut self,
        at: Timestamp,
        foreseen: Option<Timestamp>,
        forecast: Forecast<'_, F>,
    ) {
        self.left = at;
        if foreseen.is_some_and(|foreseen| foreseen < at) || std::mem::take(&mut self.is_unforecast) {
            self.play_out(forecast.by, forecast.now);
        }
        // No request behind it leaves sooner.
        self.refuse_those(|deadline| deadline < at);
    }

    /// The head cannot be admitted before `due`, as far as is known.
    fn put_off_forecast<F: Forecaster>(
        &mut self,
        ticket: Ticket,
        due: Timestamp,
        forecast: Forecast<'_, F>,
    ) -> Postponed {
        let Forecast { by, now } = forecast;
        if !by.is_foreseeable(now) {
            self.refuse_those(|deadline| deadline <= now);
        } else {
            // Requests that do not wait took units, so all in the queue are later than was forecast; or no forecast could be made
            // when they came, and one of them has a deadline.
            let foreseen = self.waiters[&ticket].foreseen;
            let is_later = foreseen.map_or(!self.deadlines.is_empty(), |foreseen| foreseen < due);
            if std::mem::take(&mut self.is_unforecast) || is_later {
                self.play_out(by, now);
            }
        }
        self.refused.get(&ticket).map_or(Postponed::Sleeps, |refusal| Postponed::Refused(*refusal))
    }

    fn put_off<F: Forecaster>(
        &mut self,
        ticket: Ticket,
        put_off: PutOff,
        forecast: Option<Forecast<'_, F>>,
    ) -> Postponed {
        let PutOff { due, pace, nudges } = put_off;
        if self.front() == Some(ticket) {
            self.is_asking = false;
        }
        if self.unlocked.asks_up_to >= Some(ticket) {
            self.unlocked.asks_up_to = None;
        }
        if self.unlocked.nudges != nudges || self.front() != Some(ticket) {
            return Postponed::AsksAgain;
        }
        if let Some(forecast) = forecast {
            return self.put_off_forecast(ticket, due, forecast);
        }
        // It was told when it came, and so were those behind it, unless it is later than that. An answer takes a while,
        // which may be a little more each time.
        let told = self.unlocked.foretold.and(self.waiters[&ticket].foreseen);
        let is_as_told = |told: Timestamp| due.as_nanos() <= told.as_nanos().saturating_add(LATE_NS_MAX);
        if pace.is_none() || !told.is_some_and(is_as_told) {
            let precision = Precision::Exact;
            self.unlocked.foretold = pace.map(|pace| Foretold { due, pace, tail: pace, precision });
            self.foretell_all();
        }
        Postponed::Sleeps
    }

    /// Works out when all in line leave at the least, and refuses those for whom that is too late.
    fn foretell_all(&mut self) {
        let Some(mut foretold) = self.unlocked.foretold else { return };
        let mut tail = foretold.pace;
        let mut refused = Vec::new();
        for (ticket, waiter) in self.waiters.iter_mut().skip(1) {
            // One that is refused leaves its units to those who follow.
            let mut after = tail;
            let leaves = foretold.due.saturating_add(after.follow(waiter.cost));
            waiter.foreseen = Some(leaves);
            match waiter.gives_up_before(leaves) {
                true => refused.push((*ticket, too_long(waiter.arrived, leaves))),
                false => tail = after,
            }
        }
        refused.into_iter().for_each(|(ticket, refusal)| self.refuse(ticket, refusal));
        (foretold.tail, foretold.precision) = (tail, Precision::Exact);
        self.unlocked.foretold = Some(foretold);
    }

    fn give_up(&mut self, front: Ticket, now: Timestamp) {
        let due = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
        let late: Vec<Ticket> = due.map(|(_, ticket)| *ticket).filter(|ticket| *ticket != front).collect();
        late.into_iter().for_each(|ticket| self.refuse(ticket, Refusal::TooLong { wait: None }));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LINE: &[u8] = b"line";
    const NO_FORECAST: Option<&crate::waiting::OfLimiter<'_, crate::ManualClock>> = None;

    fn no_forecast<'a>() -> Option<Forecast<'a, crate::waiting::OfLimiter<'a, crate::ManualClock>>> {
        None
    }

    fn stand(queues: &Queues) -> Ticket {
        let arrived = Timestamp::from_nanos(0);
        let (ticket, deadline, foreseen, waker) = (None, None, None, Waker::noop().clone());
        let waiter = Waiter { ticket, cost: 1, arrived, deadline, foreseen, waker };
        queues.stand(LINE, waiter, NO_FORECAST).unwrap().ticket
    }

    fn may_ask(queues: &Queues, ticket: Ticket) -> bool {
        match queues.look(LINE, ticket, Waker::noop()) {
            Look::Front { may_ask, .. } => may_ask,
            look => matches!(look, Look::Joins { .. }),
        }
    }

    /// Two were asked about at once. The one in front was put off, and then the other one found that units had come back.
    #[test]
    fn the_one_in_front_does_not_sleep_while_others_behind_it_ask() {
        let queues = Queues::new(10);
        let [front, second, third] = [(); 3].map(|()| stand(&queues));
        let put_off = PutOff { due: Timestamp::from_nanos(9), pace: None, nudges: 0 };
        assert_eq!(queues.put_off(LINE, front, put_off, no_forecast()), Postponed::Sleeps);
        assert_eq!([front, third].map(|ticket| may_ask(&queues, ticket)), [false, false]);
        let admission = Admission { at: Timestamp::from_nanos(0), left_units: 5 };
        queues.leave_admitted(LINE, second, admission, no_forecast());
        assert_eq!([front, third].map(|ticket| may_ask(&queues, ticket)), [true, true]);
        assert_eq!(queues.put_off(LINE, front, put_off, no_forecast()), Postponed::Sleeps);
        assert_eq!([front, third].map(|ticket| may_ask(&queues, ticket)), [false, false]);
    }
}
