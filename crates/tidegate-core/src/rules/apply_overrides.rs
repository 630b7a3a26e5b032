//! Applies overrides to the limits of a request, between matching and planning.
//!
//! Most keys have no override. So the first loop only asks, and everything else is in a function of its own that is rarely
//! called.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use smallvec::SmallVec;

use super::compiled_limit::CompiledLimit;
use super::matched::{LimitOverride, LimitRef, MatchedKey, MatchedLimit, MatchedLimits};
use super::overrides::{
    Access, FoundOverrides, OverrideLookup, OverrideSource, OverrideTarget, OverrideValues,
};
use super::{
    Action, AppliedOverride, CompiledDomain, KeySpec, LimitPosition, OnOverrideMiss, Overridable, Request,
    Rule, Ruleset,
};
use crate::Timestamp;

/// How many different values of overrides have their limits kept. More are compiled for each request.
const COMPILED_MAX: usize = 10_000;

/// Whether all overrides of a request were known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideStatus {
    /// All were known.
    Applied,
    /// Those that were known were applied. The others have to be loaded for later requests.
    Incomplete,
    /// Some have to be loaded first. Nothing was applied.
    NotLoaded,
}

/// A limit that does not apply, because an override says so.
#[derive(Clone, Debug)]
pub struct LiftedLimit {
    /// The limit.
    pub position: LimitPosition,
    /// The index of the descriptor, from 0.
    pub descriptor: u32,
    /// The override.
    pub applied: AppliedOverride,
}

/// Limits with the values of overrides. Many keys have the same values, so each limit is compiled once.
#[derive(Debug, Default)]
pub(super) struct OverriddenLimits {
    compiled: RwLock<HashMap<(LimitPosition, OverriddenAs), Arc<CompiledLimit>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OverriddenAs {
    Values(OverrideValues),
    Blocked,
}

impl OverriddenLimits {
    fn get(
        &self,
        position: LimitPosition,
        overridden_as: OverriddenAs,
        compile: impl FnOnce() -> CompiledLimit,
    ) -> Arc<CompiledLimit> {
        let key = (position, overridden_as);
        // A map that another thread left while it panicked is still a map.
        if let Some(limit) = self.compiled.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(limit);
        }
        let limit = Arc::new(compile());
        let mut compiled = self.compiled.write().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() < COMPILED_MAX {
            compiled.insert(key, Arc::clone(&limit));
        }
        limit
    }
}

impl MatchedLimits {
    /// Applies the overrides of all keys of the request at `now`. If some are not loaded, `on_miss` and the rule say whether to
    /// wait for them.
    #[inline]
    pub(super) fn apply_overrides(
        &mut self,
        rules: &Ruleset,
        request: &Request<'_>,
        now: Timestamp,
        source: &dyn OverrideSource,
        on_miss: OnOverrideMiss,
    ) -> OverrideStatus {
        let mut found: SmallVec<[(usize, Box<FoundOverrides>); 2]> = SmallVec::new();
        let mut status = OverrideStatus::Applied;
        for (index, matched) in self.limits.iter().enumerate() {
            let Some(target) = self.override_target(rules, matched) else { continue };
            match source.find(target) {
                OverrideLookup::None => {}
                OverrideLookup::Found(overrides) => found.push((index, overrides)),
                OverrideLookup::NotLoaded(wildcards) => {
                    let rule = rules.resolve(&matched.limit).rule;
                    if on_miss == OnOverrideMiss::Wait && rule.on_override_miss == OnOverrideMiss::Wait {
                        return OverrideStatus::NotLoaded;
                    }
                    status = OverrideStatus::Incomplete;
                    if !wildcards.is_empty() {
                        found.push((index, Box::new(FoundOverrides { exact: None, wildcards })));
                    }
                }
            }
        }
        if !found.is_empty() {
            self.apply_found(rules, request, now, source, &mut found, &mut status);
        }
        status
    }

