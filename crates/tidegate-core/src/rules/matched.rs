//! The limits that a request falls under: those of all rules that apply to it, each with a key and a cost.
//!
//! Nothing here borrows from the rules: a limit is referred to by its position in them. So a request can wait for the
//! store without borrowing the rules, and then finds its limits again in the same [`Ruleset`].

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::compiled_limit::CompiledLimit;
use super::key_bytes::{self, KeyBuffer, KeyCompleteness};
use super::overridden_limits::{KeptSlot, OverriddenLimit};
use super::repeated_counters::PeekedCharge;
use super::request_limit::RequestLimitRule;
use super::unknown_domain::UnknownDomainRule;
use super::{
    Action, AppliedOverride, CompiledDomain, CostSource, Descriptor, FoundEntry, KeyPart, LiftedLimit,
    OnMissingKey, OnOverrideMiss, OverrideSource, Request, Rule, RuleLimit, RuleMatches, Ruleset, TimeUnit,
};
use crate::{Counter, Outcome, Role, Timestamp};

/// The limits that a request falls under.
#[derive(Clone, Debug)]
pub struct MatchedLimits {
    /// The position of the request's domain, if it has rules.
    pub(super) domain: Option<u32>,
    pub(super) limits: SmallVec<[MatchedLimit; 4]>,
    pub(super) candidates: Vec<MatchedLimit>,
    pub(super) keys: KeyBuffer,
    /// The indices of the descriptors that a rule without limits of the descriptor tree applies to, in ascending order.
    pub(super) unlimited: Vec<u32>,
    /// Counters of limits whose L for this request is not the written one.
    pub(super) resized: Vec<Counter>,
    /// The limits that do not apply because of overrides.
    pub(super) lifted: Vec<LiftedLimit>,
    /// The overrides of the one limit that is a [`LimitRef::Values`].
    pub(super) plain: Option<FoundEntry>,
    /// What each limit charges to its main counter, if a peek had to show it. Otherwise empty.
    pub(super) peeked: Vec<PeekedCharge>,
    pub(super) may_wait: bool,
    /// Whether a limit has a pool to borrow from.
    pub(super) has_pool: bool,
    /// Whether the request lacks a part of a key.
    pub(super) has_missing_key: bool,
}

/// One limit that a request falls under. It is small, so that a request has room for a few of them without allocating.
#[derive(Clone, Debug)]
pub struct MatchedLimit {
    /// Which limit.
    pub limit: LimitRef,
    /// The index of the descriptor that falls under it, from 0.
    pub descriptor: u32,
    /// The units to charge.
    pub cost: u64,
    pub(super) key: MatchedKey,
    /// The current L, if it is not the written one.
    pub(super) resized: Option<ResizedLimit>,
    /// If the request borrows from the pool: the outcome of the part that is always granted.
    ///
    /// Boxed, because few requests borrow and all matched limits are moved.
    pub(super) granted_outcome: Option<Box<Outcome>>,
}

/// A reference to a limit.
#[derive(Clone, Debug)]
pub enum LimitRef {
    /// A limit of a rule, by its position.
    Rule(LimitPosition),
    /// The limit that the request has itself.
    Request(RequestLimitKind),
    /// The limit that denies requests of unknown domains.
    UnknownDomain,
    /// A limit that replaces a rule's limit for this request. Shared with the answer.
    Override(Arc<LimitOverride>),
    /// A rule's limit with the values of the overrides of its key, which set nothing else. At most one limit of a request is
    /// such.
    Values(OverriddenValues),
}

/// A limit that a request has itself, without its L.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimitKind {
    /// W.
    pub unit: TimeUnit,
    /// Whether the rules of its domain are a dry run.
    pub is_shadow: bool,
}

/// A limit that replaces a rule's limit.
#[derive(Clone, Debug)]
pub struct LimitOverride {
    /// The limit that it replaces.
    pub position: LimitPosition,
    /// The limit.
    pub(super) limit: OverriddenLimit,
    /// The override that it comes from. `None` if the override has ended, and only its old window is still enforced.
    pub applied: Option<AppliedOverride>,
    /// If the key is blocked: until when, if the block ends.
    pub blocked_until: Option<Timestamp>,
}

/// A limit with other values, which is kept with the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverriddenValues {
    /// The limit that it replaces.
    pub position: LimitPosition,
    pub(super) kept: KeptSlot,
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
    /// The index of the resized counter.
    pub index: u32,
}

