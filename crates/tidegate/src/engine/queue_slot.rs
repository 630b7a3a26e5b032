//! A request's slot in the wait queue of a limit.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use smallvec::SmallVec;
use tidegate_core::rules::Delay;
use tidegate_core::{Nanos, Plan, Timestamp};

use super::Inner;
use crate::memory::{Foreseen, Foresight, MemoryStore, Pending};
use crate::store::Store;
use crate::waiting::{
    Admission, Exit, Forecast, Forecaster, Look, Nap, Postponed, PutOff, Stood, Ticket, Waiter,
};
use crate::{Refusal, Timer};

/// How often the head of a queue asks a shared store at least: refunds made by other nodes are not announced.
const POLL_EVERY_NS: u128 = 1_000_000_000;

/// The key of a limit's wait queue: the counter and the key that requests wait for.
pub(super) type QueueKey = SmallVec<[u8; QUEUE_KEY_INLINE_BYTES]>;

/// As long as the keys of a request need no allocation, neither does this.
const QUEUE_KEY_INLINE_BYTES: usize = 200;

pub(super) fn queue_key(delay: &Delay<'_>) -> QueueKey {
    let mut key = QueueKey::from_slice(&delay.counter().get().to_le_bytes());
    key.extend_from_slice(delay.key);
    key
}

/// A slot in a wait queue. Dropped, it is given up.
pub(super) struct QueueSlot<'e, C: Timer, S: Store> {
    engine: &'e Inner<C, S>,
    key: Box<[u8]>,
    pub stood: Stood,
    /// When the request came to this queue.
    pub since: Timestamp,
    /// How often the rules had changed when they were last looked at.
    changes: u64,
    is_left: bool,
}

/// Why a request in a queue goes on.
#[derive(Clone, Copy)]
pub(super) enum Woken {
    /// It is the head of the queue.
    Head(Turn),
    /// It is behind others, and there may be room for it too.
    Joins(Turn),
    /// It does not wait any longer.
    Refused(Refusal),
    /// The rules or a signal have changed.
    Changed,
}

/// What a request that asks goes by.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// How often units may have come back.
    pub wakes: u64,
    /// When the request before it left.
    pub left: Timestamp,
}

/// Whether a request asks with those in front of it where there may be room for all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Company {
    Joins,
    /// It waits until it is the head itself.
    Alone,
}

/// A request that enters a queue.
pub(super) struct Newcomer {
    /// Its ticket, if it waited in another queue before.
    pub ticket: Option<Ticket>,
    /// When it came.
    pub since: Timestamp,
    /// When it gives up.
    pub deadline: Timestamp,
}

/// Forecasts for a limit whose counters are in memory.
pub(super) struct DelayForecaster<'a> {
    pub delay: Delay<'a>,
    pub memory: &'a MemoryStore,
}

impl Forecaster for DelayForecaster<'_> {
    fn store(&self) -> &MemoryStore {
        self.memory
    }

    fn plan(&self, now: Timestamp) -> Plan<'_> {
        self.delay.plan(now)
    }

    fn retires(&self, now: Timestamp) -> Option<Timestamp> {
        self.delay.retires(now)
    }

    /// A request by rules waits for its turn alone, not for its delay.
    fn admit(&self, foresight: &mut Foresight, plan: &Plan<'_>, pending: Pending) -> Foreseen {
        foresight.admit_undelayed(plan, pending)
    }
}

/// The forecasts for a limit, if the store can make any.
pub(super) fn forecaster_of<'a, C, S: Store>(
    engine: &'a Inner<C, S>,
    delay: Delay<'a>,
) -> Option<DelayForecaster<'a>> {
    match engine.store.is_local() {
        true => engine.store.local().map(|memory: &Arc<MemoryStore>| DelayForecaster { delay, memory }),
        false => None,
    }
}

impl<'e, C: Timer, S: Store> QueueSlot<'e, C, S> {
    /// Enters the queue of a limit.
    pub async fn enter(
        engine: &'e Inner<C, S>,
        delay: Delay<'_>,
        newcomer: Newcomer,
        changes: u64,
    ) -> Result<Self, Refusal> {
        let Newcomer { ticket, since, deadline } = newcomer;
        let key = queue_key(&delay).into_boxed_slice();
        let forecaster = forecaster_of(engine, delay);
        let entered = poll_fn(|context| {
            let (cost, waker) = (delay.cost, context.waker().clone());
            let waiter =
                Waiter { ticket, cost, arrived: since, deadline: Some(deadline), foreseen: None, waker };
            Poll::Ready(engine.queues.stand(&key, waiter, forecaster.as_ref()))
        });
        let stood = entered.await?;
        Ok(Self { engine, key, stood, since, changes, is_left: false })
    }

