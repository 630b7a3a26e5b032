//! Cases of the index that are easy to get wrong, and hostile descriptors.

use tidegate_core::rules::{Apply, Attribute, EntryPatterns, Pattern, Rule, RuleIndex, RuleMatches};

use crate::matching::{exact, nets, paths, rule, with_descriptor};

fn matching_rules(rules: &[Rule], entries: &[(&str, &str)]) -> Vec<u32> {
    let mut matches = RuleMatches::new();
    with_descriptor(entries, |descriptor| {
        RuleIndex::new(rules).matching_rules(rules, descriptor, Apply::All, &mut matches);
        for (number, rule) in (0u32..).zip(rules) {
            let is_found = matches.contains(&number);
            assert_eq!(rule.mismatch(descriptor).is_none(), is_found, "rule {number} and {entries:?}");
        }
    });
    matches.to_vec()
}

const NONE: [u32; 0] = [];

#[test]
fn an_index_without_rules_and_a_descriptor_without_entries_work() {
    assert_eq!(matching_rules(&[], &[("a", "b")]), NONE);
    assert_eq!(matching_rules(&[Rule::default(), rule(&[("a", exact("b"))])], &[]), [0]);
}

/// In a combined token, a value that is required twice would cancel itself.
#[test]
fn a_condition_may_occur_twice() {
    let twice = |other: &str| rule(&[("a", exact("1")), ("a", exact("1")), ("b", exact(other))]);
    let mut rules: Vec<Rule> = (0..20).map(|number| twice(&number.to_string())).collect();
    rules.push(rule(&[("b", exact("7"))]));
    rules.push(rule(&[("a", Pattern::one_of(["1", "2"]).unwrap()), ("a", exact("1")), ("b", exact("7"))]));
    assert_eq!(matching_rules(&rules, &[("b", "7")]), [20]);
    assert_eq!(matching_rules(&rules, &[("b", "7"), ("a", "1")]), [7, 20, 21]);
    assert_eq!(matching_rules(&rules, &[("b", "7"), ("a", "2")]), [20]);

    // The same where rules have to be distinguished.
    let third = |number: usize| {
        let values =
            [("a", exact("1")), ("a", exact("1")), ("b", exact("7")), ("c", exact(["x", "y"][number % 2]))];
        rule(&values)
    };
    let rules: Vec<Rule> = (0..20).map(third).collect();
    assert_eq!(matching_rules(&rules, &[("a", "1"), ("b", "7"), ("c", "x")]).len(), 10);
    assert_eq!(matching_rules(&rules, &[("a", "2"), ("b", "7"), ("c", "x")]), NONE);
    assert_eq!(matching_rules(&rules, &[("b", "7"), ("c", "x")]), NONE);
}

#[test]
fn rules_are_distinguished_by_combinations_of_values() {
    let names: Vec<String> = (0..10).map(|number| format!("v{number}")).collect();
    let mut rules = Vec::new();
    for tenant in &names {
        for path in &names {
            for method in ["GET", "POST"] {
                let path = Pattern::path(&format!("/{path}/{{id}}")).unwrap();
                rules.push(rule(&[("tenant", exact(tenant)), ("method", exact(method)), ("path", path)]));
            }
        }
    }
    let request = |tenant, method, path| [("tenant", tenant), ("method", method), ("path", path)];
    assert_eq!(matching_rules(&rules, &request("v3", "get", "/v7/x")), [3 * 20 + 7 * 2]);
    assert_eq!(matching_rules(&rules, &request("v3", "POST", "/v7/x")), [3 * 20 + 7 * 2 + 1]);
    assert_eq!(matching_rules(&rules, &request("v3", "PUT", "/v7/x")), NONE);
    assert_eq!(matching_rules(&rules, &request("v3", "GET", "/v7/x/y")), NONE);
    // All values for every name: more combinations than are tried.
    let all: Vec<(&str, &str)> = names.iter().map(|name| ("tenant", &**name)).collect();
    let all =
        [all.as_slice(), &[("method", "GET"), ("method", "POST"), ("path", "/v1/x"), ("path", "/v2/x")]]
            .concat();
    assert_eq!(matching_rules(&rules, &all).len(), 10 * 2 * 2);
}

