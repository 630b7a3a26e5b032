//! Compiled rules: they determine which limits a request falls under.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::compiled_limit::CompiledLimit;
use super::compiled_limit::CounterVersions;
use super::compiled_rule::{CompiledRule, RuleCompiler};
use super::name_history::{self, NameHistory};
use super::overridden_limits::OverriddenLimits;
use super::{
    Apply, Descriptor, DescriptorTree, Domain, Lookup, NamedAttributes, Pool, Rule, RuleIndex, RuleMatches,
    Signal,
};
use crate::algorithm::CountDenied;
use crate::{Counter, Limit, LimitId, PLAN_CHARGES_MAX, Timestamp};

/// All domains, compiled.
#[derive(Debug, Default)]
pub struct Ruleset {
    domains: Vec<CompiledDomain>,
    /// The positions of the domains, ordered by name. There are few domains, so comparing is cheaper than hashing.
    by_name: Vec<u32>,
    signals: HashMap<Box<str>, Signal>,
    /// The most charges of a request, without superseded counters. Zero means [`PLAN_CHARGES_MAX`].
    charges_max: AtomicUsize,
    /// Limits with the values of overrides.
    pub(super) overridden: OverriddenLimits,
}

/// The rules of a domain, compiled.
#[derive(Debug)]
pub struct CompiledDomain {
    name: Box<str>,
    apply: Apply,
    lookup: RuleFinder,
    /// The rules as written, in order.
    rules: Vec<Rule>,
    compiled: Vec<CompiledRule>,
    pools: Vec<(Box<str>, CounterVersions)>,
    /// Which denied requests the limits that requests carry count.
    pub(super) count_denied: CountDenied,
    is_shadow: bool,
    named_attributes: NamedAttributes,
}

#[derive(Debug)]
enum RuleFinder {
    // Boxed because it is much larger than the other variant.
    Index(Box<RuleIndex>),
    DescriptorTree(DescriptorTree),
}

/// Rules that contradict each other. The reader of rule files checks this first, with better messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RulesetError {
    /// Two domains have the same name.
    DuplicateDomain(Box<str>),
    /// Two rules of a domain have the same name.
    DuplicateRule(Box<str>),
    /// A rule names a pool, or a rule to replace, that its domain does not have.
    UnknownName(Box<str>),
}

impl Ruleset {
    /// Compiles domains.
    pub fn compile(domains: Vec<Domain>) -> Result<Self, RulesetError> {
        Self::compile_replacing(&Self::default(), domains, Timestamp::from_nanos(0))
    }

    /// Compiles domains that replace `old` at `now`. Counters keep their identities. A limit whose state format changed
    /// keeps its old counter beside it for a while, as far as a plan has room. Signals keep their levels.
    pub fn compile_replacing(old: &Self, domains: Vec<Domain>, now: Timestamp) -> Result<Self, RulesetError> {
        let mut new = Self::default();
        new.set_charges_max(old.charges_max.load(Ordering::Relaxed));
        for domain in domains {
            let predecessor = old.domain(&domain.name);
            let name = domain.name.clone();
            let compiled = CompiledDomain::compile(domain, predecessor, now, |signal| {
                let existing = new.signals.get(signal).or_else(|| old.signals.get(signal)).cloned();
                new.signals.entry(signal.into()).or_insert_with(|| existing.unwrap_or_default()).clone()
            })?;
            let Err(index) = new.search(&name) else { return Err(RulesetError::DuplicateDomain(name)) };
            new.by_name.insert(index, u32::try_from(new.domains.len()).unwrap_or(u32::MAX));
            new.domains.push(compiled);
        }
        Ok(new)
    }

    /// Sets the most charges of a request, up to [`PLAN_CHARGES_MAX`]. Rules that replace these keep it.
    pub fn set_charges_max(&self, charges_max: usize) {
        self.charges_max.store(charges_max, Ordering::Relaxed);
    }

    /// Whether a request may have this many charges.
    #[inline]
    pub(super) fn allows_charges(&self, charges: usize) -> bool {
        let charges_max = self.charges_max.load(Ordering::Relaxed);
        charges <= if charges_max == 0 { PLAN_CHARGES_MAX } else { charges_max }
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

    /// The index in `by_name` of the domain's position, or where to insert it.
    fn search(&self, domain: &str) -> Result<usize, usize> {
        self.by_name.binary_search_by(|position| (*self.domain_at(*position).name).cmp(domain))
    }

    /// The domain at a position.
    #[inline]
    pub(super) fn domain_at(&self, position: u32) -> &CompiledDomain {
        &self.domains[position as usize]
    }

    /// The signal with this name, if a rule uses it.
    pub fn signal(&self, name: &str) -> Option<&Signal> {
        self.signals.get(name)
    }

    /// The names of all signals that rules use, in no particular order.
    pub fn signals(&self) -> impl Iterator<Item = &str> {
        self.signals.keys().map(|name| &**name)
    }
}

impl CompiledDomain {
    /// The name that requests use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which of the rules that match apply.
    pub fn apply(&self) -> Apply {
        self.apply
    }