    /// Whether this is the queue of a limit.
    pub fn is_of(&self, delay: &Delay<'_>) -> bool {
        *queue_key(delay) == *self.key
    }

    /// The rules have been looked at.
    pub fn looked_at(&mut self, changes: u64) {
        self.changes = changes;
    }

    /// The request is about to ask, as the head.
    pub fn begin_ask(&self) {
        self.engine.queues.begin_ask(&self.key, self.stood.ticket);
    }

    /// Leaves the queue, admitted.
    pub fn leave(mut self, admission: Admission, delay: Delay<'_>) {
        let forecaster = forecaster_of(self.engine, delay);
        let forecast = forecaster.as_ref().map(|by| Forecast { by, now: self.engine.clock.now() });
        self.engine.queues.leave_admitted(&self.key, self.stood.ticket, admission, forecast);
        self.is_left = true;
    }

    /// Waits until the request is the head of the queue, or may ask with those in front of it.
    pub async fn until_head(&self, company: Company) -> Woken {
        poll_fn(|context| match self.engine.queues.look(&self.key, self.stood.ticket, context.waker()) {
            Look::Refused(refusal) => Poll::Ready(Woken::Refused(refusal)),
            _ if self.engine.changes() != self.changes => Poll::Ready(Woken::Changed),
            Look::Front { nudges, left, .. } => Poll::Ready(Woken::Head(Turn { wakes: nudges, left })),
            Look::Joins { nudges, left } if company == Company::Joins => {
                Poll::Ready(Woken::Joins(Turn { wakes: nudges, left }))
            }
            Look::Joins { .. } | Look::Behind => Poll::Pending,
        })
        .await
    }

    /// Waits, as the head, until the request may fit: until it is due, or until units may have come back. Lets those behind it
    /// leave that give up meanwhile.
    pub async fn until_due(&self, put_off: PutOff, delay: Delay<'_>) -> Woken {
        let queues = &self.engine.queues;
        let now = self.engine.clock.now();
        let forecaster = forecaster_of(self.engine, delay);
        let forecast = forecaster.as_ref().map(|by| Forecast { by, now });
        match queues.put_off(&self.key, self.stood.ticket, put_off, forecast) {
            Postponed::AsksAgain => return self.until_head(Company::Joins).await,
            Postponed::Refused(refusal) => return Woken::Refused(refusal),
            Postponed::Sleeps => {}
        }
        // Only a shared store has to be polled.
        let poll_at = now.saturating_add(Nanos::new(POLL_EVERY_NS));
        let due = if forecaster.is_some() { put_off.due } else { put_off.due.min(poll_at) };
        let mut nap = Nap::none();
        poll_fn(|context| {
            loop {
                let (turn, others_give_up, may_ask) =
                    match queues.look(&self.key, self.stood.ticket, context.waker()) {
                        Look::Refused(refusal) => return Poll::Ready(Woken::Refused(refusal)),
                        _ if self.engine.changes() != self.changes => return Poll::Ready(Woken::Changed),
                        // A request that came earlier, from another queue: this one asks again when it is the head.
                        Look::Behind => return Poll::Pending,
                        Look::Joins { nudges, left } => {
                            return Poll::Ready(Woken::Joins(Turn { wakes: nudges, left }));
                        }
                        Look::Front { nudges, left, others_give_up, may_ask } => {
                            (Turn { wakes: nudges, left }, others_give_up, may_ask)
                        }
                    };
                if may_ask || turn.wakes != put_off.nudges {
                    return Poll::Ready(Woken::Head(turn));
                }
                let wake = others_give_up.map_or(due, |give_up| due.min(give_up));
                match nap.poll_until(wake, &self.engine.clock, context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) if wake == due => return Poll::Ready(Woken::Head(turn)),
                    Poll::Ready(()) => queues.give_up(&self.key, self.stood.ticket, self.engine.clock.now()),
                }
            }
        })
        .await
    }
}

impl<C: Timer, S: Store> Drop for QueueSlot<'_, C, S> {
    fn drop(&mut self) {
        if !self.is_left {
            let now = self.engine.clock.now();
            self.engine.queues.leave(&self.key, self.stood.ticket, Exit::Dropped(now));
        }
    }
}
