//! A rule: what it matches, and which limits apply.

use std::num::NonZeroU32;

use super::compiled_limit::with_margin;
use super::name_history::{CounterName, NameHistory};
use super::{Action, Attribute, Descriptor, KeySpec, Margin, Metadata, OnMissingKey, Pattern};
use crate::algorithm::WorstCase;
use crate::{Algorithm, DenyCache, Limit, LimitId, ModeBound, OnStoreFailure, RuleMode};

/// A checked rule, before it is compiled.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Its name, unique in the domain.
    pub name: Box<str>,
    /// Its former names, newest first. The oldest is the identity of its counters.
    pub was: Vec<Box<str>>,
    /// What a descriptor has to contain. Without conditions, every descriptor matches.
    pub conditions: Vec<Condition>,
    /// What the entries of a descriptor have to be, one by one.
    pub entries: Option<EntryPatterns>,
    /// The limits.
    pub limits: RuleLimits,
    /// A limit that is evaluated beside the others and only reported.
    pub candidate: Option<RuleLimit>,
    /// The name of its first limit as a file for envoyproxy/ratelimit has it. The limit's own name may be another,
    /// because it has fewer characters.
    pub limit_name: Option<Box<str>>,
    /// Rules that do not apply to a request to which this rule applies.
    pub replaces: Vec<Box<str>>,
    /// No other rule applies to a request to which this rule applies. It has no limits itself.
    pub is_exemption: bool,
    /// Names and values that are included in answers.
    pub metadata: Metadata,
    /// Where its limits are counted, if nodes share a store.
    pub mode: RuleMode,
    /// What happens to its limits while the shared store does not answer. If `None`, the default of each limit.
    pub on_store_failure: Option<OnStoreFailure>,
    /// Whether a node may deny from memory while it knows that the shared store would deny.
    pub deny_cache: DenyCache,
    /// Whether single keys may have overrides.
    pub overridable: Overridable,
    /// What happens to a request whose overrides are not loaded yet.
    pub on_override_miss: OnOverrideMiss,
    /// The indices, from 0, of the entries whose values become metric labels. For a rule that is found by its
    /// [`entries`](Self::entries).
    pub metric_entries: Vec<usize>,
    /// The rule is only a node in the [descriptor tree](super::Lookup::DescriptorTree). A descriptor that ends there has
    /// no rule, and does not get that of a sibling either. A rule without limits is different: it applies.
    pub is_placeholder: bool,
}

/// Whether keys of a rule may have overrides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overridable {
    /// If its limits have a key.
    #[default]
    Yes,
    /// Never.
    No,
}

/// What happens to a request whose overrides are not loaded yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOverrideMiss {
    /// It waits for them, up to a deadline.
    #[default]
    Wait,
    /// It is decided by the rule.
    Default,
}

/// An attribute and the pattern that it has to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The attribute.
    pub attribute: Attribute,
    /// The pattern.
    pub pattern: Pattern,
}

/// Patterns for the entries of a descriptor, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPatterns {
    /// The name of each entry, unchanged, and the pattern of its value. A name that ends in `*`, with the pattern
    /// [`Any`](Pattern::Any), matches each entry whose `name_value` begins with the text before the star, as in
    /// envoyproxy/ratelimit.
    pub patterns: Vec<(Box<str>, Pattern)>,
    /// Whether more entries may follow.
    pub allows_more: bool,
}

/// The limits of a rule.
#[derive(Clone, Debug)]
pub enum RuleLimits {
    /// The same for all requests. If empty, requests are not limited.
    Same(Vec<RuleLimit>),
    /// By plan.
    Tiers(Tiers),
}

/// Plans with their own limits, chosen by an attribute.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// The attribute whose value names the plan.
    pub attribute: Attribute,
    /// The plans.
    pub plans: Vec<(Box<str>, Vec<RuleLimit>)>,
    /// For all other values.
    pub default: Vec<RuleLimit>,
}

/// A limit and how a rule applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleLimit {
    /// The limit.
    pub limit: Limit,
    /// The former identity of the limit. If `None`, its name or position.
    pub was: Option<LimitId>,
    /// The attributes of its key.
    pub key: KeySpec,
    /// What happens if a descriptor lacks a part of the key.
    pub missing: OnMissingKey,
    /// What a request costs.
    pub cost: CostSource,
    /// What happens when the limit is exceeded.
    pub action: Action,
}

