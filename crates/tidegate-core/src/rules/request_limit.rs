//! Limits that requests carry themselves. A descriptor with its own limit is counted by that limit and by no rule.
//!
//! Such a descriptor needs a known domain, but no rule. Its counter is a fixed window, aligned to the epoch, for the
//! domain and all entries of the descriptor in order. If the descriptor tree has a limit for the same entries with the
//! same window, both share its counter, as in envoyproxy/ratelimit. In answers it is the limit of the rule
//! [`REQUEST_LIMIT_RULE`], which is in no file.

use std::sync::LazyLock;

use super::compiled_limit::{CompiledLimit, CounterIdentity, ResolvedElastic};
use super::key_bytes::{self, KeyBuffer};
use super::matched::{LimitRef, MatchedKey, MatchedLimit, RequestLimitKind};
use super::{
    Action, CompiledDomain, CostSource, Descriptor, KeyPart, KeySpec, MatchedLimits, OnMissingKey, Rule,
    RuleLimit, RuleLimits,
};
use crate::algorithm::{Edges, PackedAlgorithm};
use crate::{Algorithm, AlgorithmName, KeyForm, LimitId, LimitSpec, StorePolicy};

/// The name in answers of the rule for limits that requests carry.
pub const REQUEST_LIMIT_RULE: &str = "override";
/// Part of the hashed identity of these counters. Another value would orphan their keys in Redis and in snapshots.
const IDENTITY_PART: &str = "override";

/// A limit that a request carries. With zero units, every request with a cost is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestLimit {
    /// L.
    pub units: u32,
    /// W.
    pub per: TimeUnit,
}

/// The window of a limit that a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// A second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl TimeUnit {
    /// All of them, shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// Its name in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// Its length in nanoseconds.
    pub const fn nanos(self) -> u64 {
        const SECOND_NS: u64 = 1_000_000_000;
        const DAY_NS: u64 = 86_400 * SECOND_NS;
        match self {
            Self::Second => SECOND_NS,
            Self::Minute => 60 * SECOND_NS,
            Self::Hour => 3_600 * SECOND_NS,
            Self::Day => DAY_NS,
            Self::Week => 7 * DAY_NS,
            Self::Month => 30 * DAY_NS,
            Self::Year => 365 * DAY_NS,
        }
    }
}

/// The rule and limit for one unit of time. L comes from the request.
#[derive(Debug)]
pub(super) struct RequestLimitRule {
    pub rule: Rule,
    pub limit: CompiledLimit,
}

impl RequestLimitRule {
    /// The rule and limit of this kind.
    pub fn of(kind: RequestLimitKind) -> &'static Self {
        &REQUEST_LIMIT_RULES[usize::from(kind.is_shadow)][kind.unit as usize]
    }

    fn new(unit: TimeUnit, is_shadow: bool) -> Self {
        let spec = LimitSpec {
            algorithm: Some(AlgorithmName::FixedWindow),
            name: Some(unit.as_str().to_owned()),
            ..LimitSpec::new(0, unit.nanos())
        };
        let limit = RuleLimit {
            limit: spec.build().expect("every unit is a window"),
            was: None,
            key: KeySpec::default(),
            missing: OnMissingKey::Shared,
            cost: CostSource::Request,
            action: Action::Reject,
        };
        // Its keys are whole descriptors, which may contain secrets.
        let identity = CounterIdentity {
            domain: "",
            rule: "",
            part: IDENTITY_PART,
            limit: LimitId::from_limit(&limit.limit, 0),
            key_form: KeyForm::Secret,
        };
        let policy = StorePolicy::DEFAULT;
        let compiled = match is_shadow {
            true => CompiledLimit::shadow(&limit, 0, identity, policy),
            false => CompiledLimit::new(limit.clone(), 0, identity, policy, ResolvedElastic::default()),
        };
        let rule = Rule {
            name: REQUEST_LIMIT_RULE.into(),
            limits: RuleLimits::Same(vec![limit]),
            ..Rule::default()
        };
        Self { rule, limit: compiled }
    }
}

impl MatchedLimits {
    /// Adds the limit that a descriptor carries.
    #[cold]
    pub(super) fn match_request_limit(
        &mut self,
        domain: &CompiledDomain,
        descriptor_index: u32,
        descriptor: &Descriptor<'_>,
        limit: RequestLimit,
    ) {
        let kind = RequestLimitKind { unit: limit.per, is_shadow: domain.is_shadow() };
        let (key, counter) = match limit_in_tree(domain, descriptor, limit.per) {
            Some(configured) => {
                let (range, _) = key_bytes::write_key(&configured.limit.key, descriptor, &mut self.keys);
                (range, configured.main.current.clone())
            }
            None => {
                let start = self.keys.len();
                write_request_limit_key(domain.name(), descriptor, &mut self.keys);
                let counter = RequestLimitRule::of(kind).limit.main.current.clone();
                (start..self.keys.len(), counter.counting_denied(domain.count_denied))
            }
        };
        let resized = self.resize(&counter, limit.units.into());
        self.limits.push(MatchedLimit {
            limit: LimitRef::Request(kind),
            descriptor: descriptor_index,
            cost: descriptor.cost,
            key: MatchedKey::at(key),
            resized: Some(resized),
            granted_outcome: None,
        });
    }
}

/// The limit that the descriptor tree has for these entries, if it counts the same: per unit, and for each combination
/// of values.
fn limit_in_tree<'d>(
    domain: &'d CompiledDomain,
    descriptor: &Descriptor<'_>,
    unit: TimeUnit,
) -> Option<&'d CompiledLimit> {
    let rule = domain.compiled(domain.rule_in_tree(descriptor)?);
    let position = rule.positions_for(descriptor).next()?;
    let limit = rule.limit(position);
    let is_per_unit = match limit.main.current.algorithm() {
        Algorithm::Packed(PackedAlgorithm::FixedWindow(window)) => {
            *window.edges() == Edges::Epoch && window.rate().window_ns() == unit.nanos()
        }
        _ => false,
    };
    // Entries that share a counter are not in its key.
    let has_entry = |index: usize| limit.limit.key.parts().contains(&KeyPart::Entry(index));
    (is_per_unit && (0..descriptor.entries.len()).all(has_entry)).then_some(limit)
}

/// Appends the key of such a descriptor to `buffer`.
pub(super) fn write_request_limit_key(domain: &str, descriptor: &Descriptor<'_>, buffer: &mut KeyBuffer) {
    key_bytes::write_verbatim(domain, buffer);
    for entry in descriptor.entries {
        key_bytes::write_verbatim(entry.key, buffer);
        key_bytes::write_verbatim(entry.value, buffer);
    }
}

/// Enforced rules, then those of a dry run.
static REQUEST_LIMIT_RULES: LazyLock<[[RequestLimitRule; TimeUnit::ALL.len()]; 2]> = LazyLock::new(|| {
    [false, true].map(|is_shadow| TimeUnit::ALL.map(|unit| RequestLimitRule::new(unit, is_shadow)))
});
