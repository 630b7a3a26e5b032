//! The message for a rule that does not match.

use tidegate_core::rules::{CaseSensitivity, EntryPatterns, Mismatch, Pattern, Rule};

use crate::matching::{exact, nets, paths, rule, with_descriptor};

/// Why a rule does not match a descriptor, or `matches`.
fn mismatch_text(rule: &Rule, entries: &[(&str, &str)]) -> String {
    with_descriptor(entries, |descriptor| {
        rule.mismatch(descriptor).map_or("matches".to_owned(), |mismatch| mismatch.to_string())
    })
}

#[test]
fn a_mismatch_names_the_value_and_the_pattern() {
    let one_of = |values: &[&str]| Pattern::one_of(values.iter().copied()).unwrap();
    let table = [
        ("method", exact("POST"), "GET", "method is GET, not POST"),
        ("plan", exact("5"), "6", "plan is \"6\", not \"5\""),
        ("plan", exact(""), "a b", "plan is \"a b\", not \"\""),
        ("method", one_of(&["GET", "HEAD"]), "PUT", "method is PUT, not GET or HEAD"),
        ("x", one_of(&["a", "b", "c", "d", "e", "f"]), "g", "x is g, not a, b, c, d or 2 more"),
        (
            "path",
            Pattern::prefix("/api/").unwrap(),
            "/x?y",
            "path is \"/x?y\", which does not begin with /api/",
        ),
        ("host", Pattern::wildcard("*.com").unwrap(), "a.org", "host is a.org, not like *.com"),
        (
            "x",
            Pattern::regex("v[0-9]+", CaseSensitivity::Sensitive).unwrap(),
            "v",
            "x is v, which does not match v[0-9]+",
        ),
        (
            "path",
            Pattern::path("/users/{id}").unwrap(),
            "/users",
            "path is /users, which does not match /users/{id}",
        ),
        (
            "path",
            paths(&["/users/{id}", "/login"]),
            "/users",
            "path is /users, which does not match /login or /users/{id}",
        ),
        (
            "path",
            paths(&["/a", "/b", "/c", "/d", "/e/*", "/f"]),
            "/g",
            "path is /g, which does not match /a, /b, /c, /d or 2 more",
        ),
        ("path", paths(&["/a/**", "/b"]).negated(), "/a", "path is /a, which is excluded"),
        ("ip", nets(&["10.0.0.0/8", "::1"]), "1.1.1.1", "ip is \"1.1.1.1\", not in 10.0.0.0/8 or ::1"),
        ("user", Pattern::Absent, "bob", "user is bob, but must be absent"),
        ("user", exact("bob").negated(), "bob", "user is bob, which { not: bob } excludes"),
        ("user", one_of(&["a", "b"]).negated(), "a", "user is a, which is excluded"),
        ("user", exact("a"), &"b".repeat(100), &format!("user is {}..., not a", "b".repeat(80))),
    ];
    for (name, pattern, value, expected) in table {
        assert_eq!(mismatch_text(&rule(&[(name, pattern)]), &[(name, value)]), expected);
    }
}

#[test]
fn missing_attributes_are_reported() {
    for pattern in [exact("a"), Pattern::Any, Pattern::prefix("a").unwrap(), Pattern::Absent.negated()] {
        assert_eq!(
            mismatch_text(&rule(&[("header.X-User", pattern)]), &[("user", "a")]),
            "header.x-user is missing"
        );
    }
}

#[test]
fn all_values_are_listed() {
    let tagged = rule(&[("tag", exact("x"))]);
    assert_eq!(mismatch_text(&tagged, &[("tag", "a"), ("tag", "b")]), "tag is a and b, not x");
    assert_eq!(
        mismatch_text(&tagged, &[("tag", "a"), ("tag", "b"), ("tag", "c")]),
        "tag is a, b and c, not x"
    );
    assert_eq!(mismatch_text(&tagged, &[("tag", "a"); 1_000]), "tag is a, a, a, a and 996 more, not x");
}

