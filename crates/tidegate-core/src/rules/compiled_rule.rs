//! A rule, compiled: its limits with their counters.

use std::collections::HashMap;
use std::ops::Range;

use super::compiled_limit::{CompiledLimit, ResolvedElastic, CounterIdentity};
use super::name_history;
use super::{
    Action, Attribute, CaseSensitivity, Descriptor, Elastic, ElasticSource, RuleLimits, Pool, Rule, RuleLimit, RulesetError,
    Signal, Tiers,
};
use crate::{StorePolicy, Timestamp};

/// What the ruleset holds of a rule besides the rule as it was written.
#[derive(Debug)]
pub(super) struct CompiledRule {
    /// The identity of its counters.
    pub(super) identity: Box<str>,
    /// The limits of all its tiers, one tier after the other, and its candidate at the end. A limit is known by its
    /// position here.
    limits: Vec<CompiledLimit>,
    tiers: CompiledTiers,
    candidate: Option<u32>,
    pub(super) replaces: Vec<u32>,
}

/// Positions of limits.
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
                    CaseSensitivity::Insensitive => self.tier_positions(value.map(str::to_ascii_lowercase).as_deref()),
                }
            }
        }
    }

    /// The limit at a position.
    pub(super) fn limit(&self, position: u32) -> &CompiledLimit {
        &self.limits[position as usize]
    }

    /// The position of its candidate.
    pub(super) fn candidate(&self) -> Option<u32> {
        self.candidate
    }

    /// Supersedes the limits of the rule that had the same identity before.
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

    /// The limits of a plan; those of everyone else if there is no such plan.
    fn tier_limits(&self, plan: Option<&str>) -> &[CompiledLimit] {
        &self.limits[as_indices(self.tier_positions(plan))]
    }

    fn tier_positions(&self, plan: Option<&str>) -> Positions {
        match &self.tiers {
            CompiledTiers::Same(positions) => positions.clone(),
            CompiledTiers::By { plans, default, .. } => {
                plan.and_then(|plan| plans.get(plan)).unwrap_or(default).clone()
            }
        }
    }
}

fn as_indices(positions: Positions) -> Range<usize> {
    positions.start as usize..positions.end as usize
}

/// What compiling a rule takes.
pub(super) struct RuleCompiler<'a> {
    pub domain: &'a str,
    pub pools: &'a [Pool],
    pub names: &'a HashMap<&'a str, u32>,
    pub signal: &'a mut dyn FnMut(&str) -> Signal,
}

impl RuleCompiler<'_> {
    /// Compiles a rule with this identity, with regard to the rule that had it before.
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
            RuleLimits::Tiers(Tiers { attribute: by, plans, default }) => CompiledTiers::By {
                attribute: by.clone(),
                plans: plans
                    .iter()
                    .map(|(plan, tier)| {
                        // Written as its attribute is compared.
                        let plan: Box<str> = match by.case() {
                            CaseSensitivity::Sensitive => plan.clone(),
                            CaseSensitivity::Insensitive => plan.to_ascii_lowercase().into(),
                        };
                        let positions = self.compile_tier(rule, &identity, tier, old, Some(&plan), &mut limits)?;
                        Ok((plan, positions))
                    })
                    .collect::<Result<_, RulesetError>>()?,
                default: self.compile_tier(rule, &identity, default, old, None, &mut limits)?,
            },
        };
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
        let number =
            |name: &str| self.names.get(name).copied().ok_or_else(|| RulesetError::UnknownName(name.into()));
        let mut replaces: Vec<u32> =
            rule.replaces.iter().map(|name| number(name)).collect::<Result<_, _>>()?;
        replaces.sort_unstable();
        Ok(CompiledRule { identity, limits, tiers, candidate, replaces })
    }

    /// Compiles the limits of a tier and says where they are.
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
        let named: Vec<_> = tier.iter().enumerate().map(|(position, limit)| limit.name_history(position)).collect();
        let held = old.iter().map(|old| (old.id.clone(), old.counter_id.clone())).collect();
        let start = next_position(limits);
        for ((position, limit), id) in tier.iter().enumerate().zip(name_history::assign_identities(&named, &held)) {
            let keys = limit.key.key_form(rule.entries.as_ref());
            let identity = CounterIdentity { domain: self.domain, rule: rule_identity, part: "", limit: id, key_form: keys };
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
        let mut elastic = ResolvedElastic::default();
        match &limit.action {
            Action::Elastic(Elastic { source: ElasticSource::Pool(name), .. }) => {
                let found = self.pools.iter().position(|pool| pool.name == *name);
                elastic.pool = Some(found.ok_or_else(|| RulesetError::UnknownName(name.clone()))?);
            }
            Action::Elastic(Elastic { source: ElasticSource::Signal(name), .. }) => {
                elastic.signal = Some((self.signal)(name));
            }
            _ => {}
        }
        let policy = StorePolicy {
            on_store_failure: rule.on_store_failure_of(&limit.limit),
            deny_cache: rule.deny_cache,
            ..StorePolicy::default()
        };
        Ok(CompiledLimit::new(limit.clone(), position, identity, policy, elastic))
    }
}

/// A rule has fewer limits than 2^32: files and memory bound them.
fn next_position(limits: &[CompiledLimit]) -> u32 {
    u32::try_from(limits.len()).unwrap_or(u32::MAX)
}
