//! Which values each pattern matches.

use tidegate_core::rules::{CaseSensitivity, Net, PathPattern, Pattern, REGEX_VALUE_BYTES_MAX, path_segment};

use crate::matching::{exact, holds, nets, paths, rule, with_descriptor};

/// Tries a pattern on values that must match, and on values that must not.
fn check(attribute: &str, pattern: &Pattern, matching: &[&str], not_matching: &[&str]) {
    for value in matching {
        assert!(holds(attribute, pattern, &[(attribute, value)]), "{attribute} {pattern} and `{value}`");
    }
    for value in not_matching {
        assert!(!holds(attribute, pattern, &[(attribute, value)]), "{attribute} {pattern} and not `{value}`");
    }
    assert!(!holds(attribute, pattern, &[("other", matching[0])]), "{attribute} {pattern} and nothing");
}

#[test]
fn exact_values_match_themselves() {
    check("plan", &exact("free"), &["free"], &["Free", "fre", "freer", ""]);
    check("method", &exact("POST"), &["POST", "post", "Post"], &["PUT", "POS"]);
    check("method", &exact("post"), &["POST"], &["GET"]);
    check("host", &exact("api.example.com"), &["API.Example.COM"], &["example.com", "api.example.com:80"]);
    check(
        "path",
        &exact("/login"),
        &["/login", "/login?next=/", "/login#top"],
        &["/Login", "/login/", "/logi"],
    );
    check("path", &exact("/{x}"), &["/{x}"], &["/a"]);
    check("header.x-plan", &exact("free"), &["free"], &["Free"]);
    check("empty", &exact(""), &[""], &["a"]);
}

#[test]
fn names_of_headers_ignore_case() {
    for name in ["header.x-plan", "header.X-Plan", "header.X-PLAN"] {
        assert!(holds("header.X-plan", &exact("free"), &[(name, "free")]), "{name}");
    }
    assert!(!holds("Plan", &exact("free"), &[("plan", "free")]), "other names do not");
    assert!(!holds("header.x", &exact("free"), &[("Header.x", "free")]), "nor does `header.`");
}

#[test]
fn sets_match_each_of_their_values() {
    let letters = Pattern::one_of(["b", "C", "a", "b", "c"]).unwrap();
    check("plan", &letters, &["a", "b", "c", "C"], &["A", "B", "d", ""]);
    let methods = Pattern::one_of(["GET", "head", "Put"]).unwrap();
    check("method", &methods, &["get", "HEAD", "PUT"], &["POST", "GE"]);
    check("path", &Pattern::one_of(["/a", "/b"]).unwrap(), &["/a?x", "/b#y"], &["/c", "/A"]);

    let Pattern::OneOf(set) = letters else { panic!("a set") };
    assert_eq!(set.values().len(), 4, "none twice: {:?}", set.values());
}

#[test]
fn large_sets_match() {
    let set = Pattern::one_of((0..100_000).map(|number| format!("user{number}"))).unwrap();
    check("user", &set, &["user0", "user7", "user99999"], &["user100000", "user", "User7"]);
}

#[test]
fn prefixes_match_the_start_of_a_value() {
    let api = Pattern::prefix("/api/").unwrap();
    check("path", &api, &["/api/", "/api/x", "/api/x?/no"], &["/api", "/api?/", "/Api/x", ""]);
    check("host", &Pattern::prefix("API.").unwrap(), &["api.example.com", "Api."], &["ap", "apix"]);
    check("plan", &Pattern::prefix("ü").unwrap(), &["üb"], &["u", "Ã", "ö"]);
}

#[test]
fn stars_match_any_characters() {
    let like = |text: &str| Pattern::wildcard(text).unwrap();
    check("x", &like("10.0.*"), &["10.0.", "10.0.7"], &["10.0", "110.0.1", "10.1.0"]);
    check("x", &like("*"), &["", "a"], &[]);
    check("x", &like("*b"), &["b", "ab", "abb"], &["", "ba"]);
    check("x", &like("a*a"), &["aa", "aba", "aaa"], &["a", "ab"]);
    check("x", &like("a*b*c"), &["abc", "aXbXc", "abbc", "abcbc"], &["ac", "acb", "bc", "abC"]);
    check("x", &like("**"), &["", "x"], &[]);
    check("x", &like("*ab*ab*"), &["abab", "xabxabx", "ababab"], &["ab", "aba", "abba"]);
    check("x", &like("*ö*"), &["ö", "xöx"], &["o", "Ö"]);
    check(
        "host",
        &like("*.Example.com"),
        &["a.example.COM", ".example.com"],
        &["example.com", "a.example.org"],
    );
    check("host", &like("a*B*c"), &["AxbxC", "abc"], &["ac", "acb"]);
    check("path", &like("/a*z"), &["/az", "/a/b/z?q"], &["/a?z", "/az/"]);
}

