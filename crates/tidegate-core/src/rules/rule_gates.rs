//! The gates of a rule: what there is of it besides what was written.

use std::collections::HashMap;

use super::gate::{Gate, Identity};
use super::identity;
use super::{
    Action, Attribute, Case, Descriptor, Elastic, ElasticBy, LimitId, Limits, Pool, Rule, RuleLimit,
    RulesetError, Signal, Tiers,
};
use crate::Timestamp;

/// What there is of a rule besides what was written.
#[derive(Debug)]
pub(super) struct RuleGates {
    /// What its counters are known by.
    pub(super) identity: Box<str>,
    pub(super) gates: Gates,
    pub(super) candidate: Option<Gate>,
    pub(super) replaces: Vec<u32>,
}

#[derive(Debug)]
pub(super) enum Gates {
    Same(Vec<Gate>),
    Tiers { by: Attribute, plans: HashMap<Box<str>, Vec<Gate>>, default: Vec<Gate> },
}

impl RuleGates {
    /// The gates that a descriptor passes.
    pub(super) fn of(&self, descriptor: &Descriptor<'_>) -> &[Gate] {
        match &self.gates {
            Gates::Same(gates) => gates,
            Gates::Tiers { by, .. } => {
                let value = descriptor.value(by).map(|value| by.compared(value));
                match by.case() {
                    Case::Kept => self.of_plan(value),
                    Case::Ignored => self.of_plan(value.map(str::to_ascii_lowercase).as_deref()),
                }
            }
        }
    }

    /// Lets every gate take the place of the one that was known by the same before.
    pub(super) fn succeed(&mut self, old: &Self, now: Timestamp) {
        match &mut self.gates {
            Gates::Same(gates) => succeed(gates, old.of_plan(None), now),
            Gates::Tiers { plans, default, .. } => {
                plans.iter_mut().for_each(|(plan, gates)| succeed(gates, old.of_plan(Some(plan)), now));
                succeed(default, old.of_plan(None), now);
            }
        }
    }

    /// The gates of a plan; of everyone else if there is no such plan.
    fn of_plan(&self, plan: Option<&str>) -> &[Gate] {
        match &self.gates {
            Gates::Same(gates) => gates,
            Gates::Tiers { plans, default, .. } => plan.and_then(|plan| plans.get(plan)).unwrap_or(default),
        }
    }
}

/// What compiling a rule takes.
pub(super) struct Compiler<'a> {
    pub domain: &'a str,
    pub pools: &'a [Pool],
    pub names: &'a HashMap<&'a str, u32>,
    pub signal: &'a mut dyn FnMut(&str) -> Signal,
}

impl Compiler<'_> {
    /// The gates of a rule that is known by `identity`, as the one before was that was known by it.
    pub(super) fn rule(
        &mut self,
        rule: &Rule,
        identity: Box<str>,
        old: Option<&RuleGates>,
    ) -> Result<RuleGates, RulesetError> {
        let gates = match &rule.limits {
            Limits::Same(limits) => Gates::Same(self.gates(rule, &identity, limits, old_gates(old, None))?),
            Limits::Tiers(Tiers { by, plans, default }) => Gates::Tiers {
                by: by.clone(),
                plans: plans
                    .iter()
                    .map(|(plan, limits)| {
                        // Written as its attribute is compared.
                        let plan = match by.case() {
                            Case::Kept => plan.clone(),
                            Case::Ignored => plan.to_ascii_lowercase().into(),
                        };
                        let gates = self.gates(rule, &identity, limits, old_gates(old, Some(&plan)))?;
                        Ok((plan, gates))
                    })
                    .collect::<Result<_, RulesetError>>()?,
                default: self.gates(rule, &identity, default, old_gates(old, None))?,
            },
        };
        let candidate = rule.candidate.as_ref().map(|limit| {
            let identity = Identity {
                domain: self.domain,
                rule: &identity,
                part: "candidate",
                limit: limit.identity(0),
                keys: limit.key.form(rule.entries.as_ref()),
            };
            self.gate(identity, 0, limit)
        });
        let candidate = candidate.transpose()?;
        let number =
            |name: &str| self.names.get(name).copied().ok_or_else(|| RulesetError::Unknown(name.into()));
        let mut replaces: Vec<u32> =
            rule.replaces.iter().map(|name| number(name)).collect::<Result<_, _>>()?;
        replaces.sort_unstable();
        Ok(RuleGates { identity, gates, candidate, replaces })
    }

    fn gates(
        &mut self,
        rule: &Rule,
        known_by: &str,
        limits: &[RuleLimit],
        old: &[Gate],
    ) -> Result<Vec<Gate>, RulesetError> {
        let named: Vec<_> = limits.iter().enumerate().map(|(place, limit)| limit.named(place)).collect();
        let held = old.iter().map(|old| (old.id.clone(), old.known_by.clone())).collect();
        let identities = identity::assign(&named, &held);
        let gate = |((place, limit), id): ((usize, &RuleLimit), LimitId)| {
            let keys = limit.key.form(rule.entries.as_ref());
            let identity = Identity { domain: self.domain, rule: known_by, part: "", limit: id, keys };
            self.gate(identity, place, limit)
        };
        limits.iter().enumerate().zip(identities).map(gate).collect()
    }

    fn gate(
        &mut self,
        identity: Identity<'_>,
        place: usize,
        limit: &RuleLimit,
    ) -> Result<Gate, RulesetError> {
        let (mut pool, mut signal) = (None, None);
        match &limit.action {
            Action::Elastic(Elastic { by: ElasticBy::Pool(name), .. }) => {
                let found = self.pools.iter().position(|pool| pool.name == *name);
                pool = Some(found.ok_or_else(|| RulesetError::Unknown(name.clone()))?);
            }
            Action::Elastic(Elastic { by: ElasticBy::Signal(name), .. }) => {
                signal = Some((self.signal)(name));
            }
            _ => {}
        }
        Ok(Gate::new(limit.clone(), place, identity, pool, signal))
    }
}

/// The gates of a plan before; none if there was no such rule.
fn old_gates<'o>(old: Option<&'o RuleGates>, plan: Option<&str>) -> &'o [Gate] {
    old.map(|old| old.of_plan(plan)).unwrap_or_default()
}

/// Lets every gate take the place of the one that was known by the same before.
fn succeed(gates: &mut [Gate], old: &[Gate], now: Timestamp) {
    for gate in gates {
        if let Some(old) = old.iter().find(|old| old.known_by == gate.known_by) {
            gate.succeed(old, now);
        }
    }
}
