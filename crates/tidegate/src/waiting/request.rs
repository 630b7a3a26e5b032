//! What the line asks of a request that waits in it, whoever it waits for.

use tidegate_core::{Algorithm, Ask, Nanos, Plan, Timestamp, Wait};

use super::LATE_NS_MAX;
use crate::memory::{Foreseen, Foresight, MemoryStore, Pending};

/// When all limits that were changed are gone.
const END_OF_TIME: Timestamp = Timestamp::from_nanos(u64::MAX);

/// What became of asking.
pub(crate) enum Attempt<G> {
    /// Admitted and charged.
    Admitted(G),
    /// Not before this wait is over.
    Wait(Wait),
}

/// A request that may have to stand in line. All in one line wait for the same counters of the same key.
pub(crate) trait Request: Forecaster {
    /// What it leaves the line with.
    type Given;

    /// What its line is known by.
    fn line(&self) -> &[u8];

    /// Asks, and takes what it asks for if that is admitted.
    fn attempt(&self, at: Timestamp) -> Attempt<Self::Given>;

    /// How long what it was given keeps it in front of the line.
    fn held(&self, given: &Self::Given) -> Nanos;

    /// Gives back what an attempt took. Tells nobody, for the line may be locked.
    fn give_back(&self, given: &Self::Given);
}

/// Forecasts when requests in a queue will be admitted, for counters that are in memory.
pub(crate) trait Forecaster {
    /// Where the queue's counters are.
    fn store(&self) -> &MemoryStore;

    /// The charge on the queue's counters.
    fn plan(&self, now: Timestamp) -> Plan<'_>;

    /// When the next of the queue's superseded counters is not enforced any more.
    fn retires(&self, now: Timestamp) -> Option<Timestamp>;

    /// The instant, `from` or later, from which on a wait is over before another counter goes out of force.
    fn past_retirements(&self, from: Timestamp, wait_at: impl Fn(Timestamp) -> Wait) -> Timestamp {
        tidegate_core::succession::past_ends(from, |at| self.retires(at), wait_at).0
    }

    /// Whether it is known when it will be admitted: leases are given back whenever their holders like.
    fn is_foreseeable(&self, now: Timestamp) -> bool {
        let plan = self.plan(now);
        !plan.charges().iter().any(|charge| matches!(charge.counter.algorithm(), Algorithm::Leases(_)))
    }

    /// The instant as of which it may be decided: when it was due, if its timer is a little late. What depends on
    /// others giving back was not due before they did.
    fn earliest(&self, now: Timestamp) -> Timestamp {
        let late_ns_max = if self.is_foreseeable(now) { LATE_NS_MAX } else { 0 };
        Timestamp::from_nanos(now.as_nanos().saturating_sub(late_ns_max))
    }

    /// Whether it can be admitted at all, however long it waits: when limits on their way out are gone.
    fn is_possible(&self, now: Timestamp) -> bool {
        let outcomes = self.store().peek(&self.plan(END_OF_TIME), now);
        outcomes.iter().all(|outcome| outcome.retry_after < Wait::NEVER)
    }

    /// When to ask again if it has to wait this long at `at`: no later than when a limit goes that may be the one
    /// it waits for. None if it never is to.
    fn due(&self, at: Timestamp, wait: Wait) -> Option<Timestamp> {
        let due = wait.span().map(|wait| at.saturating_add(wait.max(Nanos::new(1))));
        due.into_iter().chain(self.retires(at)).min().filter(|due| *due > at)
    }

    /// The states it depends on.
    fn foresee(&self, now: Timestamp) -> Foresight {
        self.store().foresee(&self.plan(now))
    }

    /// Whether these are the states it depends on.
    fn is_foreseen_by(&self, foresight: &Foresight, now: Timestamp) -> bool {
        foresight.is_of(&self.plan(now))
    }

    /// Plays a request of its line out, which limits on their way out do not hold up for longer than they last.
    fn play(&self, foresight: &mut Foresight, pending: Pending) -> Foreseen {
        let wait_at = |now| foresight.wait(&self.plan(now), Ask { now, cost: pending.cost });
        let from = self.past_retirements(pending.from, wait_at);
        self.admit(foresight, &self.plan(from), Pending { from, ..pending })
    }

    /// Plays a request out that has to wait for nothing but the limits of this plan.
    fn admit(&self, foresight: &mut Foresight, plan: &Plan<'_>, pending: Pending) -> Foreseen {
        foresight.admit(plan, pending)
    }
}
