//! The descriptors of a domain as a tree again, each level in the order in which its branches are tried.

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

/// The first level of the tree that the entries of the rules make. The rules stand in the order of their file, so
/// that a level is left for good when the next one beside it begins.
pub(super) fn from_rules(rules: &[Rule]) -> Vec<DescriptorNode<'_>> {
    let mut top = Vec::new();
    for rule in rules {
        let Some(entries) = &rule.entries else { continue };
        let (mut level, mut left) = (&mut top, entries.patterns.len());
        for (key, pattern) in &entries.patterns {
            left -= 1;
            let place = last_or_insert(level, key, pattern);
            if left == 0 && !rule.is_placeholder {
                place.rule = Some(rule);
            }
            level = &mut place.children;
        }
    }
    sort(&mut top);
    top
}

/// Each place of a level, with those after it that a descriptor could match as well.
pub(super) fn with_later_siblings<'l, 'a>(
    level: &'l [DescriptorNode<'a>],
) -> impl Iterator<Item = (&'l DescriptorNode<'a>, &'l [DescriptorNode<'a>])> {
    level.chunk_by(|one, next| one.key == next.key).flat_map(|of_key| {
        // No descriptor matches two exact values, of which there may be very many.
        let exact = of_key.iter().take_while(|place| matches!(place.pattern, Pattern::Exact(_))).count();
        of_key.iter().enumerate().map(move |(at, place)| (place, &of_key[exact.max(at + 1)..]))
    })
}

impl DescriptorNode<'_> {
    /// Whether some descriptor that `later` has a rule for would come past this place, which is tried before, without
    /// finding a rule. It may say so where none does, never the other way round.
    pub fn falls_through_to(&self, later: &DescriptorNode<'_>) -> bool {
        self.key == later.key && overlap(self.pattern, later.pattern) && self.lacks_rule_of(later)
    }

    /// Whether a descriptor that got to both has a rule there and none here.
    fn lacks_rule_of(&self, other: &DescriptorNode<'_>) -> bool {
        let here = other.rule.is_some() && self.rule.is_none();
        here || other.children.iter().any(|wanted| {
            let reached = |own: &&DescriptorNode<'_>| own.key == wanted.key && overlap(own.pattern, wanted.pattern);
            let reached: Vec<_> = self.children.iter().filter(reached).collect();
            let all_reached = reached.iter().any(|own| covers(own.pattern, wanted.pattern));
            (!all_reached && wanted.has_rules()) || reached.iter().any(|own| own.lacks_rule_of(wanted))
        })
    }

    fn has_rules(&self) -> bool {
        self.rule.is_some() || self.children.iter().any(DescriptorNode::has_rules)
    }
}

fn last_or_insert<'a, 't>(level: &'t mut Vec<DescriptorNode<'a>>, key: &'a str, pattern: &'a Pattern) -> &'t mut DescriptorNode<'a> {
    if level.last().is_none_or(|last| last.key != key || last.pattern != pattern) {
        level.push(DescriptorNode { key, pattern, rule: None, children: Vec::new() });
    }
    let last = level.len() - 1;
    &mut level[last]
}

/// By key, in the order of the file; of one key exact values, then wildcards, then the bare key.
fn sort(level: &mut [DescriptorNode<'_>]) {
    let mut keys: HashMap<&str, usize> = HashMap::new();
    for place in level.iter() {
        let next = keys.len();
        keys.entry(place.key).or_insert(next);
    }
    level.sort_by_key(|place| {
        let rank = match place.pattern {
            Pattern::Exact(_) => 0,
            Pattern::Any => 2,
            _ => 1,
        };
        (keys[place.key], rank)
    });
    level.iter_mut().for_each(|place| sort(&mut place.children));
}

/// Whether some value may match both. Of wildcards only the beginnings and the ends are looked at.
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

/// Whether what matches `narrow` surely matches `wide`.
fn covers(wide: &Pattern, narrow: &Pattern) -> bool {
    *wide == Pattern::Any || wide == narrow
}