    /// The keys of the request that may have overrides, whether an override applies already or not.
    pub fn override_targets<'a>(&'a self, rules: &'a Ruleset) -> impl Iterator<Item = OverrideTarget<'a>> {
        self.limits.iter().filter_map(|matched| match &matched.limit {
            LimitRef::Rule(position) => self.target_at(rules, *position, matched),
            LimitRef::Override(replacement) => self.target_at(rules, replacement.position, matched),
            LimitRef::Request(_) | LimitRef::UnknownDomain => None,
        })
    }

    #[inline]
    fn override_target<'a>(&'a self, rules: &Ruleset, matched: &MatchedLimit) -> Option<OverrideTarget<'a>> {
        match &matched.limit {
            LimitRef::Rule(position) => self.target_at(rules, *position, matched),
            _ => None,
        }
    }

    #[inline]
    fn target_at<'a>(
        &'a self,
        rules: &Ruleset,
        position: LimitPosition,
        matched: &MatchedLimit,
    ) -> Option<OverrideTarget<'a>> {
        let MatchedKey::At(key) = &matched.key else { return None };
        let scope = rules.resolve_position(position).limit.scope?;
        let key = &self.keys[key.start as usize..key.end as usize];
        Some(OverrideTarget { scope, key, position })
    }

    #[cold]
    fn apply_found(
        &mut self,
        rules: &Ruleset,
        request: &Request<'_>,
        now: Timestamp,
        source: &dyn OverrideSource,
        found: &mut SmallVec<[(usize, Box<FoundOverrides>); 2]>,
        status: &mut OverrideStatus,
    ) {
        if self.apply_tiers(rules, request, now, found) {
            // Other limits apply now, with other keys.
            found.clear();
            for (index, matched) in self.limits.iter().enumerate() {
                let Some(target) = self.override_target(rules, matched) else { continue };
                match source.find(target) {
                    OverrideLookup::None => {}
                    OverrideLookup::Found(overrides) => found.push((index, overrides)),
                    OverrideLookup::NotLoaded(_) => *status = OverrideStatus::Incomplete,
                }
            }
        }
        let mut lifted: SmallVec<[usize; 2]> = SmallVec::new();
        for (index, overrides) in found.iter() {
            if self.apply_to_limit(rules, *index, overrides, now) {
                lifted.push(*index);
            }
        }
        for index in lifted.into_iter().rev() {
            self.limits.remove(index);
        }
        self.has_missing_key = self.limits.iter().any(|limit| !limit.has_key());
        self.may_wait = self.limits.iter().any(|matched| {
            let action = &rules.resolve(&matched.limit).limit.limit.action;
            matches!(action, Action::Delay { .. }) && matched.cost > 0 && matched.has_key()
        });
    }

    /// Replaces the limits of rules by those of the tiers that overrides name. Returns whether there were any.
    fn apply_tiers(
        &mut self,
        rules: &Ruleset,
        request: &Request<'_>,
        now: Timestamp,
        found: &[(usize, Box<FoundOverrides>)],
    ) -> bool {
        let mut moved: SmallVec<[(LimitPosition, u32, AppliedOverride); 1]> = SmallVec::new();
        for (index, overrides) in found {
            let matched = &self.limits[*index];
            let LimitRef::Rule(position) = matched.limit else { continue };
            let id = &rules.resolve_position(position).limit.id;
            let is_same = |(other, descriptor, _): &(LimitPosition, u32, AppliedOverride)| {
                (other.domain, other.rule, *descriptor)
                    == (position.domain, position.rule, matched.descriptor)
            };
            if let Some(applied) = overrides.tier(id, now)
                && !moved.iter().any(is_same)
            {
                moved.push((position, matched.descriptor, applied));
            }
        }
        for (position, descriptor, applied) in &moved {
            let (domain, tier) = (rules.domain_at(position.domain), applied.get().tier.as_deref());
            self.limits.retain(|matched| match matched.limit {
                LimitRef::Rule(other) => {
                    (other.domain, other.rule, matched.descriptor)
                        != (position.domain, position.rule, *descriptor)
                }
                _ => true,
            });
            let positions = domain.compiled(position.rule).tier_positions(tier);
            self.match_limits(
                domain,
                *position,
                positions,
                *descriptor,
                &request.descriptors[*descriptor as usize],
            );
        }
        !moved.is_empty()
    }

    /// Applies overrides to one limit. Returns whether the limit no longer applies.
    fn apply_to_limit(
        &mut self,
        rules: &Ruleset,
        index: usize,
        overrides: &FoundOverrides,
        now: Timestamp,
    ) -> bool {
        let LimitRef::Rule(position) = self.limits[index].limit else { return false };
        let base = rules.resolve_position(position).limit;
        let applied = overrides.applicable(&base.id, now);
        let access = applied.as_ref().map_or(Access::Limited, |applied| applied.get().access);
        match (access, applied) {
            (Access::Unlimited, Some(applied)) => {
                let descriptor = self.limits[index].descriptor;
                self.lifted.push(LiftedLimit { position, descriptor, applied });
                return true;
            }
            (Access::Blocked(_), applied) => {
                let limit = rules.overridden.get(position, OverriddenAs::Blocked, || base.blocked());
                let blocked_until = applied.as_ref().and_then(|applied| applied.get().expires_at);
                let replacement = LimitOverride { position, limit, applied, blocked_until };
                let matched = &mut self.limits[index];
                matched.limit = LimitRef::Override(Box::new(replacement));
                matched.key = MatchedKey::Blocked;
            }
            (_, applied) => {
                let values =
                    applied.as_ref().map_or_else(OverrideValues::default, |applied| applied.get().values);
                let values = if base.has_overridable_values() { values } else { OverrideValues::default() };
                // The values were checked when they were set. The rule may have changed since.
                let overridden = || match values.apply_to(&base.limit.limit) {
                    Ok(limit) => base.with_override(limit),
                    Err(_) => base.clone(),
                };
                let limit = rules.overridden.get(position, OverriddenAs::Values(values), overridden);
                let superseded = overrides.superseded(base, &limit, now);
                if applied.is_none() && superseded.is_empty() {
                    return false;
                }
                let limit =
                    if superseded.is_empty() { limit } else { Arc::new(limit.with_superseded(superseded)) };
                let matched = &mut self.limits[index];
                self.has_pool |= limit.pool.is_some();
                if !values.is_empty() {
                    matched.resized = None;
                }
                let replacement = LimitOverride { position, limit, applied, blocked_until: None };
                matched.limit = LimitRef::Override(Box::new(replacement));
            }
        }
        false
    }
}

