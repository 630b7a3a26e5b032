//! Limits that requests bring along: a descriptor that has one is counted by it and by nothing else.
//!
//! Such a descriptor needs no rule, not even a domain that has any. Its counter is a fixed window, aligned to the
//! epoch, for the domain and all entries of the descriptor in their order. In answers it is the limit of a rule
//! [`OVERRIDE_RULE`], which is in no file.

use std::sync::LazyLock;

use super::compiled_limit::{CompiledLimit, ResolvedElastic, CounterIdentity};
use super::key_bytes::KeyBuffer;
use super::matched::{LimitRef, MatchedKey, MatchedLimit};
use super::{
    Action, CostSource, Descriptor, KeySpec, LimitId, RuleLimits, MatchedLimits, OnMissingKey, Rule, RuleLimit, key_bytes,
};
use crate::{AlgorithmName, KeyForm, LimitSpec, StorePolicy};

/// What the rule is called in answers that stands for the limits which requests bring along.
pub const REQUEST_LIMIT_RULE: &str = "override";

/// A limit that a request brings along. Zero units: everything is denied that costs anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestLimit {
    /// L.
    pub units: u32,
    /// W.
    pub per: TimeUnit,
}

/// A unit of time, as the windows of requests' own limits are.
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

    /// How long it is.
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

/// What stands for the limits of one unit where rules do for others. L is the request's own.
#[derive(Debug)]
pub(super) struct RequestLimitRule {
    pub rule: Rule,
    pub limit: CompiledLimit,
}

impl RequestLimitRule {
    /// Of this unit.
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
        // Its keys are whole descriptors, whatever is in them.
        let identity = CounterIdentity {
            domain: "",
            rule: "",
            part: REQUEST_LIMIT_RULE,
            limit: LimitId::from_limit(&limit.limit, 0),
            key_form: KeyForm::Secret,
        };
        let compiled =
            CompiledLimit::new(limit.clone(), 0, identity, StorePolicy::DEFAULT, ResolvedElastic::default());
        let rule = Rule { name: REQUEST_LIMIT_RULE.into(), limits: RuleLimits::Same(vec![limit]), ..Rule::default() };
        Self { rule, limit: compiled }
    }
}

impl MatchedLimits {
    /// Adds the limit that a descriptor brings along.
    #[cold]
    pub(super) fn match_request_limit(
        &mut self,
        domain: &str,
        number: u32,
        descriptor: &Descriptor<'_>,
        limit: RequestLimit,
    ) {
        let start = self.keys.len();
        write_request_limit_key(domain, descriptor, &mut self.keys);
        let resized = self.resize(&RequestLimitRule::for_unit(limit.per).limit, limit.units.into());
        self.limits.push(MatchedLimit {
            limit: LimitRef::Request(limit.per),
            descriptor: number,
            cost: descriptor.cost,
            key: MatchedKey::at(start..self.keys.len()),
            resized: Some(resized),
            granted_outcome: None,
        });
    }
}

/// Writes what such a descriptor is counted by at the end of `buffer`.
pub(super) fn write_request_limit_key(domain: &str, descriptor: &Descriptor<'_>, buffer: &mut KeyBuffer) {
    key_bytes::write_verbatim(domain, buffer);
    for entry in descriptor.entries {
        key_bytes::write_verbatim(entry.key, buffer);
        key_bytes::write_verbatim(entry.value, buffer);
    }
}

static REQUEST_LIMIT_RULES: LazyLock<[RequestLimitRule; TimeUnit::ALL.len()]> = LazyLock::new(|| TimeUnit::ALL.map(RequestLimitRule::new));
