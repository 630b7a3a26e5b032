//! Finds rules level by level. A table has what envoyproxy/ratelimit answers, and the tree is compared with the
//! simplest way to walk the same descriptors.

#![cfg(feature = "rules")]

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::rules::{Descriptor, DescriptorTree, Entry, EntryPatterns, Pattern, Rule};

/// A rule with these entries: `key=value`, a wildcard if the value has a star, or a `key` without value.
fn rule(path: &[&str]) -> Rule {
    let patterns = path.iter().map(|entry| match entry.split_once('=') {
        None => ((*entry).into(), Pattern::Any),
        Some((key, value)) => (key.into(), pattern(value)),
    });
    Rule {
        name: path.join("/").into(),
        entries: Some(EntryPatterns { patterns: patterns.collect(), allows_more: false }),
        ..Rule::default()
    }
}

fn pattern(value: &str) -> Pattern {
    Pattern::wildcard(value).unwrap_or_else(|_| Pattern::Exact(value.into()))
}

fn placeholder(path: &[&str]) -> Rule {
    Rule { is_placeholder: true, ..rule(path) }
}

/// The name of the rule that a descriptor finds, or an empty text.
fn found_rule(rules: &[Rule], descriptor: &[(&str, &str)]) -> String {
    let entries: Vec<Entry<'_>> = descriptor.iter().map(|(key, value)| Entry { key, value }).collect();
    let index = DescriptorTree::new(rules).find(&Descriptor::new(&entries, 1));
    index.map(|index| rules[index as usize].name.to_string()).unwrap_or_default()
}

#[test]
fn an_exact_value_comes_before_a_wildcard_and_a_wildcard_before_the_bare_key() {
    let rules = [rule(&["path"]), rule(&["path=/a*"]), rule(&["path=/a/b"])];
    assert_eq!(found_rule(&rules, &[("path", "/a/b")]), "path=/a/b");
    assert_eq!(found_rule(&rules, &[("path", "/a/c")]), "path=/a*");
    assert_eq!(found_rule(&rules, &[("path", "/c")]), "path");
    assert_eq!(found_rule(&rules, &[("path", "")]), "path");
    assert_eq!(found_rule(&rules, &[("host", "/a/b")]), "");
}

#[test]
fn the_first_wildcard_that_matches_is_taken_not_the_longest() {
    let rules = [rule(&["path=/a*"]), rule(&["path=/a/b*"]), rule(&["path=*c*d"])];
    assert_eq!(found_rule(&rules, &[("path", "/a/b/1")]), "path=/a*");
    assert_eq!(found_rule(&rules, &[("path", "c-d")]), "path=*c*d");
    assert_eq!(found_rule(&rules, &[("path", "cd")]), "path=*c*d");
    assert_eq!(found_rule(&rules, &[("path", "dc")]), "");
}

#[test]
fn a_star_at_the_end_of_a_key_stands_for_the_rest_of_key_and_value() {
    let rules = [rule(&["tenant-*", "path"]), rule(&["user_a*"]), rule(&["user"]), rule(&["user=x*"])];
    assert_eq!(found_rule(&rules, &[("tenant-7", "x"), ("path", "/")]), "tenant-*/path");
    assert_eq!(found_rule(&rules, &[("tenant", "7"), ("path", "/")]), "");
    assert_eq!(found_rule(&rules, &[("user", "ann")]), "user_a*", "the value follows an underscore");
    assert_eq!(found_rule(&rules, &[("user", "bob")]), "user");
    let rules = [rule(&["a=x*"]), rule(&["a*"]), rule(&["a=xy*"]), rule(&["a=1"]), rule(&["a"])];
    assert_eq!(found_rule(&rules, &[("a", "xy")]), "a=x*", "the first wildcard, in a value or a key");
    assert_eq!(found_rule(&rules, &[("a", "y")]), "a*", "before the key without value");
    assert_eq!(found_rule(&rules, &[("a", "1")]), "a=1", "after an exact value");
    assert_eq!(found_rule(&rules, &[("ab", "")]), "a*");
    let rules = [rule(&["*"]), rule(&["a=1"])];
    assert_eq!(found_rule(&rules, &[("anything", "at all")]), "*");
    assert_eq!(found_rule(&rules, &[("a", "1")]), "a=1");
    let with_value = [rule(&["a*=1"])];
    assert_eq!(found_rule(&with_value, &[("ab", "1")]), "", "with a value, the star is a plain character");
    assert_eq!(found_rule(&with_value, &[("a*", "1")]), "a*=1");
}

