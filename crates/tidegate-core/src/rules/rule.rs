//! A rule: what it matches, and the limits of what it matches.

use super::name_history::{CounterName, NameHistory};
use super::{Action, Attribute, KeySpec, Margin, OnMissingKey, Pattern};
use crate::{Algorithm, DenyCache, Limit, LimitId, OnStoreFailure};

/// A rule, checked and not yet compiled.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Its name, once in a domain.
    pub name: Box<str>,
    /// The names it had, newest first. Its counters are known by the oldest.
    pub was: Vec<Box<str>>,
    /// What a descriptor has to contain; nothing: every descriptor matches.
    pub conditions: Vec<Condition>,
    /// What a descriptor's entries have to be, one by one.
    pub entries: Option<EntryPatterns>,
    /// The limits.
    pub limits: RuleLimits,
    /// A limit that is evaluated beside them and only reported.
    pub candidate: Option<RuleLimit>,
    /// Rules that do not apply to a request that this one applies to.
    pub replaces: Vec<Box<str>>,
    /// Names and values that answers carry along.
    pub metadata: Vec<(Box<str>, Box<str>)>,
    /// What becomes of its limits while the store that a fleet shares does not answer; the default of each limit if none.
    pub on_store_failure: Option<OnStoreFailure>,
    /// Whether denials may come from memory while it is known that the shared store would deny.
    pub deny_cache: DenyCache,
    /// The places of the entries, from 0, whose values metrics tell apart; of a rule that is found by its
    /// [`entries`](Self::entries).
    pub metric_entries: Vec<usize>,
    /// Stands for a place in the [levels](super::Lookup::Levels) and for nothing else: a descriptor that ends here has
    /// no rule, and does not have that of a sibling either. That is not the same as a rule without limits, which
    /// applies.
    pub is_placeholder: bool,
}

/// An attribute and what it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The attribute.
    pub attribute: Attribute,
    /// What it has to be.
    pub pattern: Pattern,
}

/// The entries of a descriptor in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPatterns {
    /// Each entry's name, as it is, and what its value has to be.
    pub patterns: Vec<(Box<str>, Pattern)>,
    /// Whether more may follow.
    pub allows_more: bool,
}

/// The limits of a rule.
#[derive(Clone, Debug)]
pub enum RuleLimits {
    /// The same for everyone; none: not limited.
    Same(Vec<RuleLimit>),
    /// By plan.
    Tiers(Tiers),
}

/// Plans with limits of their own, chosen by an attribute.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// The attribute whose value names the plan.
    pub attribute: Attribute,
    /// The plans.
    pub plans: Vec<(Box<str>, Vec<RuleLimit>)>,
    /// For everyone else.
    pub default: Vec<RuleLimit>,
}

/// A limit and how a rule applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleLimit {
    /// The limit.
    pub limit: Limit,
    /// What it is known by when limits change; its own name or place if none.
    pub was: Option<LimitId>,
    /// What its counters' keys are made of.
    pub key: KeySpec,
    /// What happens if a descriptor lacks a part of the key.
    pub missing: OnMissingKey,
    /// What a request costs.
    pub cost: CostSource,
    /// What happens when it is exceeded.
    pub action: Action,
}

/// Where the cost of a request is from. A descriptor whose own cost is zero asks without charging in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CostSource {
    /// What the request says.
    #[default]
    Request,
    /// Always so much.
    Fixed(u64),
    /// The value of an attribute; the default if it is missing or not a whole number.
    Attribute {
        /// The attribute.
        attribute: Attribute,
        /// Without it.
        default: u64,
    },
}

impl Rule {
    /// What its counters are known by: the oldest of its names.
    pub fn identity(&self) -> &str {
        self.was.last().unwrap_or(&self.name)
    }

    /// What becomes of one of its limits while the shared store does not answer. By default a concurrency limit denies, because
    /// two nodes that cannot see each other would both hand out the same lock; other limits are enforced by each node's share.
    pub fn on_store_failure_of(&self, limit: &Limit) -> OnStoreFailure {
        self.on_store_failure.unwrap_or(match limit.algorithm() {
            Algorithm::Leases(_) => OnStoreFailure::Deny,
            _ => OnStoreFailure::Local,
        })
    }
}

impl RuleLimit {
    /// What it is known by at `place` among the limits of its rule, before and after they change.
    pub fn counter_id(&self, place: usize) -> LimitId {
        self.was.clone().unwrap_or_else(|| LimitId::from_limit(&self.limit, place))
    }

    /// Whether it can keep a request from passing.
    pub fn is_enforced(&self) -> bool {
        !matches!(self.action, Action::Shadow | Action::Quota | Action::Soft(Margin::Unlimited))
    }

    pub(super) fn name_history(&self, place: usize) -> NameHistory<LimitId> {
        NameHistory { current: LimitId::from_limit(&self.limit, place), former: self.was.iter().cloned().collect() }
    }
}

impl CounterName for LimitId {
    fn with_suffix(&self, number: usize) -> Self {
        // No name has a control character in it.
        match self {
            Self::Name(name) => Self::Name(format!("{name}\u{1d}{number}").into()),
            Self::Position(place) => Self::Name(format!("\u{1d}{place}\u{1d}{number}").into()),
        }
    }
}

impl Default for RuleLimits {
    fn default() -> Self {
        Self::Same(Vec::new())
    }
}
