//! A compiled rule: its limits with their counters.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::compiled_limit::{CompiledLimit, CounterIdentity, ResolvedElastic};
use super::{
    Action, Attribute, CaseSensitivity, Descriptor, Elastic, ElasticSource, OverrideScope, Pool, Rule,
    RuleLimit, RuleLimits, RulesetError, Signal, Tiers, name_history,
};
use crate::text::escape_quoted;
use crate::{LimitId, StorePolicy, Timestamp};

/// What a ruleset keeps of a rule besides the rule as written.
#[derive(Debug)]
pub(super) struct CompiledRule {
    /// The identity of its counters.
    pub(super) identity: Box<str>,
    /// The limits of all tiers, one tier after the other, and the candidate at the end. Other code refers to a limit by
    /// its position here.
    pub(super) limits: Vec<CompiledLimit>,
    tiers: CompiledTiers,
    candidate: Option<u32>,
    replaces: Replaces,
}

/// Which other rules of the domain a rule replaces.
#[derive(Debug)]
enum Replaces {
    /// These, in ascending order.
    Rules(Vec<u32>),
    /// All that are not exemptions themselves.
    All,
}

/// The positions of limits in a compiled rule.
type Positions = Range<u32>;

/// Which limits apply to which descriptor.
#[derive(Debug)]
enum CompiledTiers {
    Same(Positions),
    By { attribute: Attribute, plans: HashMap<Box<str>, Positions>, default: Positions },
}

impl CompiledRule {
    /// The positions of the limits that apply to a descriptor.
    pub(super) fn positions_for(&self, descriptor: &Descriptor<'_>) -> Positions {
        match &self.tiers {
            CompiledTiers::Same(positions) => positions.clone(),
            CompiledTiers::By { attribute, .. } => {
                let value = descriptor.value(attribute).map(|value| attribute.comparable_part(value));
                match attribute.case() {
                    CaseSensitivity::Sensitive => self.tier_positions(value),
                    CaseSensitivity::Insensitive => {
                        self.tier_positions(value.map(str::to_ascii_lowercase).as_deref())
                    }
                }
            }
        }
    }

    /// The positions of the limits of each plan, without the candidate.
    pub(super) fn all_positions(&self) -> Vec<Positions> {
        match &self.tiers {
            CompiledTiers::Same(positions) => vec![positions.clone()],
            CompiledTiers::By { plans, default, .. } => plans.values().chain([default]).cloned().collect(),
        }
    }

    /// Whether the rule never has limits.
    pub(super) fn is_unlimited(&self) -> bool {
        self.limits.is_empty()
    }

    /// The limits of all tiers, without the candidate.
    pub(super) fn tier_limits_of_all(&self) -> &[CompiledLimit] {
        &self.limits[..self.candidate.map_or(self.limits.len(), |candidate| candidate as usize)]
    }

    /// The limit at a position.
    pub(super) fn limit(&self, position: u32) -> &CompiledLimit {
        &self.limits[position as usize]
    }

    /// The position of its candidate.
    pub(super) fn candidate(&self) -> Option<u32> {
        self.candidate
    }

    /// Whether it replaces the rule `other`, which is at this position in the domain.
    #[inline]
    pub(super) fn replaces(&self, position: u32, other: &Self) -> bool {
        match &self.replaces {
            Replaces::Rules(positions) => positions.binary_search(&position).is_ok(),
            Replaces::All => !matches!(other.replaces, Replaces::All),
        }
    }

    /// Supersedes the limits of the rule that had the same identity before. If a rule has no tiers any more, it
    /// supersedes only the limits of the default tier.
    pub(super) fn supersede(&mut self, old: &Self, now: Timestamp) {
        let tiers: Vec<(Positions, &[CompiledLimit])> = match &self.tiers {
            CompiledTiers::Same(positions) => vec![(positions.clone(), old.tier_limits(None))],
            CompiledTiers::By { plans, default, .. } => {
                let plans =
                    plans.iter().map(|(plan, positions)| (positions.clone(), old.tier_limits(Some(plan))));
                plans.chain([(default.clone(), old.tier_limits(None))]).collect()
            }
        };
        for (positions, old) in tiers {
            for limit in &mut self.limits[as_indices(positions)] {
                if let Some(old) = old.iter().find(|old| old.counter_id == limit.counter_id) {
                    limit.supersede(old, now);
                }
            }
        }
    }

