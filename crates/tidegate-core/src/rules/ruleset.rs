//! Rules, compiled: what decides which limits a request touches.

use std::collections::HashMap;
use std::fmt;

use super::compiled_limit::CounterVersions;
use super::compiled_rule::{CompiledRule, RuleCompiler};
use super::name_history::{self, NameHistory};
use super::{Apply, Descriptor, Domain, RuleIndex, DescriptorTree, LimitId, Lookup, RuleMatches, Pool, Rule, Signal};
use crate::{Counter, Timestamp};

/// All domains, compiled.
#[derive(Debug, Default)]
pub struct Ruleset {
    domains: Vec<CompiledDomain>,
    /// The positions of the domains, in the order of their names. There are few, and comparing costs less than hashing.
    by_name: Vec<u32>,
    signals: HashMap<Box<str>, Signal>,
}

/// The rules of a domain, compiled.
#[derive(Debug)]
pub struct CompiledDomain {
    name: Box<str>,
    apply: Apply,
    lookup: RuleFinder,
    /// As they were written, in their order.
    rules: Vec<Rule>,
    compiled: Vec<CompiledRule>,
    pools: Vec<(Box<str>, CounterVersions)>,
}

#[derive(Debug)]
enum RuleFinder {
    // Much larger than the other, and there is one for each domain.
    Index(Box<RuleIndex>),
    DescriptorTree(DescriptorTree),
}

/// Rules that do not go together. Files are checked before, with better messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RulesetError {
    /// Two domains have one name.
    DuplicateDomain(Box<str>),
    /// Two rules of a domain have one name.
    DuplicateRule(Box<str>),
    /// A rule names a pool, or a rule to replace, that its domain does not have.
    UnknownName(Box<str>),
}

impl Ruleset {
    /// Compiles domains.
    pub fn compile(domains: Vec<Domain>) -> Result<Self, RulesetError> {
        Self::compile_replacing(&Self::default(), domains, Timestamp::from_nanos(0))
    }

    /// Compiles domains that take the place of `old` at `now`: counters stay what they are known by, limits that count
    /// in another way than before have the old one beside them for a while, and signals stay where they are.
    pub fn compile_replacing(old: &Self, domains: Vec<Domain>, now: Timestamp) -> Result<Self, RulesetError> {
        let mut new = Self::default();
        for domain in domains {
            let predecessor = old.domain(&domain.name);
            let name = domain.name.clone();
            let compiled = CompiledDomain::compile(domain, predecessor, now, |signal| {
                let known = new.signals.get(signal).or_else(|| old.signals.get(signal)).cloned();
                new.signals.entry(signal.into()).or_insert_with(|| known.unwrap_or_default()).clone()
            })?;
            let Err(index) = new.search(&name) else { return Err(RulesetError::DuplicateDomain(name)) };
            new.by_name.insert(index, u32::try_from(new.domains.len()).unwrap_or(u32::MAX));
            new.domains.push(compiled);
        }
        Ok(new)
    }

    /// The rules of a domain.
    pub fn domain(&self, name: &str) -> Option<&CompiledDomain> {
        self.domain_position(name).map(|position| self.domain_at(position))
    }

    /// All domains, in the order they were given.
    pub fn domains(&self) -> impl Iterator<Item = &CompiledDomain> {
        self.domains.iter()
    }

    /// The position of a domain.
    pub(super) fn domain_position(&self, domain: &str) -> Option<u32> {
        self.search(domain).ok().map(|index| self.by_name[index])
    }

    /// Where the position of a domain is in `by_name`, or is to be.
    fn search(&self, domain: &str) -> Result<usize, usize> {
        self.by_name.binary_search_by(|position| (*self.domain_at(*position).name).cmp(domain))
    }

