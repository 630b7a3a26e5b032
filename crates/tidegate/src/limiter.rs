//! The limiter: a rule of one or more limits, a store that counts and a clock.

mod builder;
mod error;

pub use builder::{IntoLimit, LimiterBuilder};
pub use error::LimiterError;

use std::fmt;
use std::sync::Arc;

use tidegate_core::succession::{Change, Known, Retiring, next_end, past_ends};
use tidegate_core::{
    Algorithm, Charge, Counter, Decision, IntoKey, Limit, LimitId, Nanos, Plan, Timestamp, Wait,
};

use crate::memory::{MemoryStats, MemoryStore};
use crate::waiting::{QueueGroup, Queues};
use crate::{Clock, SystemClock};
use error::Kind;

/// The most limits of one limiter. As many again may be on their way out after changes, and both fit a plan.
pub const LIMITS_MAX: usize = tidegate_core::PLAN_CHARGES_MAX / 2;

/// Limits by key: all of its limits admit a request, or none of them is charged.
///
/// Made by [`Limiter::new`] from one limit, or by a [`builder`](Limiter::builder). Shared by reference between
/// any number of threads.
///
/// ```
/// use tidegate::Limiter;
///
/// let limiter = Limiter::new("10/s burst 20")?;
/// let decision = limiter.check("user:42", 1);
/// if decision.is_allowed() {
///     println!("go on, {} left", decision.remaining);
/// } else {
///     println!("try again in {}", decision.retry_after);
/// }
/// # Ok::<(), tidegate::LimiterError>(())
/// ```
pub struct Limiter<C = SystemClock> {
    rule: String,
    counters: Vec<Counter>,
    /// Limits that were changed, enforced beside the new ones for a while.
    retiring: Vec<Retiring>,
    store: Arc<MemoryStore>,
    queues: Arc<Queues>,
    queue_group: QueueGroup,
    clock: C,
}

impl Limiter {
    /// A limiter of one limit with an embedded store of its own.
    pub fn new(limit: impl IntoLimit) -> Result<Self, LimiterError> {
        Self::builder().limit(limit).build()
    }

    /// Starts to put a limiter together.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::new()
    }
}

impl<C: Clock> Limiter<C> {
    /// Asks for `cost` units for `key` and takes them if every limit admits them.
    ///
    /// What a concurrency limit gives to a check nobody can give back; it is held for the limit's ttl. To hold it and
    /// give it back, [`acquire`](Self::acquire).
    #[inline]
    pub fn check(&self, key: impl IntoKey, cost: u64) -> Decision {
        self.check_at(key, cost, self.clock.now())
    }

    /// As [`check`](Self::check), at an instant of the caller's.
    #[inline]
    pub fn check_at(&self, key: impl IntoKey, cost: u64, now: Timestamp) -> Decision {
        let key = key.key_bytes();
        let key = key.as_ref();
        match self.counters.as_slice() {
            [counter] if self.retiring.is_empty() => {
                let charge = Charge::new(key, counter, cost);
                self.store.check_one(&charge, now)
            }
            _ => self.check_all(key, cost, now),
        }
    }

    /// A request that touches several limits, out of the way of one that does not.
    #[inline(never)]
    fn check_all(&self, key: &[u8], cost: u64, now: Timestamp) -> Decision {
        let decision = Decision::merge(&self.store.check(&self.plan(key, cost, now), now));
        self.until_retired(decision, key, cost, now)
    }

    /// Answers as [`check`](Self::check) would and changes nothing.
    pub fn peek(&self, key: impl IntoKey, cost: u64) -> Decision {
        self.peek_at(key, cost, self.clock.now())
    }

    /// As [`peek`](Self::peek), at an instant of the caller's.
    pub fn peek_at(&self, key: impl IntoKey, cost: u64, now: Timestamp) -> Decision {
        let key = key.key_bytes();
        let key = key.as_ref();
        let decision = Decision::merge(&self.store.peek(&self.plan(key, cost, now), now));
        self.until_retired(decision, key, cost, now)
    }

    /// Gives back `cost` units of `key` that were taken and not used. What concurrency limits gave is
    /// [released](Self::release) instead.
    pub fn refund(&self, key: impl IntoKey, cost: u64) {
        let key = key.key_bytes();
        let (key, now) = (key.as_ref(), self.clock.now());
        self.store.refund(&self.plan(key, cost, now), now);
        self.queue_group.wake(key, now);
    }

    /// Forgets all that `key` used.
    pub fn reset(&self, key: impl IntoKey) {
        let key = key.key_bytes();
        let (key, now) = (key.as_ref(), self.clock.now());
        self.store.reset(&self.plan(key, 0, now));
        self.queue_group.wake(key, now);
    }

