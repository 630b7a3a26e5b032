//! A line played out: when will everyone in it leave, and who comes too late?

use tidegate_core::Timestamp;

use super::Refusal;
use super::queue::{Queue, Ticket, Waiter, too_long};
use super::request::Forecaster;
use crate::memory::{Foreseen, Foresight, Pending};

/// The end of a line: what the states will be when all in it have left.
pub(super) struct Tail {
    foresight: Foresight,
    /// When the last one in line leaves.
    left: Timestamp,
    precision: Precision,
}

/// How good what was worked out still is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Precision {
    /// As long as nobody takes units past the line.
    Exact,
    /// Somebody left the line or gave units back since. Good enough to let a newcomer in, not to refuse one.
    MaybeSooner,
}

impl Queue {
    /// Why a newcomer need not get in line, if that is known.
    pub(super) fn refuses(&mut self, request: &impl Forecaster, newcomer: &mut Waiter) -> Option<Refusal> {
        let now = newcomer.arrived;
        let worked_out = self.tail.as_ref().is_some_and(|tail| request.is_foreseen_by(&tail.foresight, now));
        if !request.is_foreseeable(now) || !worked_out && newcomer.deadline.is_none() {
            let refusal = (!request.is_possible(now)).then_some(Refusal::Never);
            return refusal.or_else(|| self.comes_too_late(newcomer));
        }
        if !worked_out {
            self.play_out(request, now);
        }
        let mut foreseen = self.play_behind(request, newcomer)?;
        // Playing all of them out takes a while, so it is done for an answer that depends on it only.
        if let Foreseen::TooLate(_) = foreseen
            && self.tail.as_ref().is_some_and(|tail| tail.precision == Precision::MaybeSooner)
        {
            self.play_out(request, now);
            foreseen = self.play_behind(request, newcomer)?;
        }
        match foreseen {
            Foreseen::Leaves(leaves) => {
                newcomer.foreseen = Some(leaves);
                None
            }
            Foreseen::TooLate(leaves) => Some(too_long(now, leaves)),
            Foreseen::Never => Some(Refusal::Never),
        }
    }

    /// Plays a newcomer out behind all in line, if it was worked out how those end.
    fn play_behind(&mut self, request: &impl Forecaster, newcomer: &Waiter) -> Option<Foreseen> {
        let tail = self.tail.as_mut()?;
        let from = tail.left.max(newcomer.arrived);
        let pending = Pending { cost: newcomer.cost, from, deadline: newcomer.deadline };
        let foreseen = request.play(&mut tail.foresight, pending);
        if let Foreseen::Leaves(leaves) = foreseen {
            tail.left = leaves;
        }
        Some(foreseen)
    }

    /// What is known of a newcomer though it is not known when those in front leave: not at once, and not before one
    /// that is held does.
    fn comes_too_late(&self, newcomer: &Waiter) -> Option<Refusal> {
        let expects_none = !self.waiters.is_empty() && newcomer.deadline == Some(newcomer.arrived);
        let is_held_up = self.front_is_charged && newcomer.gives_up_before(self.left);
        (expects_none || is_held_up).then_some(Refusal::TooLong { wait: None })
    }

    /// Works out when everyone in line will leave, and refuses those for whom that is too late.
    pub(super) fn play_out(&mut self, request: &impl Forecaster, now: Timestamp) {
        let mut foresight = request.foresee(now);
        // Who gave units back may go by another clock, which is ahead.
        let left = if self.front_is_charged { self.left } else { self.left.min(now) };
        let mut left = left.max(request.earliest(now));
        let mut refused = Vec::new();
        for (ticket, waiter) in self.waiters.iter_mut().skip(usize::from(self.front_is_charged)) {
            let from = left.max(waiter.arrived);
            let pending = Pending { cost: waiter.cost, from, deadline: waiter.deadline };
            match request.play(&mut foresight, pending) {
                Foreseen::Leaves(leaves) => {
                    left = leaves;
                    waiter.foreseen = Some(leaves);
                }
                Foreseen::TooLate(leaves) => refused.push((*ticket, too_long(waiter.arrived, leaves))),
                Foreseen::Never => refused.push((*ticket, Refusal::Never)),
            }
        }
        refused.into_iter().for_each(|(ticket, refusal)| self.refuse(ticket, refusal));
        self.tail = Some(Tail { foresight, left, precision: Precision::Exact });
    }

    /// Somebody who came before others takes its place in front of them, so they are later than was worked out.
    pub(super) fn pushed_in(&mut self, request: &impl Forecaster, ticket: Ticket, now: Timestamp) {
        if request.is_foreseeable(now) {
            self.play_out(request, now);
        } else {
            self.watch(ticket);
        }
    }

    /// What was worked out for the end of the line is at worst too late from now on.
    pub(super) fn may_be_sooner(&mut self) {
        if let Some(tail) = &mut self.tail {
            tail.precision = Precision::MaybeSooner;
        }
    }
}
