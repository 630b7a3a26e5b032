//! Files for envoyproxy/ratelimit: their meaning, their errors, and their conversion to native rules.
//!
//! | file | what it tests |
//! |---|---|
//! | `semantics` | which rule a descriptor finds, and what that rule contains |
//! | `extension` | what `tidegate` adds |
//! | `metadata` | the types of metadata, and that conversion keeps them |
//! | `files` | which files of a directory are loaded, and files of one domain |
//! | `reports` | the text of every error and warning, in files |
//! | `convert` | the text of native files, and that they load |
//! | `examples` | `examples/rules/` and the comments in them |
//! | `same_answers` | random files and requests: the native file has the same rules for them |
//! | `decisions` | random files and requests: the same decisions as the plainest model and as the native file |
#![cfg(all(feature = "calendar", feature = "rules"))]

mod convert;
mod decisions;
mod examples;
mod extension;
#[cfg(unix)]
mod files;
mod generators;
mod metadata;
mod reports;
mod same_answers;
mod semantics;

use tidegate::rules::{Counting, LoadOptions, LoadedRules, Report, parse, parse_with};
use tidegate_core::rules::{Descriptor, DescriptorTree, Domain, Entry, KeyPart, Rule, RuleLimit, RuleLimits};

/// The domain of a file without errors.
fn domain(text: &str) -> Domain {
    let loaded = load(text).unwrap_or_else(|report| panic!("{report}"));
    let [domain] = <[Domain; 1]>::try_from(loaded.domains).expect("one file has one domain");
    domain
}

/// The domain of a file without errors whose limits do not count denied requests.
fn domain_counting_none(text: &str) -> Domain {
    let loaded = load_counting_none(text).unwrap_or_else(|report| panic!("{report}"));
    let [domain] = <[Domain; 1]>::try_from(loaded.domains).expect("one file has one domain");
    domain
}

fn load_counting_none(text: &str) -> Result<LoadedRules, Report> {
    parse_with("envoy.yaml", text, counting_none())
}

fn counting_none() -> LoadOptions {
    let mut options = LoadOptions::default();
    options.counting = Counting::None;
    options
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

/// The name of that rule, or an empty string.
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

/// The indexes of the entries in a limit's key.
fn key_indexes(limit: &RuleLimit) -> Vec<usize> {
    let index = |part: &KeyPart| match part {
        KeyPart::Entry(index) => *index,
        other => panic!("{other} is not an entry"),
    };
    limit.key.parts().iter().map(index).collect()
}
