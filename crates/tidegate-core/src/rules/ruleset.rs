//! Rules, compiled: what decides which limits a request touches.

use std::collections::HashMap;
use std::fmt;

use super::gate::{Gate, Identity, Lineage};
use super::identity::{self, Named};
use super::{
    Action, Attribute, Case, Descriptor, Domain, Elastic, ElasticBy, Index, Levels, LimitId, Limits, Lookup,
    Matches, Pool, Rule, RuleLimit, Signal, Tiers,
};
use crate::{Counter, Timestamp};

/// All domains, compiled.
#[derive(Debug, Default)]
pub struct Ruleset {
    domains: HashMap<Box<str>, DomainRules>,
    signals: HashMap<Box<str>, Signal>,
}

/// The rules of a domain, compiled.
#[derive(Debug)]
pub struct DomainRules {
    name: Box<str>,
    apply: super::Apply,
    lookup: Finder,
    /// As they were written, in their order.
    rules: Vec<Rule>,
    compiled: Vec<RuleGates>,
    pub(super) pools: Vec<(Box<str>, Lineage)>,
}

/// What there is of a rule besides what was written.
#[derive(Debug)]
pub(super) struct RuleGates {
    /// What its counters are known by.
    identity: Box<str>,
    pub(super) gates: Gates,
    pub(super) candidate: Option<Gate>,
    pub(super) replaces: Vec<u32>,
}

#[derive(Debug)]
pub(super) enum Gates {
    Same(Vec<Gate>),
    Tiers { by: Attribute, plans: HashMap<Box<str>, Vec<Gate>>, default: Vec<Gate> },
}

#[derive(Debug)]
enum Finder {
    // Much larger than the other, and there is one for each domain.
    Index(Box<Index>),
    Levels(Levels),
}

/// Rules that do not go together. Files are checked before, with better messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulesetError {
    /// Two domains have one name.
    DuplicateDomain(Box<str>),
    /// Two rules of a domain have one name.
    DuplicateRule(Box<str>),
    /// A rule names a pool, or a rule to replace, that its domain does not have.
    Unknown(Box<str>),
}

impl Ruleset {
    /// Compiles domains.
    pub fn compile(domains: Vec<Domain>) -> Result<Self, RulesetError> {
        Self::succeeding(&Self::default(), domains, Timestamp::from_nanos(0))
    }

    /// Compiles domains that take the place of `old` at `now`: counters stay what they are known by, limits that count
    /// in another way than before have the old one beside them for a while, and signals stay where they are.
    pub fn succeeding(old: &Self, domains: Vec<Domain>, now: Timestamp) -> Result<Self, RulesetError> {
        let mut new = Self::default();
        for domain in domains {
            let predecessor = old.domains.get(&domain.name);
            let name = domain.name.clone();
            let compiled = DomainRules::compile(domain, predecessor, now, |signal| {
                let known = new.signals.get(signal).or_else(|| old.signals.get(signal)).cloned();
                new.signals.entry(signal.into()).or_insert_with(|| known.unwrap_or_default()).clone()
            })?;
            if new.domains.insert(name.clone(), compiled).is_some() {
                return Err(RulesetError::DuplicateDomain(name));
            }
        }
        Ok(new)
    }

    /// The rules of a domain.
    pub fn domain(&self, name: &str) -> Option<&DomainRules> {
        self.domains.get(name)
    }

    /// All domains, in no order.
    pub fn domains(&self) -> impl Iterator<Item = &DomainRules> {
        self.domains.values()
    }

    /// The signal of this name, if any rule moves with it.
    pub fn signal(&self, name: &str) -> Option<&Signal> {
        self.signals.get(name)
    }

    /// The names of the signals that rules move with, in no order.
    pub fn signals(&self) -> impl Iterator<Item = &str> {
        self.signals.keys().map(|name| &**name)
    }
}

impl DomainRules {
    /// What requests call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which of the rules that match apply.
    pub fn apply(&self) -> super::Apply {
        self.apply
    }

    /// The rules as they were written, in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The numbers of the rules that apply to a descriptor, in ascending order.
    pub fn matching(&self, descriptor: &Descriptor<'_>, matches: &mut Matches) {
        match &self.lookup {
            Finder::Index(index) => index.matching(&self.rules, descriptor, self.apply, matches),
            Finder::Levels(levels) => matches.extend(levels.find(descriptor)),
        }
    }

    /// What the counters of each rule are known by.
    fn identities(&self) -> HashMap<Box<str>, Box<str>> {
        let rules = self.rules.iter().zip(&self.compiled);
        rules.map(|(rule, gates)| (rule.name.clone(), gates.identity.clone())).collect()
    }

    pub(super) fn gates_of(&self, rule: u32) -> &RuleGates {
        &self.compiled[rule as usize]
    }