#[test]
fn the_first_failing_condition_is_reported() {
    let rule = rule(&[("a", exact("1x")), ("b", exact("p")), ("c", exact("z"))]);
    assert_eq!(mismatch_text(&rule, &[("c", "z"), ("b", "p"), ("a", "1x")]), "matches");
    assert_eq!(mismatch_text(&rule, &[("b", "q"), ("a", "1x")]), "b is q, not p");
    with_descriptor(&[("b", "q"), ("a", "1x")], |descriptor| {
        let Some(Mismatch::Attribute { attribute, actual, .. }) = rule.mismatch(descriptor) else {
            panic!("b")
        };
        assert_eq!(attribute.to_string(), "b");
        assert_eq!(actual.values().collect::<Vec<_>>(), ["q"]);
    });
}

#[test]
fn mismatches_of_entries_name_the_entry() {
    let patterns = vec![("database".into(), exact("users")), ("user".into(), Pattern::Any)];
    let closed = Rule {
        entries: Some(EntryPatterns { patterns: patterns.clone(), allows_more: false }),
        ..Rule::default()
    };
    let open = Rule { entries: Some(EntryPatterns { patterns, allows_more: true }), ..Rule::default() };
    let (database, user, more) = (("database", "users"), ("user", "7"), ("more", ""));

    assert_eq!(mismatch_text(&closed, &[database, user]), "matches");
    assert_eq!(mismatch_text(&open, &[database, user]), "matches");
    assert_eq!(mismatch_text(&open, &[database, user, more]), "matches");
    assert_eq!(mismatch_text(&closed, &[database, user, more]), "has 3 entries, not 2");
    assert_eq!(mismatch_text(&closed, &[database]), "has 1 entry, not 2");
    assert_eq!(mismatch_text(&open, &[database]), "has 1 entry, not at least 2");
    assert_eq!(mismatch_text(&closed, &[user, database]), "entry 1 is named user, not database");
    assert_eq!(
        mismatch_text(&closed, &[("database", "Users"), user]),
        "entry 1, database, is Users, not users"
    );
    assert_eq!(mismatch_text(&closed, &[database, ("User", "7")]), "entry 2 is named User, not user");
}

#[test]
fn entries_are_compared_unchanged() {
    let rule = |name: &str, pattern: Pattern| {
        let patterns = vec![(name.into(), pattern)];
        Rule { entries: Some(EntryPatterns { patterns, allows_more: false }), ..Rule::default() }
    };
    assert_eq!(
        mismatch_text(&rule("method", exact("GET")), &[("method", "get")]),
        "entry 1, method, is get, not GET"
    );
    assert_ne!(mismatch_text(&rule("path", exact("/a")), &[("path", "/a?b")]), "matches");
    assert_ne!(mismatch_text(&rule("header.a", exact("b")), &[("header.A", "b")]), "matches");
    assert_eq!(mismatch_text(&rule("ip", nets(&["10.0.0.0/8"])), &[("ip", "10.1.1.1")]), "matches");
    assert_ne!(mismatch_text(&rule("user", Pattern::Absent), &[("user", "a")]), "matches", "it is present");
    assert_eq!(mismatch_text(&rule("user", exact("a").negated()), &[("user", "b")]), "matches");
    let empty =
        || Rule { entries: Some(EntryPatterns { patterns: vec![], allows_more: false }), ..Rule::default() };
    assert_eq!(mismatch_text(&empty(), &[]), "matches");
    assert_eq!(mismatch_text(&empty(), &[("a", "b")]), "has 1 entry, not 0");
}

#[test]
fn conditions_and_entries_must_both_match() {
    let mut both = rule(&[("plan", exact("free"))]);
    both.entries = Some(EntryPatterns { patterns: vec![("user".into(), Pattern::Any)], allows_more: true });
    assert_eq!(mismatch_text(&both, &[("user", "7"), ("plan", "free")]), "matches");
    assert_eq!(mismatch_text(&both, &[("plan", "free"), ("user", "7")]), "entry 1 is named plan, not user");
    assert_eq!(mismatch_text(&both, &[("user", "7")]), "plan is missing");
    assert_eq!(mismatch_text(&Rule::default(), &[("a", "b")]), "matches");
    assert_eq!(mismatch_text(&Rule::default(), &[]), "matches");
}
