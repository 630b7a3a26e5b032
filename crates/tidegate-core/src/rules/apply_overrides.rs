//! Applies overrides to the limits of a request, between matching and planning.
//!
//! Most keys have no override. So the first loop only asks, and everything else is in a function of its own that is rarely
//! called.

use std::sync::Arc;

use smallvec::SmallVec;

use super::compiled_limit::CompiledLimit;
use super::compiled_rule::CompiledRule;
use super::matched::{LimitOverride, LimitRef, MatchedKey, MatchedLimit, MatchedLimits, OverriddenValues};
use super::overridden_limits::{KeptSlot, OverriddenAs, OverriddenLimit};
use super::override_list::OverrideList;
use super::overrides::{
    Access, Applicable, FoundEntry, FoundOverrides, Override, OverrideHint, OverrideLookup, OverrideSource,
    OverrideTarget, OverrideValues, SupersedingLimit,
};
use super::{
    Action, AppliedOverride, CompiledDomain, Descriptor, KeySpec, LimitPosition, OnOverrideMiss, Overridable,
    Request, Rule, Ruleset,
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

/// The first limit of a request whose key may have overrides.
struct FirstOverridden {
    /// The index of the limit.
    index: usize,
    hint: OverrideHint,
    /// Its overrides, if they are known and no others match the key.
    entry: Option<FoundEntry>,
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
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "measured: the whole step is then one function")]
    pub(super) fn apply_overrides<S: OverrideSource>(
        &mut self,
        rules: &Ruleset,
        request: &Request<'_>,
        now: Timestamp,
        source: &S,
        on_miss: OnOverrideMiss,
    ) -> OverrideStatus {
        // Most requests have one limit, and most overrides only set numbers.
        if let [matched] = self.limits.as_slice() {
            let Some(target) = self.override_target(rules, matched) else { return OverrideStatus::Applied };
            let Some(hint) = source.may_have(target) else { return OverrideStatus::Applied };
            let mut entry = source.find_alone(target, hint);
            if entry.is_some() && self.apply_plain(rules, 0, &mut entry) {
                return OverrideStatus::Applied;
            }
            let first = FirstOverridden { index: 0, hint, entry };
            return self.find_and_apply(rules, request, now, source, on_miss, first);
        }
        self.apply_to_several(rules, request, now, source, on_miss)
    }

    /// Applies the overrides of a request that has no limit or several. Separate, so that the common case has few registers to save.
    #[inline(never)]
    fn apply_to_several<S: OverrideSource>(
        &mut self,
        rules: &Ruleset,
        request: &Request<'_>,
        now: Timestamp,
        source: &S,
        on_miss: OnOverrideMiss,
    ) -> OverrideStatus {
        for (index, matched) in self.limits.iter().enumerate() {
            if let Some(target) = self.override_target(rules, matched)
                && let Some(hint) = source.may_have(target)
            {
                let first = FirstOverridden { index, hint, entry: None };
                return self.find_and_apply(rules, request, now, source, on_miss, first);
            }
        }
        OverrideStatus::Applied
    }

    /// Applies the overrides of one limit if they only set numbers, as those of a customer's plan do. Most overrides are such,
    /// and this costs much less than [`apply_found`](Self::apply_found), which does the same for them. Returns whether it was
    /// done, and takes the entry then.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "measured")]
    fn apply_plain(&mut self, rules: &Ruleset, index: usize, entry: &mut Option<FoundEntry>) -> bool {
        let (Some(found), Some(matched)) = (&*entry, self.limits.get_mut(index)) else { return false };
        let LimitRef::Rule(position) = matched.limit else { return false };
        let remembered = rules.overridden.remembered(position, &found.overrides);
        let Some(kept) = remembered.or_else(|| rules.compile_plain(position, &found.overrides)) else {
            return false;
        };
        // Its action is that of the rule and is not elastic, so whether the request may wait, may borrow or lacks a key does
        // not change.
        matched.resized = None;
        matched.limit = LimitRef::Values(OverriddenValues { position, kept });
        self.plain = entry.take();
        true
    }

    /// Finds and applies the overrides, those of the first overridden limit and of the limits after it.
    #[inline(never)]
    fn find_and_apply(
        &mut self,
        rules: &Ruleset,
        request: &Request<'_>,
        now: Timestamp,
        source: &dyn OverrideSource,
        on_miss: OnOverrideMiss,
        first: FirstOverridden,
    ) -> OverrideStatus {
        let mut found: SmallVec<[(usize, FoundOverrides); 2]> = SmallVec::new();
        let mut status = OverrideStatus::Applied;
        let (mut first_hint, mut first_entry) = (Some(first.hint), first.entry);
        for (index, matched) in self.limits.iter().enumerate().skip(first.index) {
            let Some(target) = self.override_target(rules, matched) else { continue };
            let Some(hint) = first_hint.take().or_else(|| source.may_have(target)) else { continue };
            let lookup = match first_entry.take() {
                Some(entry) => {
                    OverrideLookup::Found(FoundOverrides { exact: Some(entry), wildcards: Vec::new() })
                }
                None => source.find(rules, target, hint, descriptor(request, matched)),
            };
            match lookup {
                OverrideLookup::None => {}
                OverrideLookup::Found(overrides) => found.push((index, overrides)),
                OverrideLookup::NotLoaded(known) => {
                    let rule = rules.resolve(&matched.limit).rule;
                    if on_miss == OnOverrideMiss::Wait && rule.on_override_miss == OnOverrideMiss::Wait {
                        return OverrideStatus::NotLoaded;
                    }
                    status = OverrideStatus::Incomplete;
                    if !known.is_empty() {
                        found.push((index, known));
                    }
                }
            }
        }
        if let [(index, overrides)] = found.as_mut_slice()
            && overrides.wildcards.is_empty()
            && self.apply_plain(rules, *index, &mut overrides.exact)
        {
            return status;
        }
        if !found.is_empty() {
            self.apply_found(rules, request, now, source, &mut found, &mut status);
        }
        status
    }

    /// Applies the overrides of each limit by itself, without those of other plans.
    pub(super) fn apply_values(&mut self, rules: &Ruleset, now: Timestamp, source: &dyn OverrideSource) {
        let request = Request { domain: "", descriptors: &[] };
        let mut lifted: SmallVec<[usize; 2]> = SmallVec::new();
        for index in 0..self.limits.len() {
            let matched = &self.limits[index];
            let Some(target) = self.override_target(rules, matched) else { continue };
            let Some(hint) = source.may_have(target) else { continue };
            let overrides = match source.find(rules, target, hint, descriptor(&request, matched)) {
                OverrideLookup::None => continue,
                OverrideLookup::Found(overrides) | OverrideLookup::NotLoaded(overrides) => overrides,
            };
            if self.apply_to_limit(rules, &request, index, &overrides, now) {
                lifted.push(index);
            }
        }
        for index in lifted.into_iter().rev() {
            self.limits.remove(index);
        }
    }

    /// The override of the limit that is a [`LimitRef::Values`], for the answer.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "measured: the result is written where it stays")]
    pub(super) fn applied_plain(&self, entry: FoundEntry) -> Option<AppliedOverride> {
        let (position, matched) = self.limits.iter().find_map(|matched| match &matched.limit {
            LimitRef::Values(values) => Some((values.position, matched)),
            _ => None,
        })?;
        let key = SmallVec::from_slice(self.key(matched).unwrap_or_default());
        Some(AppliedOverride { entry, index: 0, position, key })
    }

    /// The keys of the request that may have overrides, whether an override applies already or not.
    pub fn override_targets<'a>(&'a self, rules: &'a Ruleset) -> impl Iterator<Item = OverrideTarget<'a>> {
        self.limits.iter().filter_map(|matched| match &matched.limit {
            LimitRef::Rule(position) => self.target_at(rules, *position, matched),
            LimitRef::Override(replacement) => self.target_at(rules, replacement.position, matched),
            LimitRef::Values(values) => self.target_at(rules, values.position, matched),
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
        let scope = rules.limit_at(position).scope?;
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
                match source.find(rules, target, hint, descriptor(request, matched)) {
                    OverrideLookup::None => {}
                    OverrideLookup::Found(overrides) => found.push((index, overrides)),
                    OverrideLookup::NotLoaded(known) => {
                        *status = OverrideStatus::Incomplete;
                        if !known.is_empty() {
                            found.push((index, known));
                        }
                    }
                }
            }
        }
        let mut lifted: SmallVec<[usize; 2]> = SmallVec::new();
        for (index, overrides) in found.iter() {
            if self.apply_to_limit(rules, request, *index, overrides, now) {
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
        for (position, descriptor_index, tier) in &moved {
            let domain = rules.domain_at(position.domain);
            self.limits.retain(|matched| match matched.limit {
                LimitRef::Rule(other) => {
                    (other.domain, other.rule, matched.descriptor)
                        != (position.domain, position.rule, *descriptor_index)
                }
                _ => true,
            });
            let positions = domain.compiled(position.rule).tier_positions(Some(tier));
            self.match_limits(
                domain,
                *position,
                positions,
                *descriptor_index,
                &request.descriptors[*descriptor_index as usize],
            );
        }
        !moved.is_empty()
    }

    /// Applies overrides to one limit. Returns whether the limit no longer applies.
    fn apply_to_limit(
        &mut self,
        rules: &Ruleset,
        request: &Request<'_>,
        index: usize,
        overrides: &FoundOverrides,
        now: Timestamp,
    ) -> bool {
        let LimitRef::Rule(position) = self.limits[index].limit else { return false };
        let base = rules.resolve_position(position).limit;
        let mut applicable = overrides.applicable(&base.id, now);
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
                let values = one.filter(|one| base.takes_values_of(one)).map(|one| one.values);
                let values = values.unwrap_or_default();
                let limit = rules
                    .overridden
                    .get(position, OverriddenAs::Values(values), || base.with_values(&values));
                let compiled = rules.overridden.resolve(&limit);
                let superseded = {
                    let descriptor = descriptor(request, &self.limits[index]);
                    let in_tier = |tier: Option<&str>| rules.limit_in_tier(position, tier, descriptor);
                    let limit = SupersedingLimit { base, current: compiled, applicable, in_tier: &in_tier };
                    overrides.superseded(limit, now)
                };
                // An override whose numbers do not apply to this limit, and that sets nothing else.
                if values.is_empty()
                    && one.is_some_and(|one| one.tier.is_none() && one.access == Access::Limited)
                {
                    applicable = None;
                }
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
        let is_blocked = one.is_some_and(Override::is_block);
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

/// The descriptor of the request that falls under a limit.
fn descriptor<'r>(request: &Request<'r>, matched: &MatchedLimit) -> &'r Descriptor<'r> {
    // A key that an operator names has none.
    const NONE: &Descriptor<'static> = &Descriptor::new(&[], 1);
    request.descriptors.get(matched.descriptor as usize).unwrap_or(NONE)
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
    compiled: &'a CompiledRule,
}

impl<'a> OverridableRule<'a> {
    /// The limits of a tier, or those of the default tier if there is no such tier.
    pub fn limits_of_tier(&self, tier: &str) -> &'a [CompiledLimit] {
        self.compiled.tier_limits(Some(tier))
    }
}

impl Ruleset {
    /// The limit in another plan of its rule that has the same identity and key. `None` for a plan stands for the one that the
    /// descriptor says.
    fn limit_in_tier(
        &self,
        position: LimitPosition,
        tier: Option<&str>,
        descriptor: &Descriptor<'_>,
    ) -> Option<&CompiledLimit> {
        let compiled = self.domain_at(position.domain).compiled(position.rule);
        let limit = compiled.limit(position.limit);
        let mut positions = match tier {
            Some(_) => compiled.tier_positions(tier),
            None => compiled.positions_for(descriptor),
        };
        let is_same = |other: &u32| {
            let other = compiled.limit(*other);
            other.counter_id == limit.counter_id && other.scope == limit.scope
        };
        positions.find(is_same).map(|position| compiled.limit(position))
    }

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

impl Ruleset {
    /// The slot of the limit with the values of overrides that set nothing else, which is compiled if it is new. `None` if they
    /// set something else, the limit does not take them, or there is no room.
    #[cold]
    fn compile_plain(&self, position: LimitPosition, list: &OverrideList) -> Option<KeptSlot> {
        let (values, base) = (list.plain_values()?, self.limit_at(position));
        let compile = || base.with_values(values);
        base.takes_unnamed_values.then(|| self.overridden.keep_plain(position, list, values, compile))?
    }
}

impl CompiledDomain {
    /// The rules whose limits may have overrides.
    pub fn overridable_rules(&self) -> impl Iterator<Item = OverridableRule<'_>> {
        let rules = (0..).zip(self.rules()).filter(|(_, rule)| rule.overridable == Overridable::Yes);
        rules.map(|(position, rule)| {
            let compiled = self.compiled(position);
            let limits = compiled.tier_limits_of_all();
            OverridableRule { rule, identity: &compiled.identity, limits, compiled }
        })
    }
}

impl CompiledLimit {
    /// The limit with the values of an override. They were checked when they were set; the rule may have changed since, so that they
    /// do not fit any more.
    #[cold]
    fn with_values(&self, values: &OverrideValues) -> Self {
        self.with_override(values).unwrap_or_else(|_| self.clone())
    }

    /// The limit for a key that is blocked. Every request is denied, unless all rules are a dry run.
    fn blocked(&self) -> Self {
        let mut blocked = self.clone();
        blocked.limit.action = if self.is_global_shadow { Action::Shadow } else { Action::Reject };
        (blocked.secondary, blocked.pool, blocked.signal) = (None, None, None);
        blocked
    }
}
