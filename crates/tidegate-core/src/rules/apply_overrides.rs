//! Applies overrides to the limits of a request, between matching and planning.
//!
//! Most keys have no override. So the first loop only asks, and everything else is in a function of its own that is rarely
//! called.

use std::sync::Arc;

use smallvec::SmallVec;

use super::compiled_limit::CompiledLimit;
use super::matched::{LimitOverride, LimitRef, MatchedKey, MatchedLimit, MatchedLimits};
use super::overridden_limits::{OverriddenAs, OverriddenLimit};
use super::overrides::{
    Access, Applicable, FoundOverrides, OverrideHint, OverrideLookup, OverrideSource, OverrideTarget,
    OverrideValues,
};
use super::{
    Action, AppliedOverride, CompiledDomain, KeySpec, LimitPosition, OnOverrideMiss, Overridable, Request,
    Rule, Ruleset,
};
use crate::Timestamp;

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
        for (index, matched) in self.limits.iter().enumerate() {
            if let Some(target) = self.override_target(rules, matched)
                && let Some(hint) = source.may_have(target)
            {
                return self.find_and_apply(rules, request, now, source, on_miss, (index, hint));
            }
        }
        OverrideStatus::Applied
    }

    /// Finds and applies the overrides. `first` is the index of the first limit whose key may have some, with the hint about it.
    fn find_and_apply(
        &mut self,
        rules: &Ruleset,
        request: &Request<'_>,
        now: Timestamp,
        source: &dyn OverrideSource,
        on_miss: OnOverrideMiss,
        first: (usize, OverrideHint),
    ) -> OverrideStatus {
        let mut found: SmallVec<[(usize, FoundOverrides); 2]> = SmallVec::new();
        let mut status = OverrideStatus::Applied;
        let (first, mut first_hint) = (first.0, Some(first.1));
        for (index, matched) in self.limits.iter().enumerate().skip(first) {
            let Some(target) = self.override_target(rules, matched) else { continue };
            let Some(hint) = first_hint.take().or_else(|| source.may_have(target)) else { continue };
            match source.find(rules, target, hint) {
                OverrideLookup::None => {}
                OverrideLookup::Found(overrides) => found.push((index, overrides)),
                OverrideLookup::NotLoaded(wildcards) => {
                    let rule = rules.resolve(&matched.limit).rule;
                    if on_miss == OnOverrideMiss::Wait && rule.on_override_miss == OnOverrideMiss::Wait {
                        return OverrideStatus::NotLoaded;
                    }
                    status = OverrideStatus::Incomplete;
                    if !wildcards.is_empty() {
                        found.push((index, FoundOverrides { exact: None, wildcards }));
                    }
                }
            }
        }
        if let [(index, overrides)] = &*found
            && self.apply_plain(rules, *index, overrides)
        {
            return status;
        }
        if !found.is_empty() {
            self.apply_found(rules, request, now, source, &mut found, &mut status);
        }
        status
    }

    /// Applies the overrides of one limit if they only set numbers, as those of a customer's plan do. Most overrides are such,
    /// and this costs a third of [`apply_found`](Self::apply_found), which does the same for them. Returns whether it was done.
    fn apply_plain(&mut self, rules: &Ruleset, index: usize, overrides: &FoundOverrides) -> bool {
        let (Some(entry), true) = (&overrides.exact, overrides.wildcards.is_empty()) else { return false };
        let ([one], LimitRef::Rule(position)) = (&*entry.overrides, &self.limits[index].limit) else {
            return false;
        };
        let (position, base) = (*position, rules.resolve_position(*position).limit);
        if !one.is_plain() || !base.has_overridable_values() {
            return false;
        }
        let limit = rules
            .overridden
            .get(position, OverriddenAs::Values(one.values), || base.with_values(&one.values));
        // Its action is that of the rule, so whether the request may wait or lacks a key does not change.
        self.has_pool |= rules.overridden.resolve(&limit).pool.is_some();
        let key = SmallVec::from_slice(self.key(&self.limits[index]).unwrap_or_default());
        let applied = Some(AppliedOverride { entry: entry.clone(), index: 0, position, key });
        let matched = &mut self.limits[index];
        matched.resized = None;
        matched.limit =
            LimitRef::Override(Arc::new(LimitOverride { position, limit, applied, blocked_until: None }));
        true
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
        found: &mut SmallVec<[(usize, FoundOverrides); 2]>,
        status: &mut OverrideStatus,
    ) {
        if self.apply_tiers(rules, request, now, found) {
            // Other limits apply now, with other keys.
            found.clear();
            for (index, matched) in self.limits.iter().enumerate() {
                let Some(target) = self.override_target(rules, matched) else { continue };
                let Some(hint) = source.may_have(target) else { continue };
                match source.find(rules, target, hint) {
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
        found: &[(usize, FoundOverrides)],
    ) -> bool {
        let mut moved: SmallVec<[(LimitPosition, u32, &str); 1]> = SmallVec::new();
        for (index, overrides) in found {
            let matched = &self.limits[*index];
            let LimitRef::Rule(position) = matched.limit else { continue };
            let id = &rules.resolve_position(position).limit.id;
            let is_same = |(other, descriptor, _): &(LimitPosition, u32, &str)| {
                (other.domain, other.rule, *descriptor)
                    == (position.domain, position.rule, matched.descriptor)
            };
            let applicable = overrides.applicable(id, now);
            if let Some(tier) = applicable.and_then(|applicable| overrides.get(applicable).tier.as_deref())
                && !moved.iter().any(is_same)
            {
                moved.push((position, matched.descriptor, tier));
            }
        }
        for (position, descriptor, tier) in &moved {
            let domain = rules.domain_at(position.domain);
            self.limits.retain(|matched| match matched.limit {
                LimitRef::Rule(other) => {
                    (other.domain, other.rule, matched.descriptor)
                        != (position.domain, position.rule, *descriptor)
                }
                _ => true,
            });
            let positions = domain.compiled(position.rule).tier_positions(Some(tier));
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
        let applicable = overrides.applicable(&base.id, now);
        let one = applicable.map(|applicable| overrides.get(applicable));
        let (limit, blocked_until) = match one.map_or(Access::Limited, |one| one.access) {
            Access::Unlimited => {
                let applied =
                    applicable.map(|applicable| self.applied(index, position, overrides, applicable));
                let descriptor = self.limits[index].descriptor;
                self.lifted.extend(applied.map(|applied| LiftedLimit { position, descriptor, applied }));
                return true;
            }
            Access::Blocked(_) => {
                let limit = rules.overridden.get(position, OverriddenAs::Blocked, || base.blocked());
                (limit, one.and_then(|one| one.expires_at))
            }
            Access::Limited | Access::Allowed => {
                let values = one.map(|one| one.values).filter(|_| base.has_overridable_values());
                let values = values.unwrap_or_default();
                let limit = rules
                    .overridden
                    .get(position, OverriddenAs::Values(values), || base.with_values(&values));
                let compiled = rules.overridden.resolve(&limit);
                let superseded = overrides.superseded(base, compiled, now);
                if applicable.is_none() && superseded.is_empty() {
                    return false;
                }
                self.has_pool |= compiled.pool.is_some();
                if !values.is_empty() {
                    self.limits[index].resized = None;
                }
                match superseded.is_empty() {
                    true => (limit, None),
                    false => (OverriddenLimit::NotKept(Box::new(compiled.with_superseded(superseded))), None),
                }
            }
        };
        let is_blocked = one.is_some_and(|one| matches!(one.access, Access::Blocked(_)));
        let applied = applicable.map(|applicable| self.applied(index, position, overrides, applicable));
        let matched = &mut self.limits[index];
        matched.limit =
            LimitRef::Override(Arc::new(LimitOverride { position, limit, applied, blocked_until }));
        if is_blocked {
            matched.key = MatchedKey::Blocked;
        }
        false
    }

    fn applied(
        &self,
        index: usize,
        position: LimitPosition,
        overrides: &FoundOverrides,
        applicable: Applicable,
    ) -> AppliedOverride {
        AppliedOverride {
            entry: overrides.entry_of(applicable).clone(),
            index: applicable.index,
            position,
            key: SmallVec::from_slice(self.key(&self.limits[index]).unwrap_or_default()),
        }
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
    /// The limit with the values of an override. They were checked when they were set; the rule may have changed since, so that they
    /// do not fit any more.
    #[cold]
    fn with_values(&self, values: &OverrideValues) -> Self {
        values.apply_to(&self.limit.limit).map_or_else(|_| self.clone(), |limit| self.with_override(limit))
    }

    /// The limit for a key that is blocked. Every request is denied, unless all rules are a dry run.
    fn blocked(&self) -> Self {
        let mut blocked = self.clone();
        blocked.limit.action = if self.is_global_shadow { Action::Shadow } else { Action::Reject };
        (blocked.secondary, blocked.pool, blocked.signal) = (None, None, None);
        blocked
    }
}