    /// The limits of a plan, or those of the default tier if there is no such plan.
    pub(super) fn tier_limits(&self, plan: Option<&str>) -> &[CompiledLimit] {
        &self.limits[as_indices(self.tier_positions(plan))]
    }

    pub(super) fn tier_positions(&self, plan: Option<&str>) -> Positions {
        match &self.tiers {
            CompiledTiers::Same(positions) => positions.clone(),
            CompiledTiers::By { plans, default, .. } => {
                plan.and_then(|plan| plans.get(plan)).unwrap_or(default).clone()
            }
        }
    }
}

/// Finds the limits that an override means that names no limit: each is the only one of its plan with its key.
fn mark_unnamed_values(limits: &mut [CompiledLimit]) {
    let mut ids: HashMap<OverrideScope, BTreeSet<LimitId>> = HashMap::new();
    for limit in limits.iter() {
        if let Some(scope) = limit.scope {
            ids.entry(scope).or_default().insert(limit.id.clone());
        }
    }
    for limit in limits {
        let is_one_of_several =
            limit.scope.and_then(|scope| ids.get(&scope)).is_some_and(|ids| ids.len() > 1);
        limit.takes_unnamed_values = limit.has_overridable_values() && !is_one_of_several;
    }
}

fn as_indices(positions: Positions) -> Range<usize> {
    positions.start as usize..positions.end as usize
}

/// The inputs for compiling a rule.
pub(super) struct RuleCompiler<'a> {
    pub domain: &'a str,
    pub pools: &'a [Pool],
    pub names: &'a HashMap<&'a str, u32>,
    pub signal: &'a mut dyn FnMut(&str) -> Signal,
    /// Whether all rules are a dry run.
    pub is_shadow: bool,
}

