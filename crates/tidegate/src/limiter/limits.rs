//! The limits of a limiter: those in force, and those that were changed.

use std::sync::Arc;

use tidegate_core::succession::{Change, Known, Retiring, next_end, past_ends};
use tidegate_core::{
    Algorithm, Charge, Counter, Limit, LimitId, OnStoreFailure, Pace, Plan, Policy, Timestamp, Wait,
};

use super::error::{Kind, LimiterError};

/// The most limits of one limiter. As many again may be on their way out after changes, and both fit a plan.
pub const LIMITS_MAX: usize = tidegate_core::PLAN_CHARGES_MAX / 2;

/// The limits of a limiter. Clones share them.
#[derive(Clone)]
pub(crate) struct Limits {
    pub counters: Arc<[Counter]>,
    /// Limits that were changed, enforced beside the new ones for a while.
    pub retiring: Arc<[Retiring]>,
    /// What becomes of a decision while a shared store does not answer, if the limiter was told.
    on_store_failure: Option<OnStoreFailure>,
}

impl Limits {
    pub(super) fn new(
        rule: &str,
        limits: Vec<Limit>,
        on_store_failure: Option<OnStoreFailure>,
    ) -> Result<Self, LimiterError> {
        let counters = counters(rule, limits)?.into();
        Ok(Self { counters, retiring: Arc::default(), on_store_failure })
    }

    /// These limits in the place of others.
    pub(super) fn changed(
        &self,
        rule: &str,
        limits: Vec<Limit>,
        now: Timestamp,
    ) -> Result<Self, LimiterError> {
        let counters = counters(rule, limits)?;
        let (old, new) = (known(&self.counters), known(&counters));
        let retiring = Change { old: &old, new: &new, retiring: &self.retiring, now }.retiring();
        if retiring.len() > LIMITS_MAX {
            return Err(LimiterError(Kind::TooManyChanges));
        }
        let on_store_failure = self.on_store_failure;
        Ok(Self { counters: counters.into(), retiring: retiring.into(), on_store_failure })
    }

    pub(crate) fn in_force(&self, now: Timestamp) -> impl Iterator<Item = &Counter> {
        let retiring = self.retiring.iter().filter(move |old| old.is_in_force(now)).map(|old| &old.counter);
        self.counters.iter().chain(retiring)
    }

    pub(crate) fn plan<'a>(&'a self, key: &'a [u8], cost: u64, now: Timestamp) -> Plan<'a> {
        let mut plan = Plan::new();
        for counter in self.in_force(now) {
            // `counters` and `retiring` are no longer than half a plan each.
            let _ = plan.add(Charge { policy: self.policy(counter), ..Charge::new(key, counter, cost) });
        }
        plan
    }

    /// A share of a lock would be a lock for each node, so concurrency limits are denied unless the limiter says otherwise.
    fn policy(&self, counter: &Counter) -> Policy {
        let default = match counter.algorithm() {
            Algorithm::Leases(_) => OnStoreFailure::Deny,
            _ => OnStoreFailure::Local,
        };
        Policy { on_store_failure: self.on_store_failure.unwrap_or(default), ..Policy::DEFAULT }
    }

    /// Whether a denied request leaves a trace.
    pub(crate) fn counts_denied(&self, now: Timestamp) -> bool {
        self.in_force(now).any(|counter| counter.algorithm().counts_denied())
    }

    /// Whether units may come back because a holder gives them back.
    pub(crate) fn has_leases(&self, now: Timestamp) -> bool {
        self.in_force(now).any(|counter| matches!(counter.algorithm(), Algorithm::Leases(_)))
    }

    /// When the next of the limits that were changed goes out of force.
    pub(crate) fn retires(&self, now: Timestamp) -> Option<Timestamp> {
        next_end(&*self.retiring, now)
    }

    /// How fast requests follow one that waits, if it waits for the only limit there is.
    pub(crate) fn pace(&self, cost: u64, now: Timestamp) -> Option<Pace> {
        match &*self.counters {
            [counter] if self.retires(now).is_none() => counter.limit().pace_after(cost),
            _ => None,
        }
    }

    /// The instant, `from` or later, from which on a wait is over before another limit goes out of force, and that
    /// wait. `wait_at` says how long it is from an instant on, by the limits in force then.
    pub(super) fn past_retirements(
        &self,
        from: Timestamp,
        wait_at: impl Fn(Timestamp) -> Wait,
    ) -> (Timestamp, Wait) {
        past_ends(from, |at| self.retires(at), wait_at)
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
