//! Finds rules level by level, as envoyproxy/ratelimit does.
//!
//! The entries of all rules form a tree, with one level for each entry. A descriptor goes down one level per entry: by
//! the exact value, otherwise by the first wildcard in the order of the rules, otherwise by the key without value. A
//! wildcard is in the value, or it is a key that ends in `*` and has no value. It never goes back. If no branch fits, or if it ends at a node without a rule, it has no rule, even if another branch
//! further up would have led to one.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use siphasher::sip::SipHasher13;

use super::matching::{has_name_prefix, wildcard_name_prefix};
use super::{CaseSensitivity, Descriptor, Entry, Pattern, Rule, Wildcard};

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
    /// The branches by a key that ends in a star: the text before the star. In the order of the rules.
    key_wildcards: Vec<(Box<str>, u32)>,
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
            node = &self.nodes[node.child(entry)? as usize];
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
        let parent = &mut self.nodes[parent as usize];
        if let Some(prefix) = wildcard_name_prefix(key, pattern) {
            let child = parent.key_wildcard_child(prefix, new);
            if child == new {
                self.nodes.push(TreeNode::default());
            }
            return Some(child);
        }
        let branches = parent.children.entry(key.into()).or_default();
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

impl TreeNode {
    /// The node for an entry.
    fn child(&self, entry: &Entry<'_>) -> Option<u32> {
        let branches = self.children.get(entry.key);
        if self.key_wildcards.is_empty() {
            return branches?.child(entry.value);
        }
        self.child_with_key_wildcards(branches, entry)
    }

    /// Nodes are numbered in the order of the rules, so the lowest number is the first wildcard.
    #[cold]
    fn child_with_key_wildcards(&self, branches: Option<&Branches>, entry: &Entry<'_>) -> Option<u32> {
        let exact = branches.and_then(|branches| branches.exact.get(entry.value).copied());
        let by_value = || branches.and_then(|branches| branches.by_wildcard(entry.value));
        let by_key = || self.key_wildcards.iter().find(|(prefix, _)| has_name_prefix(entry, prefix));
        let by_wildcard = || by_value().into_iter().chain(by_key().map(|(_, id)| *id)).min();
        exact.or_else(by_wildcard).or_else(|| branches?.any_value)
    }

    /// The node for a key that ends in a star. Inserts `new` if there is none.
    fn key_wildcard_child(&mut self, prefix: &str, new: u32) -> u32 {
        if let Some((_, id)) = self.key_wildcards.iter().find(|(other, _)| **other == *prefix) {
            return *id;
        }
        self.key_wildcards.push((prefix.into(), new));
        new
    }
}

impl Branches {
    /// The node for a value.
    fn child(&self, value: &str) -> Option<u32> {
        self.exact.get(value).copied().or_else(|| self.by_wildcard(value)).or(self.any_value)
    }

    /// The node of the first wildcard that matches a value.
    fn by_wildcard(&self, value: &str) -> Option<u32> {
        let is_match =
            |(wildcard, _): &&(Wildcard, u32)| wildcard.is_match(value, CaseSensitivity::Sensitive);
        self.wildcards.iter().find(is_match).map(|(_, id)| *id)
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
