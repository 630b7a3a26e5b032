//! A pattern as a rules file writes it, read back.

use proptest::prelude::*;
use tidegate_core::rules::{CaseSensitivity, Net, PathPattern, Pattern, Wildcard};

use crate::matching::{exact, nets, paths};

#[test]
fn patterns_are_written_as_in_a_rules_file() {
    let table = [
        (exact("POST"), "POST"),
        (exact("5"), "\"5\""),
        (exact("true"), "\"true\""),
        (exact(""), "\"\""),
        (exact("a\"\\\n\u{1}é"), "\"a\\\"\\\\\\n\\u0001é\""),
        (exact("{x}"), "{ exact: \"{x}\" }"),
        (Pattern::one_of(["HEAD", "GET", "x y"]).unwrap(), "[GET, HEAD, \"x y\"]"),
        (Pattern::prefix("/api/").unwrap(), "{ prefix: /api/ }"),
        (Pattern::wildcard("10.0.*").unwrap(), "{ wildcard: \"10.0.*\" }"),
        (Pattern::regex(r"v\d", CaseSensitivity::Sensitive).unwrap(), r#"{ regex: "v\\d" }"#),
        (Pattern::path("/login").unwrap(), "/login"),
        (Pattern::path("/users/{id}/*/**").unwrap(), "\"/users/{id}/*/**\""),
        (paths(&["/users/{id}", "/v1/**", "/login"]), "[/login, \"/users/{id}\", \"/v1/**\"]"),
        (paths(&["/*"]), "[\"/*\"]"),
        (paths(&["/a b", "/*"]).negated(), "{ not: [\"/*\", \"/a b\"] }"),
        (nets(&["10.0.0.0/8"]), "10.0.0.0/8"),
        (nets(&["::1", "10.0.0.1"]), "[10.0.0.1, \"::1\"]"),
        (Pattern::Any, "{ exists: true }"),
        (Pattern::Absent, "{ exists: false }"),
        (exact("a").negated(), "{ not: a }"),
        (Pattern::Not(Box::new(Pattern::prefix("b").unwrap().negated())), "{ not: { not: { prefix: b } } }"),
    ];
    for (pattern, text) in table {
        assert_eq!(pattern.to_string(), text);
        assert_eq!(parse(text, PatternKind::of(&pattern)), pattern, "{text}");
    }
}

/// What a plain value means. It depends on the attribute, which a reader knows.
#[derive(Clone, Copy)]
enum PatternKind {
    Text,
    Path,
    Ip,
}

impl PatternKind {
    fn of(pattern: &Pattern) -> Self {
        match pattern {
            Pattern::Path(_) | Pattern::Paths(_) => Self::Path,
            Pattern::Nets(_) => Self::Ip,
            Pattern::Not(inner) => Self::of(inner),
            _ => Self::Text,
        }
    }
}

/// Reads a pattern, with the simplest possible reader.
fn parse(text: &str, kind: PatternKind) -> Pattern {
    if let Some(list) = text.strip_prefix('[') {
        let items = items(list.strip_suffix(']').unwrap());
        return match kind {
            PatternKind::Ip => Pattern::nets(items.iter().map(|item| Net::parse(item).unwrap())).unwrap(),
            PatternKind::Path => {
                Pattern::paths(items.iter().map(|item| PathPattern::parse(item).unwrap())).unwrap()
            }
            PatternKind::Text => Pattern::one_of(items).unwrap(),
        };
    }
    let Some((name, value)) =
        text.strip_prefix("{ ").and_then(|map| map.strip_suffix(" }")?.split_once(": "))
    else {
        let value = scalar(text);
        return match kind {
            PatternKind::Text => exact(&value),
            PatternKind::Path => Pattern::path(&value).unwrap(),
            PatternKind::Ip => Pattern::nets([Net::parse(&value).unwrap()]).unwrap(),
        };
    };
    match (name, value) {
        ("not", inner) => Pattern::Not(Box::new(parse(inner, kind))),
        ("exists", "true") => Pattern::Any,
        ("exists", "false") => Pattern::Absent,
        ("exact", value) => exact(&scalar(value)),
        ("prefix", value) => Pattern::prefix(&scalar(value)).unwrap(),
        ("wildcard", value) => Pattern::wildcard(&scalar(value)).unwrap(),
        ("regex", value) => Pattern::regex(&scalar(value), CaseSensitivity::Sensitive).unwrap(),
        _ => panic!("`{name}` of {text}"),
    }
}

/// A value, plain or in double quotes.
fn scalar(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"') else {
        assert!(!text.contains(['"', ',', '[', ']', '{', '}', ' ', '#', ':']), "not plain: {text}");
        return text.to_owned();
    };
    let mut chars = inner.strip_suffix('"').unwrap().chars();
    let mut value = String::new();
    while let Some(c) = chars.next() {
        assert!(c != '"' && !c.is_control(), "within quotes: {text}");
        let Some(escaped) = (c == '\\').then(|| chars.next().unwrap()) else {
            value.push(c);
            continue;
        };
        value.push(match escaped {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let digits: String = chars.by_ref().take(4).collect();
                char::from_u32(u32::from_str_radix(&digits, 16).unwrap()).unwrap()
            }
            other => other,
        });
    }
    value
}

