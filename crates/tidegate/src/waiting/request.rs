//! What a waiting request asks for.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::{Ask, Nanos, Plan, Timestamp, Wait};

use super::LATE_NS_MAX;
use crate::holding::Admitted;
use crate::memory::{Foreseen, Foresight, Pending};
use crate::{Clock, Limiter};

/// So much, for this key, of this limiter.
pub(crate) struct Request<'a, C> {
    pub limiter: &'a Limiter<C>,
    pub key: Box<[u8]>,
    pub cost: u64,
    /// How long what it is given may be held, if that is less than the limits would give.
    pub ttl: Option<Nanos>,
    /// Whether it gave something back that others have not been told of.
    gave_back: AtomicBool,
}

/// When all limits that were changed are gone.
const END_OF_TIME: Timestamp = Timestamp::from_nanos(u64::MAX);

/// What became of asking.
pub(super) enum Attempt {
    /// Admitted and charged.
    Admitted(Admitted),
    /// Not before this wait is over.
    Wait(Wait),
}

impl<'a, C: Clock> Request<'a, C> {
    pub(crate) fn new(limiter: &'a Limiter<C>, key: &[u8], cost: u64) -> Self {
        Self { limiter, key: key.into(), cost, ttl: None, gave_back: AtomicBool::new(false) }
    }

    /// The same, for what is held for no longer than `ttl`.
    pub(crate) fn held_for(self, ttl: Nanos) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Asks, and takes what it asks for if that is admitted.
    pub(super) fn attempt(&self, at: Timestamp) -> Attempt {
        // A request that waits makes one attempt, when it is admitted: it asks without asking until then.
        if self.limiter.counts_denied(at) {
            let wait = self.limiter.store().wait(&self.plan(at), at);
            if wait > Wait::NONE {
                return Attempt::Wait(wait);
            }
        }
        let (decision, lease) = match self.limiter.has_leases(at) {
            true => self.limiter.lease_at(&self.key, self.cost, self.ttl, at),
            false => (self.limiter.check_at(&self.key, self.cost, at), None),
        };
        match decision.is_allowed() {
            true => Attempt::Admitted(Admitted { decision, lease, at }),
            false => Attempt::Wait(decision.retry_after),
        }
    }

    /// Gives back what an attempt took. Tells nobody, for the line may be locked.
    pub(super) fn give_back(&self, admitted: &Admitted) {
        let (store, now) = (self.limiter.store(), self.limiter.clock().now());
        let plan = self.plan(now);
        if let Some(lease) = &admitted.lease {
            let _ = store.release(&plan, &lease.token, now);
        }
        store.refund_charged(&plan, Some(admitted.at), now);
        self.gave_back.store(true, Ordering::Relaxed);
    }

    /// Tells those who wait for the same units, if any were given back. Nothing is locked.
    pub(super) fn tell(&self) {
        if self.gave_back.swap(false, Ordering::Relaxed) {
            self.limiter.kin().nudge(&self.key, self.limiter.clock().now());
        }
    }

    /// Whether it is known when it will be admitted: leases are given back whenever their holders like.
    pub(super) fn is_foreseeable(&self, now: Timestamp) -> bool {
        !self.limiter.has_leases(now)
    }

    /// The instant as of which it may be decided: when it was due, if its timer is a little late. What depends on
    /// others giving back was not due before they did.
    pub(super) fn earliest(&self, now: Timestamp) -> Timestamp {
        let late_ns_max = if self.is_foreseeable(now) { LATE_NS_MAX } else { 0 };
        Timestamp::from_nanos(now.as_nanos().saturating_sub(late_ns_max))
    }

    /// Whether it can be admitted at all, however long it waits: when limits on their way out are gone.
    pub(super) fn is_possible(&self, now: Timestamp) -> bool {
        let outcomes = self.limiter.store().peek(&self.plan(END_OF_TIME), now);
        outcomes.iter().all(|outcome| outcome.retry_after < Wait::NEVER)
    }

    /// When to ask again if it has to wait this long at `at`: no later than when a limit goes that may be the one
    /// it waits for. None if it never is to.
    pub(super) fn due(&self, at: Timestamp, wait: Wait) -> Option<Timestamp> {
        let due = wait.span().map(|wait| at.saturating_add(wait.max(Nanos::new(1))));
        due.into_iter().chain(self.limiter.retires(at)).min().filter(|due| *due > at)
    }

    /// The states it depends on.
    pub(super) fn foresee(&self, now: Timestamp) -> Foresight {
        self.limiter.store().foresee(&self.plan(now))
    }

    /// Plays a request of its key out, which limits on their way out do not hold up for longer than they last.
    pub(super) fn play(&self, foresight: &mut Foresight, pending: Pending) -> Foreseen {
        let wait_at = |now| foresight.wait(&self.plan(now), Ask { now, cost: pending.cost });
        let (from, _) = self.limiter.past_retirements(pending.from, wait_at);
        foresight.admit(&self.plan(from), Pending { from, ..pending })
    }

    pub(super) fn plan(&self, now: Timestamp) -> Plan<'_> {
        self.limiter.plan(&self.key, self.cost, now)
    }
}
