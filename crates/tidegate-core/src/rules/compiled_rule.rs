//! A rule, compiled: its limits with their counters.

use std::collections::HashMap;
use std::ops::Range;

use super::compiled_limit::{CompiledLimit, ElasticSource, Identity};
use super::identity;
use super::{
    Action, Attribute, Case, Descriptor, Elastic, ElasticBy, Limits, Pool, Rule, RuleLimit, RulesetError,
    Signal, Tiers,
};
use crate::{Policy, Timestamp};

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
                let value = descriptor.value(attribute).map(|value| attribute.compared(value));
                match attribute.case() {
                    Case::Kept => self.positions_of_plan(value),
                    Case::Ignored => self.positions_of_plan(value.map(str::to_ascii_lowercase).as_deref()),
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
            CompiledTiers::Same(positions) => vec![(positions.clone(), old.of_plan(None))],
            CompiledTiers::By { plans, default, .. } => {
                let plans =
                    plans.iter().map(|(plan, positions)| (positions.clone(), old.of_plan(Some(plan))));
                plans.chain([(default.clone(), old.of_plan(None))]).collect()
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
    fn of_plan(&self, plan: Option<&str>) -> &[CompiledLimit] {
        &self.limits[as_indices(self.positions_of_plan(plan))]
    }

    fn positions_of_plan(&self, plan: Option<&str>) -> Positions {
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
pub(super) struct Compiler<'a> {
    pub domain: &'a str,
    pub pools: &'a [Pool],
    pub names: &'a HashMap<&'a str, u32>,
    pub signal: &'a mut dyn FnMut(&str) -> Signal,
}

impl Compiler<'_> {
    /// Compiles a rule with this identity, with regard to the rule that had it before.
    pub(super) fn rule(
        &mut self,
        rule: &Rule,
        identity: Box<str>,
        old: Option<&CompiledRule>,
    ) -> Result<CompiledRule, RulesetError> {
        let mut limits = Vec::new();
        let tiers = match &rule.limits {
            Limits::Same(same) => {
                CompiledTiers::Same(self.tier(rule, &identity, same, old, None, &mut limits)?)
            }
            Limits::Tiers(Tiers { by, plans, default }) => CompiledTiers::By {
                attribute: by.clone(),
                plans: plans
                    .iter()
                    .map(|(plan, tier)| {
                        // Written as its attribute is compared.
                        let plan: Box<str> = match by.case() {
                            Case::Kept => plan.clone(),
                            Case::Ignored => plan.to_ascii_lowercase().into(),
                        };
                        let positions = self.tier(rule, &identity, tier, old, Some(&plan), &mut limits)?;
                        Ok((plan, positions))
                    })
                    .collect::<Result<_, RulesetError>>()?,
                default: self.tier(rule, &identity, default, old, None, &mut limits)?,
            },
        };
        let mut candidate = None;
        if let Some(limit) = &rule.candidate {
            let identity = Identity {
                domain: self.domain,
                rule: &identity,
                part: "candidate",
                limit: limit.identity(0),
                keys: limit.key.form(rule.entries.as_ref()),
            };
            candidate = Some(next_position(&limits));
            limits.push(self.limit(rule, identity, 0, limit)?);
        }
        let number =
            |name: &str| self.names.get(name).copied().ok_or_else(|| RulesetError::Unknown(name.into()));
        let mut replaces: Vec<u32> =
            rule.replaces.iter().map(|name| number(name)).collect::<Result<_, _>>()?;
        replaces.sort_unstable();
        Ok(CompiledRule { identity, limits, tiers, candidate, replaces })
    }

    /// Compiles the limits of a tier and says where they are.
    fn tier(
        &mut self,
        rule: &Rule,
        rule_identity: &str,
        tier: &[RuleLimit],
        old: Option<&CompiledRule>,
        plan: Option<&str>,
        limits: &mut Vec<CompiledLimit>,
    ) -> Result<Positions, RulesetError> {
        let old = old.map(|old| old.of_plan(plan)).unwrap_or_default();
        let named: Vec<_> = tier.iter().enumerate().map(|(position, limit)| limit.named(position)).collect();
        let held = old.iter().map(|old| (old.id.clone(), old.counter_id.clone())).collect();
        let start = next_position(limits);
        for ((position, limit), id) in tier.iter().enumerate().zip(identity::assign(&named, &held)) {
            let keys = limit.key.form(rule.entries.as_ref());
            let identity = Identity { domain: self.domain, rule: rule_identity, part: "", limit: id, keys };
            limits.push(self.limit(rule, identity, position, limit)?);
        }
        Ok(start..next_position(limits))
    }

    fn limit(
        &mut self,
        rule: &Rule,
        identity: Identity<'_>,
        position: usize,
        limit: &RuleLimit,
    ) -> Result<CompiledLimit, RulesetError> {
        let mut elastic = ElasticSource::default();
        match &limit.action {
            Action::Elastic(Elastic { by: ElasticBy::Pool(name), .. }) => {
                let found = self.pools.iter().position(|pool| pool.name == *name);
                elastic.pool = Some(found.ok_or_else(|| RulesetError::Unknown(name.clone()))?);
            }
            Action::Elastic(Elastic { by: ElasticBy::Signal(name), .. }) => {
                elastic.signal = Some((self.signal)(name));
            }
            _ => {}
        }
        let policy = Policy {
            on_store_failure: rule.on_store_failure_of(&limit.limit),
            deny_cache: rule.deny_cache,
            ..Policy::default()
        };
        Ok(CompiledLimit::new(limit.clone(), position, identity, policy, elastic))
    }
}

/// A rule has fewer limits than 2^32: files and memory bound them.
fn next_position(limits: &[CompiledLimit]) -> u32 {
    u32::try_from(limits.len()).unwrap_or(u32::MAX)
}
