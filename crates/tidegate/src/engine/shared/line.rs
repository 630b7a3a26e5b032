//! Standing in line for a limit that a fleet shares.

use std::future::poll_fn;
use std::task::Poll;

use tidegate_core::rules::Delay;
use tidegate_core::{Nanos, Timestamp};

use crate::engine::Engine;
use crate::engine::waiting::line;
use crate::waiting::{Exit, Look, Nap, Postponed, PutOff, Stood, Ticket, Waiter};
use crate::{Refusal, Timer};

/// How often the one in front asks at the least: units may come back elsewhere without a word.
const ASKED_EVERY_NS: u128 = 1_000_000_000;

/// A place in a line. Dropped, it is given up.
pub(super) struct Standing<'e, C: Timer> {
    engine: &'e Engine<C>,
    line: Box<[u8]>,
    pub stood: Stood,
    /// When it came to this line.
    pub since: Timestamp,
    /// What the rules were counted as when they were last looked at.
    changes: u64,
    /// What was left when it was admitted, if it was.
    left: Option<u64>,
}

/// Why a request in line goes on.
#[derive(Clone, Copy)]
pub(super) enum Woken {
    /// It is in front, and units may have come back so often.
    InFront { nudges: u64 },
    /// It is behind others, there may be room for it too, and units may have come back so often.
    Joins { nudges: u64 },
    /// It does not wait any longer.
    Refused(Refusal),
    /// Other rules are in force, or a signal was pushed.
    Changed,
}

/// Whether a request asks with those in front of it where there may be room for all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Company {
    Joins,
    /// It waits until it is in front itself.
    Alone,
}

/// Who gets in line.
pub(super) struct Newcomer {
    /// The place that it has already, in another line.
    pub ticket: Option<Ticket>,
    /// When it came.
    pub since: Timestamp,
    /// When it gives up.
    pub deadline: Timestamp,
}

impl<'e, C: Timer> Standing<'e, C> {
    /// Gets in the line of a limit.
    pub async fn in_line_of(
        engine: &'e Engine<C>,
        delay: &Delay<'_>,
        newcomer: Newcomer,
        changes: u64,
    ) -> Result<Self, Refusal> {
        let Newcomer { ticket, since, deadline } = newcomer;
        let line = line(delay).into_boxed_slice();
        let stands = poll_fn(|context| {
            let (cost, waker) = (delay.cost, context.waker().clone());
            let waiter =
                Waiter { ticket, cost, arrived: since, deadline: Some(deadline), foreseen: None, waker };
            Poll::Ready(engine.queues.stand(&line, waiter))
        });
        let stood = stands.await?;
        Ok(Self { engine, line, stood, since, changes, left: None })
    }

    /// Whether this is the line of a limit.
    pub fn is_of(&self, delay: &Delay<'_>) -> bool {
        line(delay).as_slice() == &*self.line
    }

    /// The rules have been looked at.
    pub fn looked_at(&mut self, changes: u64) {
        self.changes = changes;
    }

    /// Leaves the line with what it waited for, when so much was left.
    pub fn leave(mut self, left: u64) {
        self.left = Some(left);
    }

    /// Waits until it is in front, or may ask with those who are.
    pub async fn until_front(&self, company: Company) -> Woken {
        poll_fn(|context| match self.engine.queues.look(&self.line, self.stood.ticket, context.waker()) {
            Look::Refused(refusal) => Poll::Ready(Woken::Refused(refusal)),
            _ if self.engine.changes() != self.changes => Poll::Ready(Woken::Changed),
            Look::Front { nudges, .. } => Poll::Ready(Woken::InFront { nudges }),
            Look::Joins { nudges } if company == Company::Joins => Poll::Ready(Woken::Joins { nudges }),
            Look::Joins { .. } | Look::Behind => Poll::Pending,
        })
        .await
    }

    /// Waits, in front, until it may fit: until then, or until units may have come back. Sees to it that those behind it
    /// leave who give up meanwhile.
    pub async fn until_due(&self, put_off: PutOff) -> Woken {
        let queues = &self.engine.queues;
        if queues.put_off(&self.line, self.stood.ticket, put_off) == Postponed::AsksAgain {
            return self.until_front(Company::Joins).await;
        }
        let ask_again = self.engine.clock.now().saturating_add(Nanos::new(ASKED_EVERY_NS));
        let due = put_off.due.min(ask_again);
        let mut nap = Nap::none();
        poll_fn(|context| {
            loop {
                let (nudges, others_give_up, may_ask) =
                    match queues.look(&self.line, self.stood.ticket, context.waker()) {
                        Look::Refused(refusal) => return Poll::Ready(Woken::Refused(refusal)),
                        _ if self.engine.changes() != self.changes => return Poll::Ready(Woken::Changed),
                        // Somebody who came earlier, from another line: it is asked again when it is in front.
                        Look::Behind => return Poll::Pending,
                        Look::Joins { nudges } => return Poll::Ready(Woken::Joins { nudges }),
                        Look::Front { nudges, others_give_up, may_ask } => (nudges, others_give_up, may_ask),
                    };
                if may_ask || nudges != put_off.nudges {
                    return Poll::Ready(Woken::InFront { nudges });
                }
                let wake = others_give_up.map_or(due, |give_up| due.min(give_up));
                match nap.poll_until(wake, &self.engine.clock, context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) if wake == due => return Poll::Ready(Woken::InFront { nudges }),
                    Poll::Ready(()) => queues.give_up(&self.line, self.stood.ticket, self.engine.clock.now()),
                }
            }
        })
        .await
    }
}

impl<C: Timer> Drop for Standing<'_, C> {
    fn drop(&mut self) {
        let (queues, ticket) = (&self.engine.queues, self.stood.ticket);
        match self.left {
            Some(left) => queues.leave_admitted(&self.line, ticket, left),
            None => queues.leave(&self.line, ticket, Exit::Dropped(self.engine.clock.now())),
        }
    }
}
