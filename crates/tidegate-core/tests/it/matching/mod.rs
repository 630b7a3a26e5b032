//! Patterns, and which rules match a descriptor.
//!
//! | file | what it holds the code to |
//! |---|---|
//! | `patterns` | which values each pattern matches |
//! | `refused` | what is no pattern, and the hint that comes with it |
//! | `written` | a pattern as a file writes it, read back |
//! | `mismatches` | what is said of a rule that does not match |
//! | `against_plain` | the index finds what the plain way finds, for rules and descriptors of `rulebooks` |
//! | `allocations` | matching allocates nothing where that matters |
//! | `index` | cases of the index that are easy to get wrong, and hostile ones |

#![cfg(feature = "rules")]

mod against_plain;
mod allocations;
mod index;
mod mismatches;
mod patterns;
mod errors;
mod strategies;
mod display;

use tidegate_core::rules::{Attribute, Condition, Descriptor, Entry, Net, PathPattern, Pattern, Rule};

/// Whether a descriptor with these entries meets a condition.
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