#[test]
fn a_rule_is_found_at_its_own_depth_only() {
    let rules = [rule(&["a=1"]), rule(&["b=1", "c=1"])];
    assert_eq!(found_rule(&rules, &[("a", "1")]), "a=1");
    assert_eq!(found_rule(&rules, &[("a", "1"), ("c", "1")]), "");
    assert_eq!(found_rule(&rules, &[("b", "1")]), "");
    assert_eq!(found_rule(&rules, &[("b", "1"), ("c", "1")]), "b=1/c=1");
    assert_eq!(found_rule(&rules, &[("c", "1"), ("b", "1")]), "");
    assert_eq!(found_rule(&rules, &[]), "");
}

#[test]
fn the_lookup_never_backtracks() {
    let rules = [rule(&["a=1", "b=1"]), rule(&["a", "c"]), rule(&["a"])];
    assert_eq!(found_rule(&rules, &[("a", "2"), ("c", "1")]), "a/c");
    assert_eq!(found_rule(&rules, &[("a", "1"), ("c", "1")]), "", "`a=1` has no `c` below it");
    assert_eq!(found_rule(&rules, &[("a", "1")]), "", "`a=1` has no rule itself");
    assert_eq!(found_rule(&rules, &[("a", "2")]), "a");
}

#[test]
fn a_placeholder_is_in_the_tree_and_is_not_found() {
    let rules = [placeholder(&["user=root"]), rule(&["user"]), rule(&["user", "path"])];
    assert_eq!(found_rule(&rules, &[("user", "root")]), "");
    assert_eq!(found_rule(&rules, &[("user", "root"), ("path", "/")]), "");
    assert_eq!(found_rule(&rules, &[("user", "alice")]), "user");
    assert_eq!(found_rule(&rules, &[("user", "alice"), ("path", "/")]), "user/path");
}

#[test]
fn a_key_may_repeat_below_itself() {
    let rules = [rule(&["a=1", "a=2"]), rule(&["a=1", "a", "a"])];
    assert_eq!(found_rule(&rules, &[("a", "1"), ("a", "2")]), "a=1/a=2");
    assert_eq!(found_rule(&rules, &[("a", "1"), ("a", "2"), ("a", "3")]), "");
    assert_eq!(found_rule(&rules, &[("a", "1"), ("a", "3"), ("a", "3")]), "a=1/a/a");
}

#[test]
fn the_first_of_two_rules_with_the_same_entries_is_found() {
    let twins = [rule(&["a=1*", "b"]), Rule { name: "second".into(), ..rule(&["a=1*", "b"]) }];
    assert_eq!(found_rule(&twins, &[("a", "12"), ("b", "")]), "a=1*/b");
}

#[test]
fn rules_that_the_tree_cannot_hold_are_not_found() {
    let prefix = Rule {
        entries: Some(EntryPatterns {
            patterns: vec![("a".into(), Pattern::Prefix("1".into()))],
            allows_more: false,
        }),
        ..Rule::default()
    };
    let empty =
        Rule { entries: Some(EntryPatterns { patterns: Vec::new(), allows_more: true }), ..Rule::default() };
    let rules = [prefix, empty, Rule::default(), rule(&["a"])];
    assert_eq!(found_rule(&rules, &[("a", "1")]), "a");
    assert_eq!(found_rule(&rules, &[]), "");
}

/// A descriptor in a rules file.
#[derive(Clone, Debug)]
struct ModelNode {
    key: &'static str,
    value: Option<String>,
    has_rule: bool,
    below: Vec<ModelNode>,
}

/// What envoyproxy/ratelimit does, as simply as possible: the path of the rule that is found.
fn walk(level: &[ModelNode], entries: &[(&str, String)]) -> Option<Vec<String>> {
    let ((key, value), rest) = entries.split_first()?;
    let with_key = || level.iter().filter(|node| node.key == *key);
    let has_matching_wildcard = |node: &&ModelNode| match &node.value {
        Some(text) => node.key == *key && text.contains('*') && is_like(text, value),
        None => node.key.ends_with('*') && is_like(node.key, &format!("{key}_{value}")),
    };
    let node = with_key()
        .find(|node| node.value.as_ref() == Some(value))
        .or_else(|| level.iter().find(has_matching_wildcard))
        .or_else(|| with_key().find(|node| node.value.is_none()))?;
    let own =
        node.value.as_ref().map_or_else(|| node.key.to_owned(), |value| format!("{}={value}", node.key));
    match rest {
        [] => node.has_rule.then(|| vec![own]),
        _ => walk(&node.below, rest).map(|below| [vec![own], below].concat()),
    }
}

