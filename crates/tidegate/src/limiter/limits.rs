//! The limits of a limiter: those in force, and those that were changed.

use std::sync::Arc;

use tidegate_core::migration::{LimitMigration, IdentifiedCounter, SupersededCounter, next_expiry, wait_past_superseded};
use tidegate_core::{
    Algorithm, Charge, Counter, Limit, LimitId, OnStoreFailure, ReleaseRate, Plan, StorePolicy, Timestamp, Wait,
};

use super::error::{LimiterErrorKind, LimiterError};

/// The most limits of one limiter. As many again may be on their way out after changes, and both fit a plan.
pub const LIMITS_MAX: usize = tidegate_core::PLAN_CHARGES_MAX / 2;

/// The limits of a limiter. Clones share them.
#[derive(Clone)]
pub(crate) struct Limits {
    pub counters: Arc<[Counter]>,
    /// Limits that were changed, enforced beside the new ones for a while.
    pub superseded: Arc<[SupersededCounter]>,
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
        Ok(Self { counters, superseded: Arc::default(), on_store_failure })
    }

    /// These limits in the place of others.
    pub(super) fn with_limits(
        &self,
        rule: &str,
        limits: Vec<Limit>,
        now: Timestamp,
    ) -> Result<Self, LimiterError> {
        let counters = counters(rule, limits)?;
        let (old, new) = (identified_counters(&self.counters), identified_counters(&counters));
        let retiring = LimitMigration { old: &old, new: &new, superseded: &self.superseded, now }.superseded();
        if retiring.len() > LIMITS_MAX {
            return Err(LimiterError(LimiterErrorKind::TooManyChanges));
        }
        let on_store_failure = self.on_store_failure;
        Ok(Self { counters: counters.into(), superseded: retiring.into(), on_store_failure })
    }

    pub(crate) fn active_counters(&self, now: Timestamp) -> impl Iterator<Item = &Counter> {
        let retiring = self.superseded.iter().filter(move |old| old.is_enforced(now)).map(|old| &old.counter);
        self.counters.iter().chain(retiring)
    }

    pub(crate) fn plan<'a>(&'a self, key: &'a [u8], cost: u64, now: Timestamp) -> Plan<'a> {
        let mut plan = Plan::new();
        for counter in self.active_counters(now) {
            // `counters` and `retiring` are no longer than half a plan each.
            let _ = plan.add(Charge { policy: self.policy(counter), ..Charge::new(key, counter, cost) });
        }
        plan
    }

    /// A share of a lock would be a lock for each node, so concurrency limits are denied unless the limiter says otherwise.
    fn policy(&self, counter: &Counter) -> StorePolicy {
        let default = match counter.algorithm() {
            Algorithm::Leases(_) => OnStoreFailure::Deny,
            _ => OnStoreFailure::Local,
        };
        StorePolicy { on_store_failure: self.on_store_failure.unwrap_or(default), ..StorePolicy::DEFAULT }
    }

    /// Whether a denied request leaves a trace.
    pub(crate) fn counts_denied(&self, now: Timestamp) -> bool {
        self.active_counters(now).any(|counter| counter.algorithm().counts_denied())
    }

    /// Whether units may come back because a holder gives them back.
    pub(crate) fn has_leases(&self, now: Timestamp) -> bool {
        self.active_counters(now).any(|counter| matches!(counter.algorithm(), Algorithm::Leases(_)))
    }

    /// How fast requests of this cost follow one another, if one limit alone says so.
    pub(super) fn release_rate(&self, cost: u64, now: Timestamp) -> Option<ReleaseRate> {
        match &*self.counters {
            [counter] if self.next_expiry(now).is_none() => counter.limit().release_rate_after(cost),
            _ => None,
        }
    }

    /// When the next of the limits that were changed goes out of force.
    pub(crate) fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        next_expiry(&*self.superseded, now)
    }

    /// The instant, `from` or later, from which on a wait is over before another limit goes out of force, and that
    /// wait. `wait_at` says how long it is from an instant on, by the limits in force then.
    pub(super) fn wait_past_superseded(
        &self,
        from: Timestamp,
        wait_at: impl Fn(Timestamp) -> Wait,
    ) -> (Timestamp, Wait) {
        wait_past_superseded(from, |at| self.next_expiry(at), wait_at)
    }
}

fn counters(rule: &str, limits: Vec<Limit>) -> Result<Vec<Counter>, LimiterError> {
    let counter = |(place, limit): (usize, Limit)| Counter::new(rule, place, limit);
    let counters: Vec<Counter> = limits.into_iter().enumerate().map(counter).collect();
    if counters.is_empty() {
        return Err(LimiterError(LimiterErrorKind::NoLimits));
    }
    if counters.len() > LIMITS_MAX {
        return Err(LimiterError(LimiterErrorKind::TooManyLimits(counters.len())));
    }
    let mut names: Vec<&str> = counters.iter().filter_map(|counter| counter.limit().name()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(LimiterError(LimiterErrorKind::DuplicateName(pair[0].to_owned()))),
        None => Ok(counters),
    }
}

/// The counters and what their limits are known by.
fn identified_counters(counters: &[Counter]) -> Vec<IdentifiedCounter<'_, LimitId>> {
    let known = |(place, counter): (usize, _)| IdentifiedCounter {
        identity: LimitId::from_limit(Counter::limit(counter), place),
        counter,
    };
    counters.iter().enumerate().map(known).collect()
}
