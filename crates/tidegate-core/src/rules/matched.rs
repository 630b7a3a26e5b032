//! The limits that a request falls under: those of all rules that apply to it, each with a key and a cost.
//!
//! Nothing here borrows from the rules: a limit is referred to by its position in them. So a request whose store answers
//! later can wait without keeping a borrow of the rules, and finds its limits again in the same [`Ruleset`].

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::compiled_limit::CompiledLimit;
use super::key_bytes::{self, KeyCompleteness, KeyBuffer};
use super::request_limit::RequestLimitRule;
use super::{
    Action, CostSource, Descriptor, CompiledDomain, RuleMatches, OnMissingKey, Request, Rule, RuleLimit, Ruleset, TimeUnit,
};
use crate::{Counter, Outcome, Role};

/// The limits that a request falls under.
#[derive(Clone, Debug)]
pub struct MatchedLimits {
    /// The position of the request's domain, if it has rules.
    pub(super) domain: Option<u32>,
    pub(super) limits: SmallVec<[MatchedLimit; 4]>,
    pub(super) candidates: Vec<MatchedLimit>,
    pub(super) keys: KeyBuffer,
    /// Counters of limits that have another L for this request than the written one.
    pub(super) resized: Vec<Counter>,
    may_wait: bool,
    /// Whether a limit has a pool to borrow from.
    pub(super) has_pool: bool,
    /// Whether the request lacks a part of a key.
    pub(super) has_missing_key: bool,
}

/// One limit that a request falls under. Small, because a request has room for a few of them without an allocation.
#[derive(Clone, Debug)]
pub struct MatchedLimit {
    /// Which limit.
    pub limit: LimitRef,
    /// Which descriptor of the request falls under it, from 0.
    pub descriptor: u32,
    /// The units.
    pub cost: u64,
    pub(super) key: MatchedKey,
    /// L, if it is not the written one.
    pub(super) resized: Option<ResizedLimit>,
    /// The outcome of the part that is always granted, if the request borrows from the pool.
    ///
    /// Boxed, because few requests borrow, and all matched limits are moved.
    pub(super) granted_outcome: Option<Box<Outcome>>,
}

/// Refers to a limit.
#[derive(Clone, Debug)]
pub enum LimitRef {
    /// A limit of a rule, by its position.
    Rule(LimitPosition),
    /// The request's own limit.
    Request(TimeUnit),
    /// A limit that takes the place of a rule's limit for this request. Boxed, because few limits do.
    Override(Box<LimitOverride>),
}

/// A limit that takes the place of a rule's limit.
#[derive(Clone, Debug)]
pub struct LimitOverride {
    /// Which limit it takes the place of.
    pub position: LimitPosition,
    /// The limit.
    pub limit: Arc<CompiledLimit>,
}

/// The position of a limit in a [`Ruleset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimitPosition {
    pub(super) domain: u32,
    pub(super) rule: u32,
    pub(super) limit: u32,
}

/// An L that is not the written one.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResizedLimit {
    /// L.
    pub units: u64,
    /// The position of its counter among those that are resized.
    pub index: u32,
}

/// Which of a limit's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MatchedKey {
    /// These bytes of the key buffer.
    At(Range<u32>),
    /// The descriptor lacks a part of the key, and is denied for it.
    Missing,
}

/// A limit with its rule.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedLimit<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// The limit, compiled.
    pub limit: &'a CompiledLimit,
}

impl Ruleset {
    /// The limits that a request falls under. A domain without rules has no limits but requests' own.
    pub fn matched_limits(&self, request: &Request<'_>) -> MatchedLimits {
        let mut matched = MatchedLimits::new();
        matched.match_request(self, request);
        matched
    }