/// A path that matches several patterns of a rule leads to the rule by each of them, and the rule matches once.
#[test]
fn a_rule_with_several_path_patterns_matches_once() {
    let mut rules = vec![
        rule(&[("path", paths(&["/**", "/a/**", "/*/{id}", "/a/{x}", "/a/b"]))]),
        rule(&[("path", paths(&["/a/{x}", "/c"])), ("method", exact("GET"))]),
        rule(&[("path", paths(&["/a/*", "/c"]).negated())]),
        rule(&[("path", Pattern::path("/*/b").unwrap())]),
    ];
    assert_eq!(matching_rules(&rules, &[("path", "/a/b")]), [0, 3]);
    assert_eq!(matching_rules(&rules, &[("path", "/a/b"), ("method", "get")]), [0, 1, 3]);
    assert_eq!(matching_rules(&rules, &[("path", "/c"), ("path", "/a/b"), ("method", "GET")]), [0, 1, 3]);
    assert_eq!(matching_rules(&rules, &[("path", "c")]), [2]);
    // Many rules that are distinguished by their tenants, with common path patterns and with patterns that differ only
    // in names.
    for number in 0..40 {
        let own = format!("/own{number}/**");
        let patterns = paths(&["/a/{x}", "/a/{y}", "/shared/*", &own]);
        rules.push(rule(&[("tenant", exact(&format!("t{}", number % 20))), ("path", patterns)]));
    }
    assert_eq!(matching_rules(&rules, &[("path", "/a/b"), ("tenant", "t7")]), [0, 3, 11, 31]);
    assert_eq!(matching_rules(&rules, &[("path", "/own27/x/y"), ("tenant", "t7")]), [0, 2, 31]);
    assert_eq!(matching_rules(&rules, &[("path", "/own27/x/y"), ("tenant", "t8")]), [0, 2]);
}

/// More slot sets than are used to distinguish the rules of one value.
#[test]
fn rules_with_many_slot_sets_are_found() {
    let mut rules = Vec::new();
    for set in 0..40 {
        for value in 0..6 {
            let name = format!("a{set}");
            rules.push(rule(&[("plan", exact("free")), (&name, exact(&format!("{}", value % 2)))]));
        }
    }
    assert_eq!(matching_rules(&rules, &[("plan", "free"), ("a3", "1"), ("a39", "0")]).len(), 6);
    assert_eq!(matching_rules(&rules, &[("plan", "paid"), ("a3", "1"), ("a39", "0")]).len(), 0);
}

#[test]
fn prefixes_and_suffixes_of_more_lengths_than_are_looked_up_are_found() {
    let text = "abcdefghij".repeat(10);
    let mut rules: Vec<Rule> =
        (1..=100).map(|length| rule(&[("x", Pattern::prefix(&text[..length]).unwrap())])).collect();
    let end = |length: usize| Pattern::wildcard(&format!("*{}", &text[100 - length..])).unwrap();
    rules.extend((1..=100).map(|length| rule(&[("x", end(length))])));
    assert_eq!(matching_rules(&rules, &[("x", &text)]).len(), 200);
    assert_eq!(matching_rules(&rules, &[("x", &text[..57])]).len(), 57, "prefixes");
    assert_eq!(matching_rules(&rules, &[("x", &text[43..])]).len(), 57, "suffixes");
    assert_eq!(matching_rules(&rules, &[("x", "b")]), NONE);
    for length in 1..100 {
        // The lookup may use only a part of the required text.
        assert_eq!(matching_rules(&rules, &[("x", &format!("{}!", &text[..length]))]).len(), length);
        assert_eq!(matching_rules(&rules, &[("x", &format!("!{}", &text[100 - length..]))]).len(), length);
    }
}