#[test]
fn regular_expressions_match_whole_values() {
    let regex = |text: &str| Pattern::regex(text, CaseSensitivity::Sensitive).unwrap();
    check("x", &regex("v[0-9]+"), &["v1", "v22"], &["v", "xv1", "v1x", "V1", "v1\n"]);
    check("x", &regex("a|ab"), &["a", "ab"], &["b", "aab"]);
    check("x", &regex("(?m)^a$"), &["a"], &["a\nb", "b\na"]);
    check("x", &regex(""), &[""], &["a"]);
    check("x", &regex(r"\d+|\w"), &["12", "é"], &["é1"]);
    check("path", &regex("/a.*"), &["/a", "/ab?c"], &["/b?/a"]);
    let ignoring = Pattern::regex("get|p.t", CaseSensitivity::Insensitive).unwrap();
    check("method", &ignoring, &["GET", "get", "PUT", "Pat"], &["POST", "GETS"]);
}

#[test]
fn path_patterns_match_by_segment() {
    let path = |text: &str| Pattern::path(text).unwrap();
    check("path", &path("/"), &["/", "/?x"], &["", "//", "/a"]);
    check("path", &path("/login"), &["/login", "/login?a=/b"], &["/login/", "/Login", "login", "/"]);
    check("path", &path("/a/"), &["/a/"], &["/a", "/a//", "/a/b"]);
    check(
        "path",
        &path("/users/{id}"),
        &["/users/7", "/users/*"],
        &["/users/", "/users", "/users/7/", "/users/7/x"],
    );
    check("path", &path("/*/x/*"), &["/a/x/b"], &["/a/x/", "//x/b", "/a/y/b", "/a/x/b/c"]);
    check(
        "path",
        &path("/users/{id}/**"),
        &["/users/7", "/users/7/", "/users/7/a/b"],
        &["/users", "/users/", "/users//a"],
    );
    check("path", &path("/**"), &["/", "/a", "//", "/a/b?c"], &["", "a", "?/a"]);
    check("path", &path("/a//b"), &["/a//b"], &["/a/b", "/a/x/b"]);
    check("path", &path("//**"), &["/", "//", "//a"], &["/a"]);
}

#[test]
fn path_sets_match_each_of_their_patterns() {
    let set = paths(&["/v1/**", "/users/{id}", "/login", "/users/{name}", "/users/me/keys", "/login"]);
    check(
        "path",
        &set,
        &["/v1", "/v1/", "/v1/a/b?c", "/users/7", "/users/me", "/users/me/keys", "/login", "/login?next=/"],
        &["/", "", "/v2", "/users", "/users/", "/users/me/", "/users/you/keys", "/login/", "/Login", "login"],
    );
    let Pattern::Paths(set) = set else { panic!("paths") };
    let texts: Vec<String> = set.paths().iter().map(PathPattern::to_string).collect();
    assert_eq!(texts, ["/login", "/users/{id}", "/users/{name}", "/users/me/keys", "/v1/**"]);

    check("path", &paths(&["/a/b/c", "/*/x"]), &["/a/b/c", "/a/x", "/b/x"], &["/a/b", "/a/x/c", "//x"]);
    check("path", &paths(&["/", "/a/"]), &["/", "/a/", "/?x"], &["/a", "//", "/a//"]);
    check("path", &paths(&["/a", "/a/**"]), &["/a", "/a/b"], &["/", "/b"]);
    check("path", &paths(&["/b", "/**"]), &["/", "/a", "//"], &["", "a"]);
    check("path", &paths(&["/*/**"]), &["/a", "/a/"], &["/", "//a"]);
    assert!(holds("path", &paths(&["/a/*", "/b"]).negated(), &[("path", "/a")]));
    assert!(!holds("path", &paths(&["/a/*", "/b"]).negated(), &[("path", "/a/b")]));
}

/// A path takes a few steps per segment, and one with thousands of segments takes no more than the longest pattern.
#[test]
fn large_path_sets_match() {
    let pattern = |number: usize| PathPattern::parse(&format!("/v{}/{{id}}/r{number}", number % 7)).unwrap();
    let set = Pattern::paths((0..100_000).map(pattern)).unwrap();
    check("path", &set, &["/v0/x/r0", "/v1/y/r99996"], &["/v1/y/r0", "/v0/x/r100002", "/v0//r0"]);
    check("path", &set, &["/v3/a/r3"], &[&"/v3/a".repeat(100_000)]);
}

#[test]
fn segments_are_found_by_name_and_by_index() {
    let pattern = PathPattern::parse("/orgs/{org}/*/{user-id}/**").unwrap();
    assert_eq!(pattern.segment_of("org"), Some(1));
    assert_eq!(pattern.segment_of("user-id"), Some(3));
    assert_eq!(pattern.segment_of("orgs"), None);

    assert_eq!(path_segment("/orgs/7/x?y/z", 1), Some("7"));
    assert_eq!(path_segment("/orgs/7/x?y/z", 2), Some("x"));
    assert_eq!(path_segment("/orgs/7/x?y/z", 3), None);
    assert_eq!(path_segment("/orgs//x", 1), None, "an empty segment");
    assert_eq!(path_segment("/", 0), None);
    assert_eq!(path_segment("orgs/7", 0), None, "not a path");
    assert_eq!(path_segment("", usize::MAX), None);
}

