//! Rules that belong together.

use super::Rule;
use crate::Limit;

/// The rules of a domain, in their order.
#[derive(Clone, Debug)]
pub struct Domain {
    /// What requests call it.
    pub name: Box<str>,
    /// Whether all rules that match apply.
    pub apply: Apply,
    /// What elastic limits share.
    pub pools: Vec<Pool>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// How the rules of a descriptor are found.
    pub lookup: Lookup,
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

/// How the rules of a descriptor are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// By their conditions.
    #[default]
    Conditions,
    /// As envoyproxy/ratelimit does, level by level: by a rule's [`entries`](super::Rule::entries) alone, an exact
    /// value before the first wildcard before a bare key, without coming back from a level once entered.
    DescriptorTree,
}

/// A limit that elastic limits share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// What elastic limits call it.
    pub name: Box<str>,
    /// What it holds.
    pub limit: Limit,
}
