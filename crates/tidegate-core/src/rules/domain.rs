//! A domain: rules that belong together.

use super::Rule;
use crate::Limit;
use crate::algorithm::CountDenied;

/// The rules of a domain, in order.
#[derive(Clone, Debug, Default)]
pub struct Domain {
    /// The name that requests use.
    pub name: Box<str>,
    /// Whether all rules that match apply.
    pub apply: Apply,
    /// Limits that elastic limits share.
    pub pools: Vec<Pool>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// How the rules for a descriptor are found.
    pub lookup: Lookup,
    /// Which denied requests the limits that requests carry count.
    pub count_denied: CountDenied,
    /// A dry run of all rules: every limit is counted and reported, and none denies or delays a request.
    pub is_shadow: bool,
}

/// Which of the rules that match a descriptor apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apply {
    /// All of them.
    #[default]
    All,
    /// The first.
    First,
}

/// How the rules for a descriptor are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// By their conditions.
    #[default]
    Conditions,
    /// Level by level, as envoyproxy/ratelimit does: only by a rule's [`entries`](super::Rule::entries). An exact value
    /// comes before the first wildcard, and a wildcard before a key without value. The search never goes back to an
    /// earlier level.
    DescriptorTree,
}

/// A limit that elastic limits share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The name that elastic limits use.
    pub name: Box<str>,
    /// The limit of the pool.
    pub limit: Limit,
}
