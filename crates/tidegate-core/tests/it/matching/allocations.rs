//! Matching allocates nothing if few rules match and the descriptor has a usual size.

use allocation_counter::measure;
use tidegate_core::rules::{Apply, CaseSensitivity, EntryPatterns, Pattern, Rule, RuleIndex, RuleMatches};

use crate::matching::{exact, nets, paths, rule, with_descriptor};

/// Some thousand rules of every kind.
fn sample_rules() -> Vec<Rule> {
    let mut rules = vec![rule(&[]), rule(&[("user", exact("nobody").negated())])];
    for number in 0..500 {
        let (tenant, user) = (format!("t{}", number % 20), format!("u{number}"));
        let path = Pattern::path(&format!("/a{}/{{id}}/**", number / 20)).unwrap();
        rules.push(rule(&[("user", exact(&user))]));
        rules.push(rule(&[("tenant", exact(&tenant)), ("method", exact("GET")), ("path", path)]));
        rules.push(rule(&[("user", Pattern::one_of([user.as_str(), "x", "y"]).unwrap())]));
        rules.push(rule(&[("path", Pattern::prefix(&format!("/a{number}/")).unwrap())]));
        rules.push(rule(&[
            ("host", Pattern::wildcard(&format!("*.{tenant}.example")).unwrap()),
            ("user", exact(&user)),
        ]));
        rules.push(rule(&[("ip", nets(&[&format!("10.{}.{}.0/24", number / 256, number % 256)]))]));
        let patterns = vec![("method".into(), exact("GET")), ("path".into(), exact(&format!("/a{number}")))];
        rules.push(Rule { entries: Some(EntryPatterns { patterns, allows_more: true }), ..Rule::default() });
    }
    rules
}

#[test]
fn common_requests_allocate_nothing() {
    let rules = sample_rules();
    let index = RuleIndex::new(&rules);
    let mut matches = RuleMatches::new();
    let path = "/a7/1234/items?page=2";
    let entries = [
        ("method", "GET"),
        ("path", path),
        ("host", "API.t7.Example"),
        ("ip", "10.0.7.9"),
        ("user", "u7"),
        ("tenant", "t7"),
        ("header.X-Plan", "free"),
    ];
    with_descriptor(&entries, |descriptor| {
        for apply in [Apply::All, Apply::First] {
            let allocated = measure(|| index.matching_rules(&rules, descriptor, apply, &mut matches));
            assert_eq!(allocated.count_total, 0, "{apply:?}");
            assert!(matches.len() <= 8, "more would allocate");
        }
        index.matching_rules(&rules, descriptor, Apply::All, &mut matches);
        assert_eq!(matches.len(), 8, "one of every kind except entries: {matches:?}");
    });
}

/// Rules that are found by path patterns, and others whose path patterns are checked after they are found.
#[test]
fn several_path_patterns_allocate_nothing() {
    let mut rules = Vec::new();
    for number in 0..500 {
        let (own, other) = (format!("/a{number}/*/items"), format!("/b{number}/**"));
        let user = ("user", exact(&format!("u{number}")));
        rules.push(rule(&[("path", paths(&[&own, &other, "/c/{id}"]))]));
        rules.push(rule(&[user.clone(), ("path", paths(&[&own, "/{id}/**", "/**"]))]));
        rules.push(rule(&[user, ("path", paths(&[&other, "/*/x/**"]).negated())]));
    }
    let index = RuleIndex::new(&rules);
    let mut matches = RuleMatches::new();
    with_descriptor(&[("path", "/a7/1234/items?page=2"), ("user", "u7")], |descriptor| {
        let allocated = measure(|| index.matching_rules(&rules, descriptor, Apply::All, &mut matches));
        assert_eq!((matches.as_slice(), allocated.count_total), ([21, 22, 23].as_slice(), 0));
    });
}

/// Shows that the counter does count allocations.
#[test]
fn allocations_are_detected() {
    let rules: Vec<Rule> = (0..100).map(|_| rule(&[])).collect();
    let index = RuleIndex::new(&rules);
    let mut matches = RuleMatches::new();
    let allocated = with_descriptor(&[("a", "b")], |descriptor| {
        measure(|| index.matching_rules(&rules, descriptor, Apply::All, &mut matches))
    });
    assert!(allocated.count_total > 0);
    let regex = Pattern::regex("a+", CaseSensitivity::Sensitive);
    assert!(measure(|| drop(regex.clone())).count_total > 0);
}
