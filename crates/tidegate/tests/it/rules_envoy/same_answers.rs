//! Random files and random requests: the native file has the same rules as the file it was converted from.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tidegate::rules::envoy::convert;
use tidegate_core::rules::{Apply, Descriptor, DescriptorTree, Domain, Entry, KeyPart, Pattern, Rule};

use super::generators::{Request, file, file_text, request};
use super::{domain, limits};

/// What is charged for a descriptor, and which of its rules are replaced. Empty if no limit applies.
#[derive(Debug, PartialEq)]
struct RuleAnswer {
    charges: Vec<Charge>,
    replaces: BTreeSet<String>,
}

#[derive(Debug, PartialEq)]
struct Charge {
    limit: String,
    terms: String,
    /// The values of the key, by their indexes in the descriptor, without those that the rule fixes.
    key: BTreeSet<(usize, String)>,
}

fn answer(rule: &Rule, descriptor: &[Entry<'_>]) -> Option<RuleAnswer> {
    let patterns = &rule.entries.as_ref().unwrap().patterns;
    let charges = limits(rule).iter().map(|limit| {
        let index = |part: &KeyPart| match part {
            KeyPart::Entry(index) => *index,
            KeyPart::Attribute(attribute) => {
                descriptor.iter().position(|entry| attribute.matches_key(entry.key)).unwrap()
            }
            other => panic!("{other}"),
        };
        let indexes = limit.key.parts().iter().map(index);
        let varying = indexes.filter(|index| !matches!(patterns[*index].1, Pattern::Exact(_)));
        Charge {
            limit: limit.limit.to_string(),
            terms: format!("{:?} {:?}", limit.cost, limit.action),
            key: varying.map(|index| (index, descriptor[index].value.to_owned())).collect(),
        }
    });
    let replaces = rule.replaces.iter().map(|name| name.to_string()).collect();
    let answer = RuleAnswer { charges: charges.collect(), replaces };
    (!answer.charges.is_empty() || !answer.replaces.is_empty()).then_some(answer)
}

/// Level by level, as envoyproxy/ratelimit does.
fn find_by_levels<'d>(domain: &'d Domain, descriptor: &Descriptor<'_>) -> Option<&'d Rule> {
    Some(&domain.rules[DescriptorTree::new(&domain.rules).find(descriptor)? as usize])
}

/// The first rule that matches.
fn find_in_list<'d>(domain: &'d Domain, descriptor: &Descriptor<'_>) -> Option<&'d Rule> {
    assert_eq!(domain.apply, Apply::First);
    domain.rules.iter().find(|rule| rule.mismatch(descriptor).is_none())
}

fn entries(request: &Request) -> Vec<Entry<'_>> {
    request.iter().map(|(key, value)| Entry { key, value }).collect()
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn the_converted_file_gives_the_same_answers(file in file(), requests in vec(request(), 1..30)) {
        let text = file_text(&file, |number| number);
        let envoy = domain(&text);
        let native = convert("envoy.yaml", &text).unwrap_or_else(|report| panic!("{text}\n{report}"));
        let native_domain = domain(&native.text);
        for request in requests {
            let entries = entries(&request);
            let descriptor = Descriptor::new(&entries, 1);
            let expected = find_by_levels(&envoy, &descriptor).and_then(|rule| answer(rule, &entries));
            let actual = find_in_list(&native_domain, &descriptor).and_then(|rule| answer(rule, &entries));
            prop_assert_eq!(actual, expected, "{:?}\n{}\n{}", request, text, native.text);
        }
    }
}

#[test]
fn many_random_requests_match_a_rule() {
    let mut runner = TestRunner::deterministic();
    let strategy = (file(), request());
    let (mut matched, mut deep, mut shared, mut ended, mut replacing) = (0, 0, 0, 0, 0);
    for _ in 0..1000 {
        let (file, request) = strategy.new_tree(&mut runner).unwrap().current();
        let text = file_text(&file, |number| number);
        let envoy = domain(&text);
        let entries = entries(&request);
        let descriptor = Descriptor::new(&entries, 1);
        if let Some(rule) =
            find_by_levels(&envoy, &descriptor).filter(|rule| answer(rule, &entries).is_some())
        {
            matched += 1;
            deep += usize::from(entries.len() > 1);
            shared += usize::from(limits(rule).iter().any(|limit| limit.key.parts().len() < entries.len()));
            replacing += usize::from(!rule.replaces.is_empty());
        }
        let native = domain(&convert("envoy.yaml", &text).unwrap().text);
        ended +=
            usize::from(find_in_list(&native, &descriptor).is_some_and(|rule| rule.name.ends_with("/...")));
    }
    let counts =
        format!("{matched} found, {deep} deep, {shared} shared, {ended} ended, {replacing} replacing");
    assert!(matched > 200 && deep > 50 && shared > 30 && ended > 30 && replacing > 30, "{counts}");
}