    /// The limits in force, in the order of [`Decision::decided_by`].
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.in_force(self.clock.now()).map(Counter::limit)
    }

    /// What the store holds and had to give up.
    pub fn stats(&self) -> MemoryStats {
        self.store.stats()
    }

    /// This limiter with other limits, over the same counters. The two may run side by side, so a program
    /// can swap one for the other while requests are in flight. Those that wait for this one go on waiting for it.
    ///
    /// Nobody gets a fresh window: where L or burst changed, what was used stays used. Where the algorithm, W, n or
    /// where windows begin changed, the new limit starts empty and the old one is enforced beside it for the shorter
    /// of the two windows, which of a calendar is the one that it is now in. A limit is the same one as before if it
    /// has the same name, or no name and the same place.
    pub fn changed<L: IntoLimit>(&self, limits: impl IntoIterator<Item = L>) -> Result<Self, LimiterError>
    where
        C: Clone,
    {
        let now = self.clock.now();
        let limits = limits.into_iter().map(IntoLimit::into_limit).collect::<Result<Vec<_>, _>>()?;
        let counters = counters(&self.rule, limits)?;
        let (old, new) = (known(&self.counters), known(&counters));
        let retiring = Change { old: &old, new: &new, retiring: &self.retiring, now }.retiring();
        if retiring.len() > LIMITS_MAX {
            return Err(LimiterError(Kind::TooManyChanges));
        }
        let (store, clock) = (Arc::clone(&self.store), self.clock.clone());
        let queues = Arc::new(Queues::new(self.queues.queue_max()));
        let queue_group = self.store.queue_groups().join(&self.rule, &queues);
        Ok(Self { rule: self.rule.clone(), counters, retiring, store, queues, queue_group, clock })
    }

    pub(crate) fn store(&self) -> &MemoryStore {
        &self.store
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
    }

    pub(crate) fn queue_group(&self) -> &QueueGroup {
        &self.queue_group
    }

    pub(crate) fn clock(&self) -> &C {
        &self.clock
    }

    /// Whether a denied request leaves a trace.
    pub(crate) fn counts_denied(&self, now: Timestamp) -> bool {
        self.in_force(now).any(|counter| counter.algorithm().counts_denied())
    }

    /// Whether units may come back because somebody gives them back.
    pub(crate) fn has_leases(&self, now: Timestamp) -> bool {
        self.in_force(now).any(|counter| matches!(counter.algorithm(), Algorithm::Leases(_)))
    }

    /// When the next of the limits that were changed goes out of force.
    pub(crate) fn retires(&self, now: Timestamp) -> Option<Timestamp> {
        next_end(&self.retiring, now)
    }

    /// A denial with the wait that is left if limits on their way out are gone before it is over.
    pub(crate) fn until_retired(
        &self,
        decision: Decision,
        key: &[u8],
        cost: u64,
        now: Timestamp,
    ) -> Decision {
        // What an attempt adds to a limit that counts denied ones only a check knows, so it is left as it is.
        if decision.is_allowed() || self.retires(now).is_none() || self.counts_denied(now) {
            return decision;
        }
        let wait_at = |from| self.store.wait(&self.plan(key, cost, from), from);
        let (from, wait) = self.past_retirements(now, wait_at);
        let retired_ns = u128::from(from.as_nanos() - now.as_nanos());
        let wait = wait.span().map(|wait| Wait::of(Nanos::new(retired_ns.saturating_add(wait.get()))));
        decision.with_retry_after(wait.unwrap_or(Wait::NEVER))
    }

    /// The instant, `from` or later, from which on a wait is over before another limit goes out of force, and that
    /// wait. `wait_at` says how long it is from an instant on, by the limits in force then.
    pub(crate) fn past_retirements(
        &self,
        from: Timestamp,
        wait_at: impl Fn(Timestamp) -> Wait,
    ) -> (Timestamp, Wait) {
        past_ends(from, |at| self.retires(at), wait_at)
    }

    fn in_force(&self, now: Timestamp) -> impl Iterator<Item = &Counter> {
        let retiring = self.retiring.iter().filter(move |old| old.is_in_force(now)).map(|old| &old.counter);
        self.counters.iter().chain(retiring)
    }

    pub(crate) fn plan<'a>(&'a self, key: &'a [u8], cost: u64, now: Timestamp) -> Plan<'a> {
        let mut plan = Plan::new();
        for counter in self.in_force(now) {
            // `counters` and `retiring` are no longer than half a plan each.
            let _ = plan.add(Charge::new(key, counter, cost));
        }
        plan
    }
}

impl<C> fmt::Debug for Limiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<&Limit> = self.counters.iter().map(Counter::limit).collect();
        f.debug_struct("Limiter").field("rule", &self.rule).field("limits", &limits).finish_non_exhaustive()
    }
}

fn counters(rule: &str, limits: Vec<Limit>) -> Result<Vec<Counter>, LimiterError> {
    let counter = |(place, limit): (usize, Limit)| Counter::new(rule, place, limit);
    let counters: Vec<Counter> = limits.into_iter().enumerate().map(counter).collect();
    if counters.is_empty() {
        return Err(LimiterError(Kind::NoLimits));
    }
    if counters.len() > LIMITS_MAX {
        return Err(LimiterError(Kind::TooManyLimits(counters.len())));
    }
    let mut names: Vec<&str> = counters.iter().filter_map(|counter| counter.limit().name()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(LimiterError(Kind::DuplicateName(pair[0].to_owned()))),
        None => Ok(counters),
    }
}

/// The counters and what their limits are known by.
fn known(counters: &[Counter]) -> Vec<Known<'_, LimitId>> {
    let known = |(place, counter): (usize, _)| Known {
        identity: LimitId::of(Counter::limit(counter), place),
        counter,
    };
    counters.iter().enumerate().map(known).collect()
}