    fn compile(
        domain: Domain,
        old: Option<&Self>,
        now: Timestamp,
        mut signal: impl FnMut(&str) -> Signal,
    ) -> Result<Self, RulesetError> {
        let Domain { name, apply, pools, rules, lookup } = domain;
        let names = numbered(&rules)?;
        let named: Vec<_> =
            rules.iter().map(|rule| Named { own: rule.name.clone(), was: rule.was.clone() }).collect();
        let identities = identity::assign(&named, &old.map(Self::identities).unwrap_or_default());
        let known: HashMap<&str, &RuleGates> =
            old.iter().flat_map(|old| &old.compiled).map(|rule| (&*rule.identity, rule)).collect();
        let mut compiler = Compiler { domain: &name, pools: &pools, names: &names, signal: &mut signal };
        let mut compiled = Vec::with_capacity(rules.len());
        for (rule, identity) in rules.iter().zip(identities) {
            let old = known.get(&*identity).copied();
            let mut rule = compiler.rule(rule, identity, old)?;
            if let Some(old) = old {
                rule.succeed(old, now);
            }
            compiled.push(rule);
        }
        let pools = pools.iter().map(|pool| {
            let mut lineage = pool_lineage(&name, pool);
            let mut olds = old.iter().flat_map(|old| &old.pools);
            if let Some((_, old)) = olds.find(|(name, _)| *name == pool.name) {
                lineage.succeed(old, now);
            }
            (pool.name.clone(), lineage)
        });
        let pools = pools.collect();
        let lookup = match lookup {
            Lookup::Conditions => Finder::Index(Box::new(Index::new(&rules))),
            Lookup::Levels => Finder::Levels(Levels::new(&rules)),
        };
        Ok(Self { apply, lookup, compiled, pools, name, rules })
    }
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
    fn succeed(&mut self, old: &Self, now: Timestamp) {
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
struct Compiler<'a> {
    domain: &'a str,
    pools: &'a [Pool],
    names: &'a HashMap<&'a str, u32>,
    signal: &'a mut dyn FnMut(&str) -> Signal,
}

impl Compiler<'_> {
    fn rule(
        &mut self,
        rule: &Rule,
        identity: Box<str>,
        old: Option<&RuleGates>,
    ) -> Result<RuleGates, RulesetError> {
        let gates = match &rule.limits {
            Limits::Same(limits) => Gates::Same(self.gates(&identity, limits, old_gates(old, None))?),
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
                        let gates = self.gates(&identity, limits, old_gates(old, Some(&plan)))?;
                        Ok((plan, gates))
                    })
                    .collect::<Result<_, RulesetError>>()?,
                default: self.gates(&identity, default, old_gates(old, None))?,
            },
        };
        let candidate = rule.candidate.as_ref().map(|limit| {
            let known_by = limit.identity(0);
            let identity =
                Identity { domain: self.domain, rule: &identity, part: "candidate", limit: known_by };
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

    fn gates(&mut self, rule: &str, limits: &[RuleLimit], old: &[Gate]) -> Result<Vec<Gate>, RulesetError> {
        let named: Vec<_> = limits.iter().enumerate().map(|(place, limit)| limit.named(place)).collect();
        let held = old.iter().map(|old| (old.id.clone(), old.known_by.clone())).collect();
        let identities = identity::assign(&named, &held);
        let gate = |((place, limit), known_by)| {
            let identity = Identity { domain: self.domain, rule, part: "", limit: known_by };
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

/// The rules' numbers by name.
fn numbered(rules: &[Rule]) -> Result<HashMap<&str, u32>, RulesetError> {
    let mut names = HashMap::with_capacity(rules.len());
    for (number, rule) in (0..).zip(rules) {
        if names.insert(&*rule.name, number).is_some() {
            return Err(RulesetError::DuplicateRule(rule.name.clone()));
        }
    }
    Ok(names)
}

/// Lets every gate take the place of the one that was known by the same before.
fn succeed(gates: &mut [Gate], old: &[Gate], now: Timestamp) {
    for gate in gates {
        if let Some(old) = old.iter().find(|old| old.known_by == gate.known_by) {
            gate.succeed(old, now);
        }
    }
}

fn pool_lineage(domain: &str, pool: &Pool) -> Lineage {
    let known_by = [domain, "", &pool.name, "pool"].join("\u{1f}");
    Lineage::new(Counter::known_as(&known_by, &LimitId::Place(0), pool.limit.clone()))
}

impl fmt::Display for RulesetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateDomain(name) => write!(f, "there are two domains `{name}` (hint: make them one)"),
            Self::DuplicateRule(name) => {
                write!(f, "there are two rules `{name}` (hint: give one another name)")
            }
            Self::Unknown(name) => write!(f, "there is no `{name}` (hint: add it to the domain)"),
        }
    }
}

impl std::error::Error for RulesetError {}