/// Where the cost of a request comes from. A descriptor with cost zero is never charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CostSource {
    /// The request.
    #[default]
    Request,
    /// Always this cost.
    Fixed(u64),
    /// The value of an attribute. The default if it is missing or not a whole number.
    Attribute {
        /// The attribute.
        attribute: Attribute,
        /// The cost without the attribute.
        default: u64,
    },
}

impl Rule {
    /// The identity of its counters: the oldest of its names.
    pub fn identity(&self) -> &str {
        self.was.last().unwrap_or(&self.name)
    }

    /// What happens to one of its limits while the shared store does not answer. By default a concurrency limit denies,
    /// because two nodes that cannot see each other would both hand out the same lock. Other limits are enforced by
    /// each node's share.
    pub fn on_store_failure_of(&self, limit: &Limit) -> OnStoreFailure {
        self.on_store_failure.unwrap_or(match limit.algorithm() {
            Algorithm::Leases(_) => OnStoreFailure::Deny,
            _ => OnStoreFailure::Local,
        })
    }

    /// Whether one of its limits is a quota that takes part in decisions: a request is denied if all such quotas are
    /// exceeded. Rules without `entries` may hold leases, which a denial after the charge would keep, so their quotas
    /// never deny.
    pub fn is_denying_quota(&self, limit: &RuleLimit) -> bool {
        matches!(limit.action, Action::Quota) && self.entries.is_some()
    }

    /// The most that the rule admits under one of its limits for one key. `None` if the limit never denies. A quota
    /// admits more while another quota of the request has room.
    pub fn worst_case_of(&self, limit: &RuleLimit) -> Option<WorstCase> {
        self.bounding_limit(limit).map(|limit| limit.worst_case())
    }

    /// The most that this many nodes together admit under one of its limits for one key, if they share a store. `None`
    /// if the limit never denies.
    pub fn mode_bound_of(&self, limit: &RuleLimit, nodes: NonZeroU32) -> Option<ModeBound> {
        let mode = self.mode.for_limit(&limit.limit);
        self.bounding_limit(limit).map(|limit| limit.mode_bound(mode, nodes))
    }

    /// The limit that bounds what the rule admits under one of its limits. `None` if that never denies.
    pub fn bounding_limit(&self, limit: &RuleLimit) -> Option<Limit> {
        limit.bounding_limit().or_else(|| self.is_denying_quota(limit).then(|| limit.limit.clone()))
    }
}

impl Tiers {
    /// The plan of a descriptor. `None` if it has the limits of the default.
    pub fn plan_of(&self, descriptor: &Descriptor<'_>) -> Option<&str> {
        let value = self.attribute.comparable_part(descriptor.value(&self.attribute)?);
        let mut plans = self.plans.iter().map(|(plan, _)| &**plan);
        plans.find(|plan| self.attribute.case().are_equal(value, plan))
    }
}

impl RuleLimit {
    /// The identity of the limit at a position in its rule. It is the same before and after a change.
    pub fn counter_id(&self, position: usize) -> LimitId {
        self.was.clone().unwrap_or_else(|| LimitId::from_limit(&self.limit, position))
    }

    /// Whether the limit can deny a request by itself.
    pub fn is_enforced(&self) -> bool {
        !matches!(self.action, Action::Shadow | Action::Quota | Action::Soft(Margin::Unlimited))
    }

    /// The limit that bounds what is admitted. `None` if it never denies a request by itself.
    fn bounding_limit(&self) -> Option<Limit> {
        match &self.action {
            Action::Reject | Action::ShadowBan | Action::Delay { .. } => Some(self.limit.clone()),
            Action::Soft(Margin::Percent(percent)) => Some(with_margin(&self.limit, *percent)),
            Action::Elastic(elastic) => Some(self.limit.resized(elastic.max)),
            Action::Shadow | Action::Quota | Action::Soft(Margin::Unlimited) => None,
        }
    }

    pub(super) fn name_history(&self, position: usize) -> NameHistory<LimitId> {
        NameHistory {
            current: LimitId::from_limit(&self.limit, position),
            former: self.was.iter().cloned().collect(),
        }
    }
}

impl CounterName for LimitId {
    fn with_suffix(&self, number: usize) -> Self {
        // Names contain no control characters.
        match self {
            Self::Name(name) => Self::Name(format!("{name}\u{1d}{number}").into()),
            Self::Position(position) => Self::Name(format!("\u{1d}{position}\u{1d}{number}").into()),
        }
    }
}

impl Default for RuleLimits {
    fn default() -> Self {
        Self::Same(Vec::new())
    }
}
