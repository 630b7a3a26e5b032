//! The limits of a limiter: the current ones, and superseded ones that are still enforced.

use std::sync::Arc;

use tidegate_core::migration::{
    IdentifiedCounter, LimitMigration, SupersededCounter, next_expiry, wait_past_superseded,
};
use tidegate_core::{
    Algorithm, Charge, Counter, Limit, LimitId, OnStoreFailure, Plan, ReleaseRate, RuleMode, StorePolicy,
    Timestamp, Wait,
};

use super::error::{LimiterError, LimiterErrorKind};

/// The most limits of one limiter. The same number may be superseded after changes. Together they fit a plan.
pub const LIMITS_MAX: usize = 32;
const _: () = assert!(2 * LIMITS_MAX <= tidegate_core::PLAN_CHARGES_MAX);

/// The limits of a limiter. Clones share them.
#[derive(Clone)]
pub(crate) struct Limits {
    pub counters: Arc<[Counter]>,
    /// Superseded limits. They stay enforced beside the new ones for a while.
    pub superseded: Arc<[SupersededCounter]>,
    policy: LimitPolicy,
}

/// How the limits are decided where nodes share a store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LimitPolicy {
    pub mode: RuleMode,
    /// What happens while the store does not answer, if the caller has set it.
    pub on_store_failure: Option<OnStoreFailure>,
}

impl Limits {
    pub(super) fn new(rule: &str, limits: Vec<Limit>, policy: LimitPolicy) -> Result<Self, LimiterError> {
        let counters = policy.checked_counters(rule, limits)?.into();
        Ok(Self { counters, superseded: Arc::default(), policy })
    }

    /// Replaces the limits, and keeps the superseded ones for a while.
    pub(super) fn with_limits(
        &self,
        rule: &str,
        limits: Vec<Limit>,
        now: Timestamp,
    ) -> Result<Self, LimiterError> {
        let counters = self.policy.checked_counters(rule, limits)?;
        let (old, new) = (identified_counters(&self.counters), identified_counters(&counters));
        let superseded =
            LimitMigration { old: &old, new: &new, superseded: &self.superseded, now }.superseded();
        if superseded.len() > LIMITS_MAX {
            return Err(LimiterError(LimiterErrorKind::TooManyChanges));
        }
        Ok(Self { counters: counters.into(), superseded: superseded.into(), policy: self.policy })
    }

    pub(crate) fn active_counters(&self, now: Timestamp) -> impl Iterator<Item = &Counter> {
        let superseded =
            self.superseded.iter().filter(move |old| old.is_enforced(now)).map(|old| &old.counter);
        self.counters.iter().chain(superseded)
    }

    pub(crate) fn plan<'a>(&'a self, key: &'a [u8], cost: u64, now: Timestamp) -> Plan<'a> {
        let mut plan = Plan::new();
        for counter in self.active_counters(now) {
            // Cannot fail: `counters` and `superseded` are at most half a plan each.
            let _ = plan
                .add(Charge { policy: self.policy.of_counter(counter), ..Charge::new(key, counter, cost) });
        }
        plan
    }

    /// Whether a denied request is counted.
    pub(crate) fn counts_denied(&self, now: Timestamp) -> bool {
        self.active_counters(now).any(|counter| counter.algorithm().counts_denied())
    }

    /// Whether units can come back because a holder releases a lease.
    pub(crate) fn has_leases(&self, now: Timestamp) -> bool {
        self.active_counters(now).any(|counter| matches!(counter.algorithm(), Algorithm::Leases(_)))
    }

    /// How fast requests of this cost can follow one another, if that depends on one limit only.
    pub(super) fn release_rate(&self, cost: u64, now: Timestamp) -> Option<ReleaseRate> {
        match &*self.counters {
            [counter] if self.next_expiry(now).is_none() => counter.limit().release_rate_after(cost),
            _ => None,
        }
    }

    /// When the next superseded limit expires.
    pub(crate) fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        next_expiry(&*self.superseded, now)
    }

    /// The instant, `from` or later, from which a wait ends before another superseded limit expires, and that wait.
    /// `wait_at` returns the wait from an instant on, by the limits that are active then.
    pub(super) fn wait_past_superseded(
        &self,
        from: Timestamp,
        wait_at: impl Fn(Timestamp) -> Wait,
    ) -> (Timestamp, Wait) {
        wait_past_superseded(from, |at| self.next_expiry(at), wait_at)
    }
}

impl LimitPolicy {
    /// The counters of these limits, if all of them can have the mode.
    fn checked_counters(self, rule: &str, limits: Vec<Limit>) -> Result<Vec<Counter>, LimiterError> {
        for limit in &limits {
            if let Err(reason) = self.mode.check(limit) {
                let limit = limit.to_string();
                return Err(LimiterError(LimiterErrorKind::Mode { limit, mode: self.mode, reason }));
            }
        }
        counters(rule, limits)
    }

    /// The policy of a counter. Concurrency limits are denied by default: a share of a lock would be one lock on each
    /// node. A superseded counter that cannot have the mode is strict.
    fn of_counter(self, counter: &Counter) -> StorePolicy {
        let default = match counter.algorithm() {
            Algorithm::Leases(_) => OnStoreFailure::Deny,
            _ => OnStoreFailure::Local,
        };
        StorePolicy {
            mode: self.mode.for_limit(counter.limit()),
            on_store_failure: self.on_store_failure.unwrap_or(default),
            ..StorePolicy::DEFAULT
        }
    }
}

fn counters(rule: &str, limits: Vec<Limit>) -> Result<Vec<Counter>, LimiterError> {
    let counter = |(index, limit): (usize, Limit)| Counter::new(rule, index, limit);
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

/// The counters with the identities of their limits.
fn identified_counters(counters: &[Counter]) -> Vec<IdentifiedCounter<'_, LimitId>> {
    let identified = |(position, counter): (usize, _)| IdentifiedCounter {
        identity: LimitId::from_limit(Counter::limit(counter), position),
        counter,
    };
    counters.iter().enumerate().map(identified).collect()
}
