//! Rebuilds the tree of descriptors, with each level in lookup order.

use std::collections::HashMap;

use tidegate_core::rules::{Pattern, Rule};

/// A descriptor of the file.
pub(super) struct DescriptorNode<'a> {
    pub key: &'a str,
    pub pattern: &'a Pattern,
    /// The rule of a descriptor that ends here.
    pub rule: Option<&'a Rule>,
    pub children: Vec<DescriptorNode<'a>>,
}

/// The first level of the tree. The rules are in the order of their file, so a node is complete when its next
/// sibling begins.
pub(super) fn from_rules(rules: &[Rule]) -> Vec<DescriptorNode<'_>> {
    let mut top = Vec::new();
    for rule in rules {
        let Some(entries) = &rule.entries else { continue };
        let (mut level, mut left) = (&mut top, entries.patterns.len());
        for (key, pattern) in &entries.patterns {
            left -= 1;
            let node = last_or_insert(level, key, pattern);
            if left == 0 && !rule.is_placeholder {
                node.rule = Some(rule);
            }
            level = &mut node.children;
        }
    }
    sort(&mut top);
    top
}

/// Each node of a level, with the later ones that the same descriptor could match.
pub(super) fn with_later_siblings<'l, 'a>(
    level: &'l [DescriptorNode<'a>],
) -> impl Iterator<Item = (&'l DescriptorNode<'a>, &'l [DescriptorNode<'a>])> {
    level.chunk_by(|one, next| one.key == next.key).flat_map(|same_key| {
        // No descriptor matches two exact values, of which there may be very many.
        let exact = same_key.iter().take_while(|node| matches!(node.pattern, Pattern::Exact(_))).count();
        same_key.iter().enumerate().map(move |(at, node)| (node, &same_key[exact.max(at + 1)..]))
    })
}

impl DescriptorNode<'_> {
    /// Whether a descriptor that has a rule at `later` could pass this node, which is tried before, without
    /// finding a rule. It may return true without need, but never false wrongly.
    pub fn falls_through_to(&self, later: &DescriptorNode<'_>) -> bool {
        self.key == later.key && overlap(self.pattern, later.pattern) && self.lacks_rule_of(later)
    }

    /// Whether a descriptor that reaches both has a rule there and none here.
    fn lacks_rule_of(&self, other: &DescriptorNode<'_>) -> bool {
        let misses_here = other.rule.is_some() && self.rule.is_none();
        misses_here
            || other.children.iter().any(|other_child| {
                let is_reached = |child: &&DescriptorNode<'_>| {
                    child.key == other_child.key && overlap(child.pattern, other_child.pattern)
                };
                let reached: Vec<_> = self.children.iter().filter(is_reached).collect();
                let all_reached = reached.iter().any(|child| covers(child.pattern, other_child.pattern));
                (!all_reached && other_child.has_rules())
                    || reached.iter().any(|child| child.lacks_rule_of(other_child))
            })
    }

    fn has_rules(&self) -> bool {
        self.rule.is_some() || self.children.iter().any(DescriptorNode::has_rules)
    }
}

fn last_or_insert<'a, 't>(
    level: &'t mut Vec<DescriptorNode<'a>>,
    key: &'a str,
    pattern: &'a Pattern,
) -> &'t mut DescriptorNode<'a> {
    if level.last().is_none_or(|last| last.key != key || last.pattern != pattern) {
        level.push(DescriptorNode { key, pattern, rule: None, children: Vec::new() });
    }
    let last = level.len() - 1;
    &mut level[last]
}

/// By key in the order of the file. Within one key: exact values, then wildcards, then the key alone.
fn sort(level: &mut [DescriptorNode<'_>]) {
    let mut keys: HashMap<&str, usize> = HashMap::new();
    for node in level.iter() {
        let next = keys.len();
        keys.entry(node.key).or_insert(next);
    }
    level.sort_by_key(|node| {
        let rank = match node.pattern {
            Pattern::Exact(_) => 0,
            Pattern::Any => 2,
            _ => 1,
        };
        (keys[node.key], rank)
    });
    level.iter_mut().for_each(|node| sort(&mut node.children));
}

/// Whether a value may match both. Of wildcards only prefixes and suffixes are compared.
fn overlap(one: &Pattern, other: &Pattern) -> bool {
    match (one, other) {
        (Pattern::Exact(one), Pattern::Exact(other)) => one == other,
        (Pattern::Exact(value), Pattern::Wildcard(wildcard))
        | (Pattern::Wildcard(wildcard), Pattern::Exact(value)) => {
            value.starts_with(wildcard.prefix()) && value.ends_with(wildcard.suffix())
        }
        (Pattern::Wildcard(one), Pattern::Wildcard(other)) => {
            (one.prefix().starts_with(other.prefix()) || other.prefix().starts_with(one.prefix()))
                && (one.suffix().ends_with(other.suffix()) || other.suffix().ends_with(one.suffix()))
        }
        _ => true,
    }
}

/// Whether everything that matches `narrow` also matches `wide`.
fn covers(wide: &Pattern, narrow: &Pattern) -> bool {
    *wide == Pattern::Any || wide == narrow
}