/// A rule and a key of it, by their names.
#[derive(Clone, Copy, Debug)]
pub struct OverridePlaceNames<'a> {
    /// The domain.
    pub domain: &'a str,
    /// The oldest name of the rule.
    pub rule: &'a str,
    /// The attributes of the key.
    pub key: &'a KeySpec,
}

/// A rule whose limits may have overrides.
#[derive(Clone, Copy, Debug)]
pub struct OverridableRule<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// Its oldest name.
    pub identity: &'a str,
    /// The limits of all tiers.
    pub limits: &'a [CompiledLimit],
}

impl Ruleset {
    /// The names of a limit's rule and key.
    pub fn override_place(&self, position: LimitPosition) -> OverridePlaceNames<'_> {
        let domain = self.domain_at(position.domain);
        let compiled = domain.compiled(position.rule);
        OverridePlaceNames {
            domain: domain.name(),
            rule: &compiled.identity,
            key: &compiled.limit(position.limit).limit.key,
        }
    }
}

impl CompiledDomain {
    /// The rules whose limits may have overrides.
    pub fn overridable_rules(&self) -> impl Iterator<Item = OverridableRule<'_>> {
        let rules = (0..).zip(self.rules()).filter(|(_, rule)| rule.overridable == Overridable::Yes);
        rules.map(|(position, rule)| {
            let compiled = self.compiled(position);
            OverridableRule { rule, identity: &compiled.identity, limits: compiled.tier_limits_of_all() }
        })
    }
}

impl CompiledLimit {
    /// The limit for a key that is blocked. Every request is denied, unless all rules are a dry run.
    fn blocked(&self) -> Self {
        let mut blocked = self.clone();
        blocked.limit.action = if self.is_global_shadow { Action::Shadow } else { Action::Reject };
        (blocked.secondary, blocked.pool, blocked.signal) = (None, None, None);
        blocked
    }
}