#[test]
fn wildcards_with_several_stars_are_found() {
    let like = |text: &str| rule(&[("x", Pattern::wildcard(text).unwrap())]);
    let rules = [
        like("a*"),
        like("*z"),
        like("a*m*"),
        like("*m*z"),
        like("a*z"),
        like("a*m*z"),
        like("*m*"),
        like("*"),
    ];
    assert_eq!(matching_rules(&rules, &[("x", "amz")]), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(matching_rules(&rules, &[("x", "az")]), [0, 1, 4, 7]);
    assert_eq!(matching_rules(&rules, &[("x", "a")]), [0, 7]);
    assert_eq!(matching_rules(&rules, &[("x", "z")]), [1, 7]);
    assert_eq!(matching_rules(&rules, &[("x", "")]), [7]);
}

#[test]
fn attributes_that_no_name_produces_are_matched() {
    let by_hand = |attribute: Attribute| {
        let mut rule = rule(&[("a", exact("b"))]);
        rule.conditions[0].attribute = attribute;
        rule
    };
    let rules = [
        by_hand(Attribute::Plain("method".into())),
        by_hand(Attribute::Method),
        by_hand(Attribute::Header("X-Y".into())),
        by_hand(Attribute::Plain("header.x-y".into())),
        by_hand(Attribute::Header("".into())),
    ];
    assert_eq!(matching_rules(&rules, &[("method", "B")]), [1]);
    assert_eq!(matching_rules(&rules, &[("method", "b")]), [0, 1]);
    assert_eq!(matching_rules(&rules, &[("header.x-y", "b")]), [2, 3]);
    assert_eq!(matching_rules(&rules, &[("header.X-Y", "b")]), [2]);
    assert_eq!(matching_rules(&rules, &[("header.", "b")]), NONE);
}

#[test]
fn entries_are_matched_by_position() {
    let entries = |patterns: &[(&str, Pattern)], allows_more| {
        let patterns = patterns.iter().map(|(name, pattern)| ((*name).into(), pattern.clone())).collect();
        Rule { entries: Some(EntryPatterns { patterns, allows_more }), ..Rule::default() }
    };
    let rules = [
        entries(&[("a", exact("1"))], false),
        entries(&[("a", exact("1"))], true),
        entries(&[("a", exact("1")), ("a", exact("1"))], false),
        entries(&[("b", Pattern::Any), ("a", exact("1"))], false),
        entries(&[("a", exact("1").negated())], true),
        entries(&[], true),
        entries(&[], false),
    ];
    assert_eq!(matching_rules(&rules, &[("a", "1")]), [0, 1, 5]);
    assert_eq!(matching_rules(&rules, &[("a", "1"), ("a", "1")]), [1, 2, 5]);
    assert_eq!(matching_rules(&rules, &[("b", "x"), ("a", "1")]), [3, 5]);
    assert_eq!(matching_rules(&rules, &[("a", "2"), ("b", "1")]), [4, 5]);
    assert_eq!(matching_rules(&rules, &[]), [5, 6]);
}

#[test]
fn rules_that_the_index_was_not_made_of_match_nothing() {
    let rules = [rule(&[("a", exact("1").negated())]), rule(&[("a", Pattern::wildcard("*x*").unwrap())])];
    let index = RuleIndex::new(&rules);
    let mut matches = RuleMatches::new();
    with_descriptor(&[("a", "x")], |descriptor| {
        index.matching_rules(&rules, descriptor, Apply::All, &mut matches);
        assert_eq!(matches.as_slice(), [0, 1]);
        index.matching_rules(&[], descriptor, Apply::All, &mut matches);
        assert_eq!(matches.as_slice(), NONE);
    });
}

/// The time for a descriptor with ten thousand entries is not asserted, but a naive search would not finish.
#[test]
fn hostile_descriptors_are_matched() {
    let mut rules = Vec::new();
    for number in 0..5_000 {
        let value = number.to_string();
        rules.push(rule(&[("user", exact(&value)), ("plan", exact("free")), ("region", exact("eu"))]));
        rules.push(rule(&[
            ("path", Pattern::prefix("/api/").unwrap()),
            ("tag", Pattern::one_of([value, "t".into()]).unwrap()),
        ]));
        rules.push(rule(&[("path", Pattern::path("/api/**").unwrap()), ("ip", nets(&["10.0.0.0/8"]))]));
    }
    let values: Vec<String> = (0..10_000).map(|number| (number / 2).to_string()).collect();
    let paths: Vec<String> = values.iter().map(|value| format!("/api/{value}")).collect();
    let index = RuleIndex::new(&rules);
    let mut matches = RuleMatches::new();
    for name in ["user", "plan", "tag", "ip", "header.x"] {
        let mut entries: Vec<(&str, &str)> = values.iter().map(|value| (name, &**value)).collect();
        entries.extend([("user", "7"), ("plan", "free"), ("region", "eu")]);
        entries.extend(paths.iter().map(|path| ("path", &**path)));
        with_descriptor(&entries, |descriptor| {
            index.matching_rules(&rules, descriptor, Apply::All, &mut matches);
        });
        let expected = match name {
            "user" => 5_000,
            "tag" => 5_001,
            _ => 1,
        };
        assert_eq!(matches.len(), expected, "{name}");
    }
    let deep = "/api".repeat(100_000);
    with_descriptor(&[("path", &deep), ("ip", "10.0.0.1")], |descriptor| {
        index.matching_rules(&rules, descriptor, Apply::All, &mut matches);
    });
    assert_eq!(matches.len(), 5_000);
}

#[test]
fn a_hundred_thousand_rules_are_indexed() {
    let rules: Vec<Rule> = (0..100_000)
        .map(|number| {
            let path = Pattern::path(&format!("/service{}/{{id}}/action{}", number % 1_000, number / 1_000))
                .unwrap();
            rule(&[("method", exact("GET")), ("path", path)])
        })
        .collect();
    let index = RuleIndex::new(&rules);
    let mut matches = RuleMatches::new();
    with_descriptor(&[("path", "/service123/7/action45?x"), ("method", "GET")], |descriptor| {
        index.matching_rules(&rules, descriptor, Apply::All, &mut matches);
    });
    assert_eq!(matches.as_slice(), [45_123]);
}

#[test]
fn sets_of_a_hundred_thousand_entries_are_indexed() {
    let users = Pattern::one_of((0..100_000).map(|number| format!("user{number}"))).unwrap();
    let blocks =
        (0..100_000u32).map(|number| format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255));
    let blocks = nets(&blocks.collect::<Vec<_>>().iter().map(|text| &**text).collect::<Vec<_>>());
    let rules = [rule(&[("user", users)]), rule(&[("ip", blocks)])];
    assert_eq!(matching_rules(&rules, &[("user", "user77777"), ("ip", "10.1.0.7")]), [0, 1]);
    assert_eq!(matching_rules(&rules, &[("user", "user100000"), ("ip", "10.2.0.7")]), NONE);
}
