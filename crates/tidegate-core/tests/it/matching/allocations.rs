//! Matching allocates nothing, as long as few rules match and a descriptor has a usual size.

use allocation_counter::measure;
use tidegate_core::rules::{Apply, Case, Entries, Index, Matches, Pattern, Rule};

use crate::matching::{exact, nets, paths, rule, with_descriptor};

/// Rules of every kind, some thousands.
fn rulebook() -> Vec<Rule> {
    let mut rules = vec![rule(&[]), rule(&[("user", exact("nobody").negated())])];
    for number in 0..500 {
        let (tenant, user) = (format!("t{}", number % 20), format!("u{number}"));
        let shape = Pattern::path(&format!("/a{}/{{id}}/**", number / 20)).unwrap();
        rules.push(rule(&[("user", exact(&user))]));
        rules.push(rule(&[("tenant", exact(&tenant)), ("method", exact("GET")), ("path", shape)]));
        rules.push(rule(&[("user", Pattern::one_of([user.as_str(), "x", "y"]).unwrap())]));
        rules.push(rule(&[("path", Pattern::prefix(&format!("/a{number}/")).unwrap())]));
        rules.push(rule(&[
            ("host", Pattern::wildcard(&format!("*.{tenant}.example")).unwrap()),
            ("user", exact(&user)),
        ]));
        rules.push(rule(&[("ip", nets(&[&format!("10.{}.{}.0/24", number / 256, number % 256)]))]));
        let each = vec![("method".into(), exact("GET")), ("path".into(), exact(&format!("/a{number}")))];
        rules.push(Rule { entries: Some(Entries { each, open: true }), ..Rule::default() });
    }
    rules
}

#[test]
fn the_common_way_allocates_nothing() {
    let rules = rulebook();
    let index = Index::new(&rules);
    let mut matches = Matches::new();
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
            let allocated = measure(|| index.matching(&rules, descriptor, apply, &mut matches));
            assert_eq!(allocated.count_total, 0, "{apply:?}");
            assert!(matches.len() <= 8, "it takes no allocation");
        }
        index.matching(&rules, descriptor, Apply::All, &mut matches);
        assert_eq!(matches.len(), 8, "one of every kind but entries: {matches:?}");
    });
}

/// Rules that are found by their shapes, and others whose shapes are checked when they are found.
#[test]
fn several_shapes_of_a_path_allocate_nothing() {
    let mut rules = Vec::new();
    for number in 0..500 {
        let (own, other) = (format!("/a{number}/*/items"), format!("/b{number}/**"));
        let user = ("user", exact(&format!("u{number}")));
        rules.push(rule(&[("path", paths(&[&own, &other, "/c/{id}"]))]));
        rules.push(rule(&[user.clone(), ("path", paths(&[&own, "/{id}/**", "/**"]))]));
        rules.push(rule(&[user, ("path", paths(&[&other, "/*/x/**"]).negated())]));
    }
    let index = Index::new(&rules);
    let mut matches = Matches::new();
    with_descriptor(&[("path", "/a7/1234/items?page=2"), ("user", "u7")], |descriptor| {
        let allocated = measure(|| index.matching(&rules, descriptor, Apply::All, &mut matches));
        assert_eq!((matches.as_slice(), allocated.count_total), ([21, 22, 23].as_slice(), 0));
    });
}

/// So that a counter that counts nothing is noticed.
#[test]
fn what_does_allocate_is_counted() {
    let rules: Vec<Rule> = (0..100).map(|_| rule(&[])).collect();
    let index = Index::new(&rules);
    let mut matches = Matches::new();
    let allocated = with_descriptor(&[("a", "b")], |descriptor| {
        measure(|| index.matching(&rules, descriptor, Apply::All, &mut matches))
    });
    assert!(allocated.count_total > 0);
    let regex = Pattern::regex("a+", Case::Kept);
    assert!(measure(|| drop(regex.clone())).count_total > 0);
}
