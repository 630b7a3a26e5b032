//! Patterns, and which rules match a descriptor.
//!
//! | file | content |
//! |---|---|
//! | `patterns` | which values each pattern matches |
//! | `errors` | text that is not a pattern, and the hint for it |
//! | `display` | a pattern as a rules file writes it, read back |
//! | `mismatches` | the message for a rule that does not match |
//! | `index_equivalence` | the index finds the same rules as checking each rule (inputs from `strategies`) |
//! | `allocations` | matching allocates nothing in common cases |
//! | `index` | cases of the index that are easy to get wrong, and hostile descriptors |

#![cfg(feature = "rules")]

mod allocations;
mod display;
mod errors;
mod index;
mod index_equivalence;
mod mismatches;
mod patterns;
mod strategies;

use tidegate_core::rules::{Attribute, Condition, Descriptor, Entry, Net, PathPattern, Pattern, Rule};

/// Whether a condition holds for a descriptor with these entries.
fn holds(attribute: &str, pattern: &Pattern, entries: &[(&str, &str)]) -> bool {
    let condition = Condition { attribute: Attribute::from_name(attribute), pattern: pattern.clone() };
    with_descriptor(entries, |descriptor| condition.mismatch(descriptor).is_none())
}

fn with_descriptor<T>(entries: &[(&str, &str)], then: impl FnOnce(&Descriptor<'_>) -> T) -> T {
    let entries: Vec<Entry<'_>> = entries.iter().map(|&(key, value)| Entry { key, value }).collect();
    then(&Descriptor::new(&entries, 1))
}

fn rule(conditions: &[(&str, Pattern)]) -> Rule {
    let condition = |(name, pattern): &(&str, Pattern)| Condition {
        attribute: Attribute::from_name(name),
        pattern: pattern.clone(),
    };
    Rule { conditions: conditions.iter().map(condition).collect(), ..Rule::default() }
}

fn exact(value: &str) -> Pattern {
    Pattern::exact(value).unwrap()
}

fn paths(texts: &[&str]) -> Pattern {
    Pattern::paths(texts.iter().map(|text| PathPattern::parse(text).unwrap())).unwrap()
}

fn nets(texts: &[&str]) -> Pattern {
    Pattern::nets(texts.iter().map(|text| Net::parse(text).unwrap())).unwrap()
}