/// The values of a list, separated by commas outside of quotes.
fn items(list: &str) -> Vec<String> {
    let (mut items, mut start, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (index, c) in list.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                items.push(scalar(list[start..index].trim()));
                start = index + 1;
            }
            _ => {}
        }
    }
    items.push(scalar(list[start..].trim()));
    items
}

fn patterns() -> impl Strategy<Value = Pattern> {
    let text = || "[ -~]{0,8}|\\PC{0,8}|[a-z*{}\"\\\\\n\u{85}\u{2028}]{0,6}";
    prop_oneof![
        text().prop_map(|text| exact(&text)),
        prop::collection::vec(text(), 1..5).prop_map(|values| Pattern::one_of(values).unwrap()),
        text().prop_filter_map("nothing", |text| Pattern::prefix(&text).ok()),
        text().prop_map(|text| Pattern::wildcard(&format!("{text}*")).unwrap()),
        text().prop_filter_map("no regex", |text| Pattern::regex(&text, CaseSensitivity::Sensitive).ok()),
        path_text().prop_filter_map("no path", |text| Pattern::path(&text).ok()),
        prop::collection::vec(path_text(), 1..5).prop_filter_map("no paths", |texts| {
            Pattern::paths(texts.iter().filter_map(|text| PathPattern::parse(text).ok())).ok()
        }),
        prop::collection::vec(net_text(), 1..5).prop_filter_map("no blocks", |texts| {
            Pattern::nets(texts.iter().map(|text| Net::parse(text)).collect::<Result<Vec<_>, _>>().ok()?).ok()
        }),
        Just(Pattern::Any),
        Just(Pattern::Absent),
    ]
}

fn path_text() -> impl Strategy<Value = String> {
    "(/[a-c]{0,2}|/\\*|/\\{[a-c]\\}|/é :){1,4}(/\\*\\*)?|/[ -~]{0,8}"
}

fn net_text() -> impl Strategy<Value = String> {
    prop_oneof![
        (any::<u32>(), 0..=32u32).prop_map(|(bits, prefix)| {
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            format!("{}/{prefix}", std::net::Ipv4Addr::from_bits(bits & mask))
        }),
        (any::<u128>(), 0..=128u32).prop_map(|(bits, prefix)| {
            let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
            format!("{}/{prefix}", std::net::Ipv6Addr::from_bits(bits & mask))
        }),
    ]
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn every_pattern_is_read_back(pattern in patterns(), is_negated: bool) {
        let pattern = if is_negated { pattern.negated() } else { pattern };
        let text = pattern.to_string();
        prop_assert_eq!(parse(&text, PatternKind::of(&pattern)), pattern, "{}", text);
    }

    #[test]
    fn paths_wildcards_and_address_blocks_are_written_as_read(path in path_text(), net in net_text(), wildcard in "[a-c*]{0,8}") {
        if let Ok(parsed) = PathPattern::parse(&path) {
            prop_assert_eq!(parsed.to_string(), path);
        }
        if let Ok(parsed) = Wildcard::new(&wildcard) {
            prop_assert_eq!(parsed.to_string(), wildcard);
        }
        let parsed = Net::parse(&net).unwrap();
        prop_assert_eq!(Net::parse(&parsed.to_string()).unwrap(), parsed);
    }

    #[test]
    fn no_text_makes_a_constructor_panic(text in "\\PC{0,40}|[/{}*?#a1.:]{0,40}|[(\\[)\\]*+?{}|a0-9\\\\,]{0,40}") {
        let _ = PathPattern::parse(&text);
        let _ = Net::parse(&text);
        let _ = Pattern::wildcard(&text);
        let _ = Pattern::regex(&text, CaseSensitivity::Sensitive);
        let _ = Pattern::regex(&text, CaseSensitivity::Insensitive);
        let _ = Pattern::prefix(&text);
        let _ = Pattern::one_of([text.as_str()]);
        let _ = Pattern::exact(&text);
    }
}