impl RuleCompiler<'_> {
    /// Compiles a rule with this identity. `old` is the rule that had the identity before.
    pub(super) fn compile_rule(
        &mut self,
        rule: &Rule,
        identity: Box<str>,
        old: Option<&CompiledRule>,
    ) -> Result<CompiledRule, RulesetError> {
        let mut limits = Vec::new();
        let tiers = match &rule.limits {
            RuleLimits::Same(same) => {
                CompiledTiers::Same(self.compile_tier(rule, &identity, same, old, None, &mut limits)?)
            }
            RuleLimits::Tiers(Tiers { attribute, plans, default }) => CompiledTiers::By {
                attribute: attribute.clone(),
                plans: plans
                    .iter()
                    .map(|(plan, tier)| {
                        // In the same case in which values of its attribute are compared.
                        let plan: Box<str> = match attribute.case() {
                            CaseSensitivity::Sensitive => plan.clone(),
                            CaseSensitivity::Insensitive => plan.to_ascii_lowercase().into(),
                        };
                        let positions =
                            self.compile_tier(rule, &identity, tier, old, Some(&plan), &mut limits)?;
                        Ok((plan, positions))
                    })
                    .collect::<Result<_, RulesetError>>()?,
                default: self.compile_tier(rule, &identity, default, old, None, &mut limits)?,
            },
        };
        mark_unnamed_values(&mut limits);
        let mut candidate = None;
        if let Some(limit) = &rule.candidate {
            let identity = CounterIdentity {
                domain: self.domain,
                rule: &identity,
                part: "candidate",
                limit: limit.counter_id(0),
                key_form: limit.key.key_form(rule.entries.as_ref()),
            };
            candidate = Some(next_position(&limits));
            limits.push(self.compile_limit(rule, identity, 0, limit)?);
        }
        let index =
            |name: &str| self.names.get(name).copied().ok_or_else(|| RulesetError::UnknownName(name.into()));
        let mut replaces: Vec<u32> =
            rule.replaces.iter().map(|name| index(name)).collect::<Result<_, _>>()?;
        replaces.sort_unstable();
        let replaces = if rule.is_exemption { Replaces::All } else { Replaces::Rules(replaces) };
        Ok(CompiledRule { identity, limits, tiers, candidate, replaces })
    }

    /// Compiles the limits of a tier and returns their positions.
    fn compile_tier(
        &mut self,
        rule: &Rule,
        rule_identity: &str,
        tier: &[RuleLimit],
        old: Option<&CompiledRule>,
        plan: Option<&str>,
        limits: &mut Vec<CompiledLimit>,
    ) -> Result<Positions, RulesetError> {
        let old = old.map(|old| old.tier_limits(plan)).unwrap_or_default();
        let names: Vec<_> =
            tier.iter().enumerate().map(|(position, limit)| limit.name_history(position)).collect();
        let identities = old.iter().map(|old| (old.id.clone(), old.counter_id.clone())).collect();
        let start = next_position(limits);
        for ((position, limit), id) in
            tier.iter().enumerate().zip(name_history::assign_identities(&names, &identities))
        {
            let identity = CounterIdentity {
                domain: self.domain,
                rule: rule_identity,
                part: "",
                limit: id,
                key_form: limit.key.key_form(rule.entries.as_ref()),
            };
            limits.push(self.compile_limit(rule, identity, position, limit)?);
        }
        Ok(start..next_position(limits))
    }

    fn compile_limit(
        &mut self,
        rule: &Rule,
        identity: CounterIdentity<'_>,
        position: usize,
        limit: &RuleLimit,
    ) -> Result<CompiledLimit, RulesetError> {
        let policy = StorePolicy {
            on_store_failure: rule.on_store_failure_of(&limit.limit),
            deny_cache: rule.deny_cache,
            ..StorePolicy::default()
        };
        let public_name = public_name(rule, position, limit);
        let (domain, rule_identity) = (identity.domain, identity.rule);
        if self.is_shadow {
            let compiled = CompiledLimit::shadow(limit, position, identity, policy).with_mode(rule.mode);
            return Ok(compiled.with_names(&rule.name, public_name).with_overrides(
                domain,
                rule_identity,
                rule.overridable,
            ));
        }
        let mut elastic = ResolvedElastic::default();
        match &limit.action {
            Action::Elastic(Elastic { source: ElasticSource::Pool(name), .. }) => {
                let position = self.pools.iter().position(|pool| pool.name == *name);
                elastic.pool = Some(position.ok_or_else(|| RulesetError::UnknownName(name.clone()))?);
            }
            Action::Elastic(Elastic { source: ElasticSource::Signal(name), .. }) => {
                elastic.signal = Some((self.signal)(name));
            }
            _ => {}
        }
        let compiled =
            CompiledLimit::new(limit.clone(), position, identity, policy, elastic).with_mode(rule.mode);
        Ok(compiled.with_names(&rule.name, public_name).with_overrides(
            domain,
            rule_identity,
            rule.overridable,
        ))
    }
}

/// The name of the limit, else that of its rule. A rule that is found by the entries of a descriptor is named by its
/// path, which the file does not contain. It has no public name.
fn public_name(rule: &Rule, position: usize, limit: &RuleLimit) -> Box<str> {
    let own = rule.limit_name.as_deref().filter(|_| position == 0).or(limit.limit.name());
    let rule_name = if rule.entries.is_none() { &*rule.name } else { "" };
    escape_quoted(own.unwrap_or(rule_name)).into()
}

/// The next position. A rule has fewer than 2^32 limits: the sizes of files and memory bound them.
fn next_position(limits: &[CompiledLimit]) -> u32 {
    u32::try_from(limits.len()).unwrap_or(u32::MAX)
}