    /// The limit that is referred to. The reference must come from this ruleset.
    #[inline]
    pub fn resolve<'a>(&'a self, limit: &'a LimitRef) -> ResolvedLimit<'a> {
        match limit {
            LimitRef::Rule(position) => {
                let domain = self.domain_at(position.domain);
                ResolvedLimit {
                    rule: &domain.rules()[position.rule as usize],
                    limit: domain.compiled(position.rule).limit(position.limit),
                }
            }
            LimitRef::Request(unit) => {
                let RequestLimitRule { rule, limit } = RequestLimitRule::for_unit(*unit);
                ResolvedLimit { rule, limit }
            }
            LimitRef::Override(owned) => {
                let LimitOverride { position, limit } = &**owned;
                ResolvedLimit { rule: &self.domain_at(position.domain).rules()[position.rule as usize], limit }
            }
        }
    }
}

impl MatchedLimits {
    /// No limits.
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            domain: None,
            limits: SmallVec::new(),
            candidates: Vec::new(),
            keys: KeyBuffer::new(),
            resized: Vec::new(),
            may_wait: false,
            has_pool: false,
            has_missing_key: false,
        }
    }

    /// Adds the limits that a request falls under.
    pub(super) fn match_request(&mut self, rules: &Ruleset, request: &Request<'_>) {
        self.domain = rules.domain_position(request.domain);
        if let Some(domain) = self.domain {
            self.match_rules(rules, domain, request);
        }
        for (number, descriptor) in (0..).zip(request.descriptors) {
            if let Some(limit) = descriptor.limit {
                self.match_request_limit(request.domain, number, descriptor, limit);
            }
        }
    }

    /// The limits.
    #[inline]
    pub fn all(&self) -> &[MatchedLimit] {
        &self.limits
    }

    /// The limits that are only tried out.
    pub fn candidates(&self) -> &[MatchedLimit] {
        &self.candidates
    }

    /// Puts another limit in place of one of a rule, for this request.
    pub fn override_limit(&mut self, index: usize, limit: Arc<CompiledLimit>) {
        let Some(matched) = self.limits.get_mut(index) else { return };
        let position = match &matched.limit {
            LimitRef::Rule(position) => *position,
            LimitRef::Override(owned) => owned.position,
            LimitRef::Request(_) => return,
        };
        self.has_pool |= limit.pool.is_some();
        matched.limit = LimitRef::Override(Box::new(LimitOverride { position, limit }));
        matched.resized = None;
    }

    /// Whether a limit with the action `delay` may hold the request.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.may_wait
    }

    /// Lets limits borrow from their pools, after which the store is to be asked again.
    pub(super) fn borrow_from_pools(&mut self, borrowing: &[(u32, Outcome)]) {
        for (index, granted) in borrowing {
            self.limits[*index as usize].granted_outcome = Some(Box::new(*granted));
        }
    }

    /// Lets no limit borrow, as before the store was asked.
    pub(super) fn clear_borrowing(&mut self) {
        self.limits.iter_mut().for_each(|matched| matched.granted_outcome = None);
    }

    pub(super) fn key(&self, matched: &MatchedLimit) -> Option<&[u8]> {
        match &matched.key {
            MatchedKey::At(range) => Some(&self.keys[range.start as usize..range.end as usize]),
            MatchedKey::Missing => None,
        }
    }

    pub(super) fn resize(&mut self, limit: &CompiledLimit, units: u64) -> ResizedLimit {
        let index = as_u32(self.resized.len());
        self.resized.push(limit.main.current.resized(units));
        ResizedLimit { units, index }
    }

    /// Adds the limits of all rules that apply to the descriptors which have no limit of their own.
    fn match_rules(&mut self, rules: &Ruleset, position: u32, request: &Request<'_>) {
        let domain = rules.domain_at(position);
        let mut applying: SmallVec<[(u32, u32); 8]> = SmallVec::new();
        let mut matches = RuleMatches::new();
        for (number, descriptor) in (0..).zip(request.descriptors) {
            if descriptor.limit.is_none() {
                domain.matching_rules(descriptor, &mut matches);
                applying.extend(matches.drain().map(|rule| (number, rule)));
            }
        }
        let replaces = |other: u32, rule: u32| domain.compiled(other).replaces.binary_search(&rule).is_ok();
        for (number, rule) in &applying {
            if !applying.iter().any(|(_, other)| replaces(*other, *rule)) {
                let descriptor = &request.descriptors[*number as usize];
                self.match_rule(
                    domain,
                    LimitPosition { domain: position, rule: *rule, limit: 0 },
                    *number,
                    descriptor,
                );
            }
        }
    }

    fn match_rule(
        &mut self,
        domain: &CompiledDomain,
        rule: LimitPosition,
        number: u32,
        descriptor: &Descriptor<'_>,
    ) {
        let compiled = domain.compiled(rule.rule);
        for position in compiled.positions_for(descriptor) {
            let at = LimitPosition { limit: position, ..rule };
            let limit = compiled.limit(position);
            if let Some(matched) = self.match_limit(limit, at, number, descriptor) {
                let is_delay = matches!(limit.limit.action, Action::Delay { .. });
                self.may_wait |= is_delay && matched.cost > 0 && matched.has_key();
                self.has_pool |= limit.pool.is_some();
                self.has_missing_key |= !matched.has_key();
                self.limits.push(matched);
            }
        }
        if let Some(position) = compiled.candidate() {
            let at = LimitPosition { limit: position, ..rule };
            let candidate = self.match_limit(compiled.limit(position), at, number, descriptor);
            self.candidates.extend(candidate);
        }
    }

    /// A limit, for a descriptor; none if it does not apply because the descriptor lacks a part of its key.
    #[inline]
    fn match_limit(
        &mut self,
        limit: &CompiledLimit,
        position: LimitPosition,
        descriptor_number: u32,
        descriptor: &Descriptor<'_>,
    ) -> Option<MatchedLimit> {
        let (range, found) = key_bytes::write_key(&limit.limit.key, descriptor, &mut self.keys);
        let key = match (found, limit.limit.missing) {
            (KeyCompleteness::Complete, _) | (KeyCompleteness::Incomplete, OnMissingKey::Shared) => MatchedKey::at(range),
            (KeyCompleteness::Incomplete, OnMissingKey::Deny) => MatchedKey::Missing,
            (KeyCompleteness::Incomplete, OnMissingKey::Skip) => return None,
        };
        let resized = limit.resized_by_signal().map(|units| self.resize(limit, units));
        Some(MatchedLimit {
            limit: LimitRef::Rule(position),
            descriptor: descriptor_number,
            cost: cost(&limit.limit, descriptor),
            key,
            resized,
            granted_outcome: None,
        })
    }
}

