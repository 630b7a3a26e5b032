//! Files for envoyproxy/ratelimit: what they mean, what is wrong with them, and what they become in the native language.
//!
//! | file | what it holds them to |
//! |---|---|
//! | `meaning` | which rule a descriptor finds, and what that rule says |
//! | `extension` | what `tidegate` adds |
//! | `refused` | the text of every error and warning, in files |
//! | `converted` | native files that are read, and quoted as they should be |
//! | `examples` | `examples/rules/`, and what their comments say |
//! | `same_answers` | random files and requests: the native file has the same rules for them |
//! | `decisions` | the same, decided: as the plainest model says, and as the native file does |
#![cfg(all(feature = "calendar", feature = "rules"))]

mod convert;
mod decisions;
mod examples;
mod extension;
mod semantics;
mod generators;
mod refused;
mod same_answers;

use tidegate::rules::{LoadedRules, Report, parse};
use tidegate_core::rules::{Descriptor, Domain, Entry, KeyPart, DescriptorTree, RuleLimits, Rule, RuleLimit};

/// The domain of a file that has no errors.
fn domain(text: &str) -> Domain {
    let loaded = load(text).unwrap_or_else(|report| panic!("{report}"));
    let [domain] = <[Domain; 1]>::try_from(loaded.domains).expect("one file has one domain");
    domain
}

fn load(text: &str) -> Result<LoadedRules, Report> {
    parse("envoy.yaml", text)
}

fn entries<'a>(descriptor: &[(&'a str, &'a str)]) -> Vec<Entry<'a>> {
    descriptor.iter().map(|(key, value)| Entry { key, value }).collect()
}

/// The rule that a descriptor finds level by level.
fn matching_rule<'d>(domain: &'d Domain, descriptor: &[(&str, &str)]) -> Option<&'d Rule> {
    let entries = entries(descriptor);
    let at = DescriptorTree::new(&domain.rules).find(&Descriptor::new(&entries, 1))?;
    Some(&domain.rules[at as usize])
}

/// The name of that rule, or nothing.
fn matching_rule_name<'d>(domain: &'d Domain, descriptor: &[(&str, &str)]) -> &'d str {
    matching_rule(domain, descriptor).map_or("", |rule| &rule.name)
}

fn rule<'d>(domain: &'d Domain, name: &str) -> &'d Rule {
    domain.rules.iter().find(|rule| &*rule.name == name).unwrap_or_else(|| panic!("no rule {name}"))
}

fn limits(rule: &Rule) -> &[RuleLimit] {
    match &rule.limits {
        RuleLimits::Same(limits) => limits,
        RuleLimits::Tiers(_) => panic!("descriptors have no plans"),
    }
}

/// The limits of a rule as text.
fn limit_texts(rule: &Rule) -> Vec<String> {
    limits(rule).iter().map(|limit| limit.limit.to_string()).collect()
}

/// The places of the entries that a limit's key is made of.
fn key_indexes(limit: &RuleLimit) -> Vec<usize> {
    let place = |part: &KeyPart| match part {
        KeyPart::Entry(place) => *place,
        other => panic!("{other} is not an entry"),
    };
    limit.key.parts().iter().map(place).collect()
}