    /// The domain at a position.
    #[inline]
    pub(super) fn domain_at(&self, position: u32) -> &CompiledDomain {
        &self.domains[position as usize]
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

impl CompiledDomain {
    /// What requests call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which of the rules that match apply.
    pub fn apply(&self) -> Apply {
        self.apply
    }

    /// The rules as they were written, in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The numbers of the rules that apply to a descriptor, in ascending order.
    pub fn matching_rules(&self, descriptor: &Descriptor<'_>, matches: &mut RuleMatches) {
        match &self.lookup {
            RuleFinder::Index(index) => index.matching_rules(&self.rules, descriptor, self.apply, matches),
            RuleFinder::DescriptorTree(levels) => matches.extend(levels.find(descriptor)),
        }
    }

    /// What the counters of each rule are known by.
    fn identities(&self) -> HashMap<Box<str>, Box<str>> {
        let rules = self.rules.iter().zip(&self.compiled);
        rules.map(|(rule, compiled)| (rule.name.clone(), compiled.identity.clone())).collect()
    }

    #[inline]
    pub(super) fn compiled(&self, rule: u32) -> &CompiledRule {
        &self.compiled[rule as usize]
    }

    pub(super) fn pool(&self, position: usize) -> &CounterVersions {
        &self.pools[position].1
    }

    fn compile(
        domain: Domain,
        old: Option<&Self>,
        now: Timestamp,
        mut signal: impl FnMut(&str) -> Signal,
    ) -> Result<Self, RulesetError> {
        let Domain { name, apply, pools, rules, lookup } = domain;
        let names = rule_indices_by_name(&rules)?;
        let named: Vec<_> =
            rules.iter().map(|rule| NameHistory { current: rule.name.clone(), former: rule.was.clone() }).collect();
        let identities = name_history::assign_identities(&named, &old.map(Self::identities).unwrap_or_default());
        let known: HashMap<&str, &CompiledRule> =
            old.iter().flat_map(|old| &old.compiled).map(|rule| (&*rule.identity, rule)).collect();
        let mut compiler = RuleCompiler { domain: &name, pools: &pools, names: &names, signal: &mut signal };
        let mut compiled = Vec::with_capacity(rules.len());
        for (rule, identity) in rules.iter().zip(identities) {
            let old = known.get(&*identity).copied();
            let mut rule = compiler.compile_rule(rule, identity, old)?;
            if let Some(old) = old {
                rule.supersede(old, now);
            }
            compiled.push(rule);
        }
        let pools = pools.iter().map(|pool| {
            let mut versions = pool_counter(&name, pool);
            let mut olds = old.iter().flat_map(|old| &old.pools);
            if let Some((_, old)) = olds.find(|(name, _)| *name == pool.name) {
                versions.supersede(old, now);
            }
            (pool.name.clone(), versions)
        });
        let pools = pools.collect();
        let lookup = match lookup {
            Lookup::Conditions => RuleFinder::Index(Box::new(RuleIndex::new(&rules))),
            Lookup::DescriptorTree => RuleFinder::DescriptorTree(DescriptorTree::new(&rules)),
        };
        Ok(Self { apply, lookup, compiled, pools, name, rules })
    }
}

/// The rules' numbers by name.
fn rule_indices_by_name(rules: &[Rule]) -> Result<HashMap<&str, u32>, RulesetError> {
    let mut names = HashMap::with_capacity(rules.len());
    for (number, rule) in (0..).zip(rules) {
        if names.insert(&*rule.name, number).is_some() {
            return Err(RulesetError::DuplicateRule(rule.name.clone()));
        }
    }
    Ok(names)
}

fn pool_counter(domain: &str, pool: &Pool) -> CounterVersions {
    let known_by = [domain, "", &pool.name, "pool"].join("\u{1f}");
    CounterVersions::new(Counter::with_id(&known_by, &LimitId::Position(0), pool.limit.clone()))
}

impl fmt::Display for RulesetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateDomain(name) => write!(f, "there are two domains `{name}` (hint: make them one)"),
            Self::DuplicateRule(name) => {
                write!(f, "there are two rules `{name}` (hint: give one another name)")
            }
            Self::UnknownName(name) => write!(f, "there is no `{name}` (hint: add it to the domain)"),
        }
    }
}

impl std::error::Error for RulesetError {}