/// Matches a wildcard by trying everything that a star can stand for.
fn is_like(text: &str, value: &str) -> bool {
    match text.chars().next() {
        None => value.is_empty(),
        Some('*') => {
            let ends = (0..=value.len()).filter(|end| value.is_char_boundary(*end));
            ends.into_iter().any(|end| is_like(&text[1..], &value[end..]))
        }
        Some(c) => value.strip_prefix(c).is_some_and(|rest| is_like(&text[c.len_utf8()..], rest)),
    }
}

/// Converts descriptors to rules, each before the ones below it.
fn flatten(level: &[ModelNode], above: &[String], rules: &mut Vec<Rule>) {
    for node in level {
        let own =
            node.value.as_ref().map_or_else(|| node.key.to_owned(), |value| format!("{}={value}", node.key));
        let path = [above, &[own]].concat();
        if node.has_rule || node.below.is_empty() {
            let entries: Vec<&str> = path.iter().map(String::as_str).collect();
            rules.push(Rule { is_placeholder: !node.has_rule, ..rule(&entries) });
        }
        flatten(&node.below, &path, rules);
    }
}

fn key() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("a"), 1 => Just("b")]
}

/// A key and a value of a descriptor in a file. A key with a star has no value.
fn key_and_value() -> impl Strategy<Value = (&'static str, Option<String>)> {
    let wildcard = prop::sample::select(vec!["*", "x*", "*y", "*é*", "x*y", "*x*y*", "**"]);
    let exact = prop::sample::select(vec!["x", "y", "xy", "é"]);
    let value = prop::option::of(prop_oneof![exact, wildcard].prop_map(str::to_owned));
    let key_wildcard = prop::sample::select(vec!["*", "a*", "b*", "a_*", "a_x*"]);
    prop_oneof![8 => (key(), value), 1 => key_wildcard.prop_map(|key| (key, None))]
}

fn level() -> impl Strategy<Value = Vec<ModelNode>> {
    let leaf = (key_and_value(), prop::bool::weighted(0.7)).prop_map(|((key, value), has_rule)| ModelNode {
        key,
        value,
        has_rule,
        below: Vec::new(),
    });
    let one = leaf.prop_recursive(3, 32, 4, move |below| {
        (key_and_value(), prop::bool::weighted(0.5), vec(below, 1..5)).prop_map(
            |((key, value), has_rule, below)| ModelNode { key, value, has_rule, below: distinct(below) },
        )
    });
    vec(one, 1..6).prop_map(distinct)
}

/// Removes duplicate descriptors from each level.
fn distinct(mut level: Vec<ModelNode>) -> Vec<ModelNode> {
    let mut seen = Vec::new();
    level.retain(|node| {
        let own = (node.key, node.value.clone());
        let new = !seen.contains(&own);
        seen.push(own);
        new
    });
    level
}

fn request() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let value = prop::sample::select(vec!["x", "y", "xy", "é", "xéy", "yx", ""]).prop_map(str::to_owned);
    vec((key(), value), 0..4)
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn the_tree_finds_what_the_walk_finds(top in level(), requests in vec(request(), 1..20)) {
        let mut rules = Vec::new();
        flatten(&top, &[], &mut rules);
        for request in requests {
            let entries: Vec<(&str, &str)> = request.iter().map(|(key, value)| (*key, value.as_str())).collect();
            let expected = walk(&top, &request).map(|path| path.join("/")).unwrap_or_default();
            prop_assert_eq!(found_rule(&rules, &entries), expected);
        }
    }
}

#[test]
fn a_fair_share_of_the_requests_finds_something() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut found, mut deep) = (0, 0);
    for _ in 0..1000 {
        let mut new = |strategy: BoxedStrategy<_>| strategy.new_tree(&mut runner).unwrap().current();
        let (top, request) = new((level(), request()).boxed());
        let path = walk(&top, &request);
        found += usize::from(path.is_some());
        deep += usize::from(path.is_some_and(|path| path.len() > 1));
    }
    assert!(found > 100 && deep > 20, "{found} found, {deep} of them below the first level");
}
