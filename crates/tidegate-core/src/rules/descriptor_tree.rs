//! Rules found level by level, as envoyproxy/ratelimit finds them.
//!
//! The entries of all rules make a tree: a level for each entry, and below a level the branches of its key. A
//! descriptor goes down one level per entry, by the exact value, else by the first wildcard in the order of the
//! rules, else by the bare key. It never comes back: where no branch fits, or where it ends at a place without a rule,
//! there is no rule, even if another branch further up would have led to one.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use siphasher::sip::SipHasher13;

use super::{CaseSensitivity, Descriptor, Pattern, Rule, Wildcard};

/// The rules of a domain by their [`entries`](Rule::entries), for [`Lookup::Levels`](super::Lookup::Levels).
///
/// ```
/// use tidegate_core::rules::{Descriptor, Entries, Entry, Levels, Pattern, Rule};
///
/// let entry = |key: &str, pattern| Entries { each: vec![(key.into(), pattern)], open: false };
/// let users = Rule { entries: Some(entry("database", Pattern::Exact("users".into()))), ..Rule::default() };
/// let others = Rule { entries: Some(entry("database", Pattern::Any)), ..Rule::default() };
/// let levels = Levels::new(&[others, users]);
///
/// let find = |value| levels.find(&Descriptor::new(&[Entry { key: "database", value }], 1));
/// assert_eq!(find("users"), Some(1));
/// assert_eq!(find("logs"), Some(0));
/// ```
#[derive(Clone, Debug)]
pub struct DescriptorTree {
    /// The first is the root, where no entry has been looked at.
    nodes: Vec<LevelNode>,
}

/// A place in the tree.
#[derive(Clone, Debug, Default)]
struct LevelNode {
    /// The rule of a descriptor that ends here.
    rule: Option<u32>,
    /// Where the next entry leads, by its key.
    children: KeyMap<Branches>,
}

/// Where an entry of some key leads, by its value. Numbers are places in [`Levels::nodes`].
#[derive(Clone, Debug, Default)]
struct Branches {
    exact: KeyMap<u32>,
    /// In the order of the rules.
    wildcards: Vec<(Wildcard, u32)>,
    /// The same by their text.
    wildcard_nodes: KeyMap<u32>,
    any_value: Option<u32>,
}

/// The keys are from rules, never from requests, so nobody can choose them to collide.
type KeyMap<V> = HashMap<Box<str>, V, BuildHasherDefault<SipHasher13>>;

const ROOT: u32 = 0;

impl DescriptorTree {
    /// The tree of these rules. Of two rules with the same entries the first is found. A
    /// [placeholder](Rule::placeholder) has a place and is not found; a rule without entries, or with patterns other
    /// than an exact value, a wildcard or any value, has none.
    pub fn new(rules: &[Rule]) -> Self {
        let mut levels = Self { nodes: vec![LevelNode::default()] };
        for (index, rule) in (0..).zip(rules) {
            let Some(place) = levels.node_for(rule) else { continue };
            let node = &mut levels.nodes[place as usize];
            if !rule.is_placeholder {
                node.rule.get_or_insert(index);
            }
        }
        levels
    }

    /// The rule of a descriptor, by its place among the rules.
    pub fn find(&self, descriptor: &Descriptor<'_>) -> Option<u32> {
        let mut node = &self.nodes[ROOT as usize];
        for entry in descriptor.entries {
            let place = node.children.get(entry.key)?.child(entry.value)?;
            node = &self.nodes[place as usize];
        }
        node.rule
    }

    /// Where the entries of a rule lead, made if nobody was there before.
    fn node_for(&mut self, rule: &Rule) -> Option<u32> {
        let each = &rule.entries.as_ref()?.patterns;
        let known =
            |pattern: &Pattern| matches!(pattern, Pattern::Any | Pattern::Exact(_) | Pattern::Wildcard(_));
        if each.is_empty() || !each.iter().all(|(_, pattern)| known(pattern)) {
            return None;
        }
        each.iter().try_fold(ROOT, |place, (key, pattern)| self.child_or_insert(place, key, pattern))
    }

    fn child_or_insert(&mut self, from: u32, key: &str, pattern: &Pattern) -> Option<u32> {
        let new = u32::try_from(self.nodes.len()).ok()?;
        let branches = self.nodes[from as usize].children.entry(key.into()).or_default();
        let place = match pattern {
            Pattern::Any => *branches.any_value.get_or_insert(new),
            Pattern::Exact(value) => *branches.exact.entry(value.clone()).or_insert(new),
            Pattern::Wildcard(wildcard) => branches.wildcard_child(wildcard, new),
            _ => return None,
        };
        if place == new {
            self.nodes.push(LevelNode::default());
        }
        Some(place)
    }
}

impl Branches {
    /// Where a value leads.
    fn child(&self, value: &str) -> Option<u32> {
        let by_wildcard = || self.wildcards.iter().find(|(wildcard, _)| wildcard.is_match(value, CaseSensitivity::Sensitive));
        self.exact.get(value).copied().or_else(|| by_wildcard().map(|(_, place)| *place)).or(self.any_value)
    }

    /// Where a wildcard leads: to `new` if it was not there before.
    fn wildcard_child(&mut self, wanted: &Wildcard, new: u32) -> u32 {
        let place = *self.wildcard_nodes.entry(wanted.to_string().into()).or_insert(new);
        if place == new {
            self.wildcards.push((wanted.clone(), new));
        }
        place
    }
}
