//! Limits that requests carry themselves. A descriptor with its own limit is counted by that limit and by no rule.
//!
//! Such a descriptor needs no rule and no known domain. Its counter is a fixed window, aligned to the epoch, for the
//! domain and all entries of the descriptor in order. In answers it is the limit of the rule [`REQUEST_LIMIT_RULE`],
//! which is in no file.

use std::sync::LazyLock;

use super::compiled_limit::{CompiledLimit, CounterIdentity, ResolvedElastic};
use super::key_bytes::{self, KeyBuffer};
use super::matched::{LimitRef, MatchedKey, MatchedLimit};
use super::{
    Action, CostSource, Descriptor, KeySpec, MatchedLimits, OnMissingKey, Rule, RuleLimit, RuleLimits,
};
use crate::{AlgorithmName, KeyForm, LimitId, LimitSpec, StorePolicy};

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
    /// The rule and limit for this unit.
    pub fn for_unit(unit: TimeUnit) -> &'static Self {
        &REQUEST_LIMIT_RULES[unit as usize]
    }

    fn new(unit: TimeUnit) -> Self {
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
        let compiled =
            CompiledLimit::new(limit.clone(), 0, identity, StorePolicy::DEFAULT, ResolvedElastic::default());
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
        domain: &str,
        descriptor_index: u32,
        descriptor: &Descriptor<'_>,
        limit: RequestLimit,
    ) {
        let start = self.keys.len();
        write_request_limit_key(domain, descriptor, &mut self.keys);
        let resized = self.resize(&RequestLimitRule::for_unit(limit.per).limit, limit.units.into());
        self.limits.push(MatchedLimit {
            limit: LimitRef::Request(limit.per),
            descriptor: descriptor_index,
            cost: descriptor.cost,
            key: MatchedKey::at(start..self.keys.len()),
            resized: Some(resized),
            granted_outcome: None,
        });
    }
}

/// Appends the key of such a descriptor to `buffer`.
pub(super) fn write_request_limit_key(domain: &str, descriptor: &Descriptor<'_>, buffer: &mut KeyBuffer) {
    key_bytes::write_verbatim(domain, buffer);
    for entry in descriptor.entries {
        key_bytes::write_verbatim(entry.key, buffer);
        key_bytes::write_verbatim(entry.value, buffer);
    }
}

static REQUEST_LIMIT_RULES: LazyLock<[RequestLimitRule; TimeUnit::ALL.len()]> =
    LazyLock::new(|| TimeUnit::ALL.map(RequestLimitRule::new));
