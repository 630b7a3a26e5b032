//! Finds rules level by level, as envoyproxy/ratelimit does.
//!
//! The entries of all rules form a tree, with one level for each entry. A descriptor goes down one level per entry: by
//! the exact value, otherwise by the first wildcard in the order of the rules, otherwise by the key without value. It
//! never goes back. If no branch fits, or if it ends at a node without a rule, it has no rule, even if another branch
//! further up would have led to one.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use siphasher::sip::SipHasher13;

use super::{CaseSensitivity, Descriptor, Pattern, Rule, Wildcard};

/// The rules of a domain by their [`entries`](Rule::entries), for
/// [`Lookup::DescriptorTree`](super::Lookup::DescriptorTree).
///
/// ```
/// use tidegate_core::rules::{Descriptor, DescriptorTree, Entry, EntryPatterns, Pattern, Rule};
///
/// let entry = |key: &str, pattern| EntryPatterns { patterns: vec![(key.into(), pattern)], allows_more: false };
/// let users = Rule { entries: Some(entry("database", Pattern::Exact("users".into()))), ..Rule::default() };
/// let any = Rule { entries: Some(entry("database", Pattern::Any)), ..Rule::default() };
/// let tree = DescriptorTree::new(&[any, users]);
///
/// let find = |value| tree.find(&Descriptor::new(&[Entry { key: "database", value }], 1));
/// assert_eq!(find("users"), Some(1));
/// assert_eq!(find("logs"), Some(0));
/// ```
#[derive(Clone, Debug)]
pub struct DescriptorTree {
    /// The first is the root.
    nodes: Vec<TreeNode>,
}

/// A node of the tree.
#[derive(Clone, Debug, Default)]
struct TreeNode {
    /// The rule of a descriptor that ends here.
    rule: Option<u32>,
    /// The branches for the next entry, by its key.
    children: KeyMap<Branches>,
}

/// The branches of a key, by value. Numbers are indices into [`DescriptorTree::nodes`].
#[derive(Clone, Debug, Default)]
struct Branches {
    exact: KeyMap<u32>,
    /// In the order of the rules.
    wildcards: Vec<(Wildcard, u32)>,
    /// The same by text.
    wildcard_nodes: KeyMap<u32>,
    any_value: Option<u32>,
}

/// The keys come from rules, never from requests, so a client cannot choose keys that collide.
type KeyMap<V> = HashMap<Box<str>, V, BuildHasherDefault<SipHasher13>>;

const ROOT: u32 = 0;

impl DescriptorTree {
    /// The tree of these rules. If two rules have the same entries, the first is found. A
    /// [placeholder](Rule::is_placeholder) has a node but is not found. A rule without entries, or with patterns other
    /// than an exact value, a wildcard or any value, is not in the tree.
    pub fn new(rules: &[Rule]) -> Self {
        let mut tree = Self { nodes: vec![TreeNode::default()] };
        for (index, rule) in (0..).zip(rules) {
            let Some(id) = tree.node_for(rule) else { continue };
            let node = &mut tree.nodes[id as usize];
            if !rule.is_placeholder {
                node.rule.get_or_insert(index);
            }
        }
        tree
    }

    /// The index of the rule for a descriptor.
    pub fn find(&self, descriptor: &Descriptor<'_>) -> Option<u32> {
        let mut node = &self.nodes[ROOT as usize];
        for entry in descriptor.entries {
            let id = node.children.get(entry.key)?.child(entry.value)?;
            node = &self.nodes[id as usize];
        }
        node.rule
    }

    /// The node for the entries of a rule. Inserts it if needed.
    fn node_for(&mut self, rule: &Rule) -> Option<u32> {
        let patterns = &rule.entries.as_ref()?.patterns;
        let has_branch =
            |pattern: &Pattern| matches!(pattern, Pattern::Any | Pattern::Exact(_) | Pattern::Wildcard(_));
        if patterns.is_empty() || !patterns.iter().all(|(_, pattern)| has_branch(pattern)) {
            return None;
        }
        patterns.iter().try_fold(ROOT, |id, (key, pattern)| self.child_or_insert(id, key, pattern))
    }

    fn child_or_insert(&mut self, parent: u32, key: &str, pattern: &Pattern) -> Option<u32> {
        let new = u32::try_from(self.nodes.len()).ok()?;
        let branches = self.nodes[parent as usize].children.entry(key.into()).or_default();
        let child = match pattern {
            Pattern::Any => *branches.any_value.get_or_insert(new),
            Pattern::Exact(value) => *branches.exact.entry(value.clone()).or_insert(new),
            Pattern::Wildcard(wildcard) => branches.wildcard_child(wildcard, new),
            _ => return None,
        };
        if child == new {
            self.nodes.push(TreeNode::default());
        }
        Some(child)
    }
}

impl Branches {
    /// The node for a value.
    fn child(&self, value: &str) -> Option<u32> {
        let by_wildcard = || {
            self.wildcards.iter().find(|(wildcard, _)| wildcard.is_match(value, CaseSensitivity::Sensitive))
        };
        self.exact.get(value).copied().or_else(|| by_wildcard().map(|(_, id)| *id)).or(self.any_value)
    }

    /// The node for a wildcard. Inserts `new` if there is none.
    fn wildcard_child(&mut self, wildcard: &Wildcard, new: u32) -> u32 {
        let child = *self.wildcard_nodes.entry(wildcard.to_string().into()).or_insert(new);
        if child == new {
            self.wildcards.push((wildcard.clone(), new));
        }
        child
    }
}