/// A long value is not compared. The condition holds, so that a client does not escape a limit with a long value.
#[test]
fn a_value_too_long_for_a_regex_matches_it_and_its_negation() {
    let regex = Pattern::regex("[ab]*", CaseSensitivity::Sensitive).unwrap();
    let (longest, too_long) = ("c".repeat(REGEX_VALUE_BYTES_MAX), "c".repeat(REGEX_VALUE_BYTES_MAX + 1));
    let both = |entries: &[(&str, &str)]| {
        [holds("x", &regex, entries), holds("x", &regex.clone().negated(), entries)]
    };
    assert_eq!(both(&[("x", &longest)]), [false, true]);
    assert_eq!(both(&[("x", &too_long)]), [true, true]);
    assert_eq!(both(&[("x", &longest), ("x", &too_long)]), [true, true]);
    assert_eq!(both(&[("y", &too_long)]), [false, true]);
    // Only the part of a path before the query is compared.
    let path = format!("/a?{too_long}");
    assert!(!holds("path", &regex, &[("path", &path)]));
    let rule = rule(&[("x", regex.negated())]);
    for (value, is_unread) in [(&longest, false), (&too_long, true)] {
        assert_eq!(
            with_descriptor(&[("x", value)], |descriptor| rule.has_unread_value(descriptor)),
            is_unread
        );
    }
}

#[test]
fn address_blocks_match_their_addresses() {
    check(
        "ip",
        &nets(&["10.0.0.0/8"]),
        &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3", "10.0.0.1:80", " 10.0.0.1 "],
        &["11.0.0.0", "9.9.9.9", "::10.0.0.1", "10.0.0", "10.0.0.1:", ""],
    );
    check("ip", &nets(&["10.0.0.1"]), &["10.0.0.1"], &["10.0.0.2", "10.0.0.0"]);
    check("ip", &nets(&["2001:db8::/32"]), &["2001:db8::1", "2001:0DB8:ffff::"], &["2001:db9::", "10.0.0.1"]);
    check("ip", &nets(&["0.0.0.0/0"]), &["1.2.3.4", "::ffff:1.2.3.4"], &["::1"]);
    check("ip", &nets(&["::/0"]), &["::1", "2001:db8::"], &["1.2.3.4", "::ffff:1.2.3.4"]);
    check("ip", &nets(&["::ffff:10.0.0.0/104"]), &["10.1.1.1", "::ffff:10.1.1.1"], &["11.1.1.1"]);
    let several =
        nets(&["10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/24", "2001:db8::1", "10.0.0.0/9", "0.0.0.0/32"]);
    check(
        "ip",
        &several,
        &["10.200.0.1", "10.1.0.0", "192.168.0.255", "2001:db8::1", "0.0.0.0"],
        &["192.168.1.0", "172.16.0.1", "2001:db8::2", "0.0.0.1"],
    );
    let Pattern::Nets(set) = several else { panic!("blocks") };
    let texts: Vec<String> = set.nets().iter().map(Net::to_string).collect();
    assert_eq!(texts, ["0.0.0.0", "10.0.0.0/8", "192.168.0.0/24", "2001:db8::1"]);
}

#[test]
fn presence_and_absence_are_matched() {
    assert!(holds("user", &Pattern::Any, &[("user", "")]));
    assert!(!holds("user", &Pattern::Any, &[("users", "a")]));
    assert!(holds("user", &Pattern::Absent, &[("users", "a")]));
    assert!(holds("user", &Pattern::Absent, &[]));
    assert!(!holds("user", &Pattern::Absent, &[("user", "")]));
}

#[test]
fn negations_match_the_opposite() {
    let not = |pattern: Pattern| Pattern::Not(Box::new(pattern));
    assert!(holds("user", &not(exact("a")), &[("user", "b")]));
    assert!(holds("user", &not(exact("a")), &[]));
    assert!(!holds("user", &not(exact("a")), &[("user", "a")]));
    assert!(!holds("user", &not(exact("a")), &[("user", "b"), ("user", "a")]), "none may match");
    assert!(holds("user", &not(not(exact("a"))), &[("user", "b"), ("user", "a")]));
    assert!(!holds("user", &not(not(exact("a"))), &[]));
    assert!(holds("user", &not(Pattern::Absent), &[("user", "")]));
    assert!(holds("user", &not(Pattern::Any), &[]));
    assert_eq!(not(exact("a")).negated(), exact("a"));
    assert_eq!(exact("a").negated(), not(exact("a")));
}

#[test]
fn any_value_of_a_repeated_name_matches() {
    let entries = [("tag", "a"), ("user", "x"), ("tag", "b")];
    assert!(holds("tag", &exact("a"), &entries));
    assert!(holds("tag", &exact("b"), &entries));
    assert!(!holds("tag", &exact("x"), &entries));
    assert!(holds("header.tag", &exact("b"), &[("header.Tag", "a"), ("header.TAG", "b")]));
}