impl MatchedKey {
    #[inline]
    pub(super) fn at(range: Range<usize>) -> Self {
        Self::At(as_u32(range.start)..as_u32(range.end))
    }
}

impl MatchedLimit {
    /// Whether the request has all parts of the limit's key.
    pub fn has_key(&self) -> bool {
        !matches!(self.key, MatchedKey::Missing)
    }
}

impl ResolvedLimit<'_> {
    /// Whether the limit can deny a request.
    pub fn is_enforced(&self) -> bool {
        self.limit.limit.is_enforced()
    }

    pub(super) fn role(&self) -> Role {
        if self.is_enforced() { Role::Enforced } else { Role::Observed }
    }
}

/// A position. No request comes near the end of u32: listeners bound what they accept.
#[inline]
fn as_u32(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn cost(limit: &RuleLimit, descriptor: &Descriptor<'_>) -> u64 {
    match (&limit.cost, descriptor.cost) {
        // A request of cost zero asks without charging.
        (_, 0) => 0,
        (CostSource::Request, cost) => cost,
        (CostSource::Fixed(cost), _) => *cost,
        (CostSource::Attribute { attribute, default }, _) => {
            descriptor.value(attribute).and_then(parse_whole_number).unwrap_or(*default)
        }
    }
}

/// A whole number. A number that is too large is the largest one, so that it never costs less.
fn parse_whole_number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}