    /// The attributes that its rules name.
    pub fn named_attributes(&self) -> &NamedAttributes {
        &self.named_attributes
    }

    /// The rules as written, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Each limit of its rules, with its rule.
    pub fn limits(&self) -> impl Iterator<Item = (&Rule, &CompiledLimit)> {
        let rules = self.rules.iter().zip(&self.compiled);
        rules.flat_map(|(rule, compiled)| compiled.limits.iter().map(move |limit| (rule, limit)))
    }

    /// Replaces the content of `matches` with the indices of the rules that apply to a descriptor, in ascending order.
    pub fn matching_rules(&self, descriptor: &Descriptor<'_>, matches: &mut RuleMatches) {
        match &self.lookup {
            RuleFinder::Index(index) => index.matching_rules(&self.rules, descriptor, self.apply, matches),
            RuleFinder::DescriptorTree(tree) => {
                matches.clear();
                matches.extend(tree.find(descriptor));
            }
        }
    }

    /// The limits that elastic limits share, by name.
    pub fn pools(&self) -> impl Iterator<Item = (&str, &Limit)> {
        self.pools.iter().map(|(name, counters)| (&**name, counters.current.limit()))
    }

    /// Whether all its rules are a dry run.
    pub fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// The rule that the descriptor tree finds. `None` if there is none, or if rules are found by their conditions.
    pub(super) fn rule_in_tree(&self, descriptor: &Descriptor<'_>) -> Option<u32> {
        match &self.lookup {
            RuleFinder::Index(_) => None,
            RuleFinder::DescriptorTree(tree) => tree.find(descriptor),
        }
    }

    /// Whether rules are found level by level.
    pub(super) fn has_tree(&self) -> bool {
        matches!(self.lookup, RuleFinder::DescriptorTree(_))
    }

    /// The identity of each rule, by name.
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
        let Domain { name, apply, pools, rules, lookup, count_denied, is_shadow } = domain;
        let names = rule_indices_by_name(&rules)?;
        let histories: Vec<_> = rules
            .iter()
            .map(|rule| NameHistory { current: rule.name.clone(), former: rule.was.clone() })
            .collect();
        let identities =
            name_history::assign_identities(&histories, &old.map(Self::identities).unwrap_or_default());
        let old_rules: HashMap<&str, &CompiledRule> =
            old.iter().flat_map(|old| &old.compiled).map(|rule| (&*rule.identity, rule)).collect();
        let mut compiler =
            RuleCompiler { domain: &name, pools: &pools, names: &names, signal: &mut signal, is_shadow };
        let mut compiled = Vec::with_capacity(rules.len());
        for (rule, identity) in rules.iter().zip(identities) {
            let old = old_rules.get(&*identity).copied();
            let mut rule = compiler.compile_rule(rule, identity, old)?;
            if let Some(old) = old {
                rule.supersede(old, now);
            }
            compiled.push(rule);
        }
        let pools = pools.iter().map(|pool| {
            let mut versions = pool_counter(&name, pool);
            let mut old_pools = old.iter().flat_map(|old| &old.pools);
            if let Some((_, old)) = old_pools.find(|(name, _)| *name == pool.name) {
                versions.supersede(old, now);
            }
            (pool.name.clone(), versions)
        });
        let pools = pools.collect();
        let lookup = match lookup {
            Lookup::Conditions => RuleFinder::Index(Box::new(RuleIndex::new(&rules))),
            Lookup::DescriptorTree => RuleFinder::DescriptorTree(DescriptorTree::new(&rules)),
        };
        let named_attributes = NamedAttributes::new(&rules);
        Ok(Self { apply, lookup, compiled, pools, name, rules, count_denied, is_shadow, named_attributes })
    }
}

/// The indices of the rules, by name.
fn rule_indices_by_name(rules: &[Rule]) -> Result<HashMap<&str, u32>, RulesetError> {
    let mut names = HashMap::with_capacity(rules.len());
    for (index, rule) in (0..).zip(rules) {
        if names.insert(&*rule.name, index).is_some() {
            return Err(RulesetError::DuplicateRule(rule.name.clone()));
        }
    }
    Ok(names)
}

fn pool_counter(domain: &str, pool: &Pool) -> CounterVersions {
    let counter_name = [domain, "", &pool.name, "pool"].join("\u{1f}");
    CounterVersions::new(Counter::with_id(&counter_name, &LimitId::Position(0), pool.limit.clone()))
}

impl fmt::Display for RulesetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateDomain(name) => write!(f, "there are two domains `{name}` (hint: merge them)"),
            Self::DuplicateRule(name) => {
                write!(f, "there are two rules `{name}` (hint: rename one of them)")
            }
            Self::UnknownName(name) => write!(f, "there is no `{name}` (hint: add it to the domain)"),
        }
    }
}

impl std::error::Error for RulesetError {}