/// The key to charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MatchedKey {
    /// These bytes of the key buffer.
    At(Range<u32>),
    /// These bytes of the key buffer. The descriptor lacks a part of the key, so they are the same for all requests
    /// that lack it.
    Shared(Range<u32>),
    /// The descriptor lacks a part of the key and is denied for that.
    Missing,
    /// The key is blocked by an override. No counter is asked.
    Blocked,
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
    /// The limits that a request falls under. In a domain without rules there are none.
    pub fn matched_limits(&self, request: &Request<'_>) -> MatchedLimits {
        let mut matched = MatchedLimits::new();
        matched.match_request(self, request);
        matched
    }

    /// The limits of one rule for a key, whatever the conditions of the rule: one list for each plan of the rule.
    /// `value` returns the value of each part of the key. `None` if there is no such rule.
    pub fn limits_of_key<'v>(
        &self,
        domain: &str,
        rule: &str,
        value: impl Fn(&KeyPart) -> Option<&'v str>,
    ) -> Option<Vec<MatchedLimits>> {
        let domain_position = self.domain_position(domain)?;
        let domain = self.domain_at(domain_position);
        let rule_position = as_u32(domain.rules().iter().position(|other| *other.name == *rule)?);
        let compiled = domain.compiled(rule_position);
        let plans = compiled.all_positions().into_iter().map(|positions| {
            let mut matched = MatchedLimits { domain: Some(domain_position), ..MatchedLimits::new() };
            for limit in positions {
                let position = LimitPosition { domain: domain_position, rule: rule_position, limit };
                let key = &compiled.limit(limit).limit.key;
                let (range, _) = key_bytes::write_key_of(key, &value, &mut matched.keys);
                matched.limits.push(MatchedLimit {
                    limit: LimitRef::Rule(position),
                    descriptor: 0,
                    cost: 0,
                    key: MatchedKey::at(range),
                    resized: None,
                    granted_outcome: None,
                });
            }
            matched
        });
        Some(plans.collect())
    }

    /// Resolves a reference, which must come from this ruleset.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "measured: most callers need one or two of the fields")]
    pub fn resolve<'a>(&'a self, limit: &'a LimitRef) -> ResolvedLimit<'a> {
        match limit {
            LimitRef::Rule(position) => self.resolve_position(*position),
            LimitRef::Values(OverriddenValues { position, kept }) => {
                ResolvedLimit { rule: self.rule_at(*position), limit: self.overridden.resolve_kept(*kept) }
            }
            _ => self.resolve_uncommon(limit),
        }
    }

    /// The limit at a position, with its rule.
    #[inline]
    pub fn resolve_position(&self, position: LimitPosition) -> ResolvedLimit<'_> {
        let domain = self.domain_at(position.domain);
        ResolvedLimit {
            rule: &domain.rules()[position.rule as usize],
            limit: domain.compiled(position.rule).limit(position.limit),
        }
    }

    /// The limit at a position.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "measured: a decision asks several times for the same limit")]
    pub fn limit_at(&self, position: LimitPosition) -> &CompiledLimit {
        self.domain_at(position.domain).compiled(position.rule).limit(position.limit)
    }

    #[inline]
    fn rule_at(&self, position: LimitPosition) -> &Rule {
        &self.domain_at(position.domain).rules()[position.rule as usize]
    }

    /// Separate, so that the common case is inlined.
    #[inline(never)]
    fn resolve_uncommon<'a>(&'a self, limit: &'a LimitRef) -> ResolvedLimit<'a> {
        match limit {
            LimitRef::Rule(_) | LimitRef::Values(_) => self.resolve(limit),
            LimitRef::Request(kind) => {
                let RequestLimitRule { rule, limit } = RequestLimitRule::of(*kind);
                ResolvedLimit { rule, limit }
            }
            LimitRef::UnknownDomain => {
                let UnknownDomainRule { rule, limit } = UnknownDomainRule::get();
                ResolvedLimit { rule, limit }
            }
            LimitRef::Override(replacement) => {
                let LimitOverride { position, limit, .. } = &**replacement;
                ResolvedLimit { rule: self.rule_at(*position), limit: self.overridden.resolve(limit) }
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
            unlimited: Vec::new(),
            resized: Vec::new(),
            lifted: Vec::new(),
            plain: None,
            peeked: Vec::new(),
            may_wait: false,
            has_pool: false,
            has_missing_key: false,
        }
    }

    /// Adds the limits that a request falls under.
    pub(super) fn match_request(&mut self, rules: &Ruleset, request: &Request<'_>) {
        self.domain = rules.domain_position(request.domain);
        let Some(domain) = self.domain else { return };
        self.match_rules(rules, domain, request);
        let mut has_request_limit = false;
        for (index, descriptor) in (0..).zip(request.descriptors) {
            if let Some(limit) = descriptor.limit {
                self.match_request_limit(rules.domain_at(domain), index, descriptor, limit);
                has_request_limit = true;
            }
        }
        if has_request_limit {
            // Descriptors that have a counter in common are counted in the order of the request.
            self.limits.sort_by_key(|matched| matched.descriptor);
        }
    }

    /// The limits.
    #[inline]
    pub fn all(&self) -> &[MatchedLimit] {
        &self.limits
    }

    /// The candidate limits, which are only tried out.
    pub fn candidates(&self) -> &[MatchedLimit] {
        &self.candidates
    }

    /// Applies overrides, as [`Evaluation::apply_overrides`](super::Evaluation::apply_overrides) does, for an operation that is
    /// not a decision.
    pub fn override_limits<S: OverrideSource>(
        &mut self,
        rules: &Ruleset,
        request: &Request<'_>,
        now: Timestamp,
        source: &S,
    ) {
        self.apply_overrides(rules, request, now, source, OnOverrideMiss::Default);
    }

    /// Applies the overrides of single limits, for a reset of their keys. Limits that overrides lift or block stay as the rule
    /// has them.
    pub fn override_values<S: OverrideSource>(&mut self, rules: &Ruleset, now: Timestamp, source: &S) {
        let by_rules = self.clone();
        self.apply_values(rules, now, source);
        self.add_replaced(&by_rules);
    }

    /// Adds the limits of `by_rules`, the same request without overrides, that overrides lifted, blocked, or replaced by those
    /// of another plan.
    pub fn add_replaced(&mut self, by_rules: &Self) {
        for limit in &by_rules.limits {
            let is_same = |other: &MatchedLimit| {
                other.position() == limit.position()
                    && other.descriptor == limit.descriptor
                    && other.has_key()
            };
            if !self.limits.iter().any(is_same) {
                self.limits.push(limit.clone());
            }
        }
    }

    /// Drops the limits for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&MatchedLimit) -> bool) {
        self.limits.retain(|limit| keep(limit));
        self.has_missing_key = self.limits.iter().any(|limit| !limit.has_key());
    }

    /// Whether a limit with the action `delay` may hold the request.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.may_wait
    }

    /// Lets limits borrow from their pools. The store must then be asked again.
    pub(super) fn borrow_from_pools(&mut self, borrowing: &[(u32, Outcome)]) {
        for (index, granted) in borrowing {
            self.limits[*index as usize].granted_outcome = Some(Box::new(*granted));
        }
        // The peek was about another plan.
        self.peeked.clear();
    }

    /// Lets no limit borrow and forgets what a peek has shown, as before the store was asked.
    pub(super) fn forget_replies(&mut self) {
        self.limits.iter_mut().for_each(|matched| matched.granted_outcome = None);
        self.peeked.clear();
    }

    pub(super) fn key(&self, matched: &MatchedLimit) -> Option<&[u8]> {
        match &matched.key {
            MatchedKey::At(range) | MatchedKey::Shared(range) => {
                Some(&self.keys[range.start as usize..range.end as usize])
            }
            MatchedKey::Missing | MatchedKey::Blocked => None,
        }
    }

    pub(super) fn resize(&mut self, counter: &Counter, units: u64) -> ResizedLimit {
        let index = as_u32(self.resized.len());
        self.resized.push(counter.resized(units));
        ResizedLimit { units, index }
    }

    /// Adds the limits of all rules that apply. A descriptor with its own limit falls under no rule.
    fn match_rules(&mut self, rules: &Ruleset, position: u32, request: &Request<'_>) {
        let domain = rules.domain_at(position);
        let mut matching: SmallVec<[(u32, u32); 8]> = SmallVec::new();
        let mut matches = RuleMatches::new();
        for (index, descriptor) in (0..).zip(request.descriptors) {
            if descriptor.limit.is_none() {
                domain.matching_rules(descriptor, &mut matches);
                // Use a loop: `drain` and `extend` cost more than a search that finds one rule.
                for rule in &matches {
                    matching.push((index, *rule));
                }
            }
        }
        let replaces = |(index, other): &(u32, u32), rule: u32| {
            domain.compiled(*other).replaces(rule, domain.compiled(rule))
                && !domain.rules()[*other as usize].has_unread_value(&request.descriptors[*index as usize])
        };
        // No rule replaces itself, and nearly all requests match one rule.
        let is_alone = matching.len() == 1;
        for (index, rule) in &matching {
            if domain.has_tree() && domain.compiled(*rule).is_unlimited() {
                self.unlimited.push(*index);
            }
            if is_alone || !matching.iter().any(|other| replaces(other, *rule)) {
                let descriptor = &request.descriptors[*index as usize];
                self.match_rule(
                    domain,
                    LimitPosition { domain: position, rule: *rule, limit: 0 },
                    *index,
                    descriptor,
                );
            }
        }
    }

    fn match_rule(
        &mut self,
        domain: &CompiledDomain,
        rule: LimitPosition,
        descriptor_index: u32,
        descriptor: &Descriptor<'_>,
    ) {
        let compiled = domain.compiled(rule.rule);
        let positions = compiled.positions_for(descriptor);
        self.match_limits(domain, rule, positions, descriptor_index, descriptor);
        if let Some(position) = compiled.candidate() {
            let at = LimitPosition { limit: position, ..rule };
            let candidate = self.match_limit(compiled.limit(position), at, descriptor_index, descriptor);
            self.candidates.extend(candidate);
        }
    }

    /// Adds the limits at these positions of a rule. Always inlined, because the other call is for overrides, and rare.
    #[inline(always)]
    pub(super) fn match_limits(
        &mut self,
        domain: &CompiledDomain,
        rule: LimitPosition,
        positions: Range<u32>,
        descriptor_index: u32,
        descriptor: &Descriptor<'_>,
    ) {
        let compiled = domain.compiled(rule.rule);
        for position in positions {
            let at = LimitPosition { limit: position, ..rule };
            let limit = compiled.limit(position);
            if let Some(matched) = self.match_limit(limit, at, descriptor_index, descriptor) {
                let is_delay = matches!(limit.limit.action, Action::Delay { .. });
                self.may_wait |= is_delay && matched.cost > 0 && matched.has_key();
                self.has_pool |= limit.pool.is_some();
                self.has_missing_key |= !matched.has_key();
                self.limits.push(matched);
            }
        }
    }

    /// Matches a limit with a descriptor. `None` if the limit does not apply because the descriptor lacks a part of the
    /// key.
    #[inline]
    fn match_limit(
        &mut self,
        limit: &CompiledLimit,
        position: LimitPosition,
        descriptor_index: u32,
        descriptor: &Descriptor<'_>,
    ) -> Option<MatchedLimit> {
        let (range, completeness) = key_bytes::write_key(&limit.limit.key, descriptor, &mut self.keys);
        let key = match (completeness, limit.limit.missing) {
            (KeyCompleteness::Complete, _) => MatchedKey::at(range),
            (KeyCompleteness::Incomplete, OnMissingKey::Shared) => MatchedKey::shared(range),
            (KeyCompleteness::Incomplete, OnMissingKey::Deny) => MatchedKey::Missing,
            (KeyCompleteness::Incomplete, OnMissingKey::Skip) => return None,
        };
        let resized = limit.resized_by_signal().map(|units| self.resize(&limit.main.current, units));
        Some(MatchedLimit {
            limit: LimitRef::Rule(position),
            descriptor: descriptor_index,
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

    fn shared(range: Range<usize>) -> Self {
        Self::Shared(as_u32(range.start)..as_u32(range.end))
    }
}

impl MatchedLimit {
    /// Whether the request has a key that the limit counts: it has all parts, or shares a counter, and is not blocked.
    pub fn has_key(&self) -> bool {
        !matches!(self.key, MatchedKey::Missing | MatchedKey::Blocked)
    }

    /// The position of the limit in the rules, with an override or without. `None` if no rule has it.
    fn position(&self) -> Option<LimitPosition> {
        match &self.limit {
            LimitRef::Rule(position) => Some(*position),
            LimitRef::Override(replacement) => Some(replacement.position),
            LimitRef::Values(values) => Some(values.position),
            LimitRef::Request(_) | LimitRef::UnknownDomain => None,
        }
    }

    /// Whether the request lacks a part of the limit's key: it is denied for that, or shares a counter with all
    /// requests that lack it.
    pub fn lacks_key_part(&self) -> bool {
        matches!(self.key, MatchedKey::Shared(_) | MatchedKey::Missing)
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

/// A position as `u32`. Listeners bound what they accept, so no request comes near the end of the range.
#[inline]
fn as_u32(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn cost(limit: &RuleLimit, descriptor: &Descriptor<'_>) -> u64 {
    match (&limit.cost, descriptor.cost) {
        // A request with cost zero is never charged.
        (_, 0) => 0,
        (CostSource::Request, cost) => cost,
        (CostSource::Fixed(cost), _) => *cost,
        (CostSource::Attribute { attribute, default }, _) => {
            descriptor.value(attribute).and_then(parse_whole_number).unwrap_or(*default)
        }
    }
}

/// Reads a whole number. A number that is too large becomes the largest one, so that it never costs less.
fn parse_whole_number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}
