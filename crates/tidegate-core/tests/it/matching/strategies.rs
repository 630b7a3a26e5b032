//! Random rules and descriptors from a small alphabet, so that they often match.

use proptest::prelude::*;
use tidegate_core::rules::{
    Attribute, Condition, EntryPatterns, Net, PathPattern, Pattern, REGEX_VALUE_BYTES_MAX, Rule,
};

/// The entries of a descriptor.
pub type OwnedEntries = Vec<(String, String)>;

const NAMES: [&str; 9] =
    ["method", "path", "host", "ip", "header.x-plan", "header.X-Plan", "header.y", "user", "plan"];

pub fn rules() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(rule(), 0..24)
}

/// Many rules on the same few attributes, so that the index has to distinguish them.
pub fn crowded_rules() -> impl Strategy<Value = Vec<Rule>> {
    let name = || prop::sample::select(vec!["user", "plan", "method"]);
    let value = || {
        prop_oneof![
            6 => prop::sample::select(vec!["a", "b", "GET"]).prop_map(|value| Pattern::exact(value).unwrap()),
            1 => Just(Pattern::one_of(["a", "b"]).unwrap()),
            1 => Just(Pattern::Any),
        ]
    };
    let conditions = prop::collection::vec((name(), value()), 0..4);
    let path = prop::option::of(path_pattern());
    let rule = (conditions, path).prop_map(|(conditions, path)| {
        let conditions = conditions.into_iter().map(|(name, pattern)| condition(name, pattern));
        let path = path.map(|pattern| condition("path", pattern));
        Rule { conditions: conditions.chain(path).collect(), ..Rule::default() }
    });
    prop::collection::vec(rule, 0..80)
}

pub fn descriptor() -> impl Strategy<Value = OwnedEntries> {
    prop::collection::vec(entry(), 0..8)
}

/// Names that occur many times.
pub fn crowded_descriptor() -> impl Strategy<Value = OwnedEntries> {
    let numbered = (prop::sample::select(vec!["user", "plan", "path"]), 0..40u32)
        .prop_map(|(name, number)| (name.to_owned(), format!("/{number}")));
    prop::collection::vec(prop_oneof![numbered, entry()], 0..160)
}

fn rule() -> impl Strategy<Value = Rule> {
    let conditions = || prop::collection::vec(any_condition(), 0..4);
    let entries = (prop::collection::vec(entry_pattern(), 0..3), any::<bool>())
        .prop_map(|(patterns, allows_more)| Some(EntryPatterns { patterns, allows_more }));
    prop_oneof![
        4 => conditions().prop_map(|conditions| Rule { conditions, ..Rule::default() }),
        1 => (conditions(), entries).prop_map(|(mut conditions, entries)| {
            conditions.truncate(1);
            Rule { conditions, entries, ..Rule::default() }
        }),
    ]
}

fn entry_pattern() -> impl Strategy<Value = (Box<str>, Pattern)> {
    prop::sample::select(NAMES.to_vec()).prop_flat_map(|name| (Just(name.into()), pattern(name)))
}

fn any_condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        12 => prop::sample::select(NAMES.to_vec())
            .prop_flat_map(|name| pattern(name).prop_map(move |pattern| condition(name, pattern))),
        // Attributes that `Attribute::from_name` never returns.
        1 => prop::sample::select(vec![
            Attribute::Plain("method".into()),
            Attribute::Plain("header.y".into()),
            Attribute::Header("X-PLAN".into()),
            Attribute::Header("".into()),
        ]).prop_flat_map(|attribute| {
            pattern("user").prop_map(move |pattern| Condition { attribute: attribute.clone(), pattern })
        }),
    ]
}

fn condition(name: &str, pattern: Pattern) -> Condition {
    Condition { attribute: Attribute::from_name(name), pattern }
}

fn pattern(name: &'static str) -> BoxedStrategy<Pattern> {
    let plain = plain_pattern(name);
    let negated = plain_pattern(name).prop_map(|pattern| Pattern::Not(Box::new(pattern)));
    let twice =
        plain_pattern(name).prop_map(|pattern| Pattern::Not(Box::new(Pattern::Not(Box::new(pattern)))));
    prop_oneof![16 => plain, 3 => negated, 1 => twice].boxed()
}

fn plain_pattern(name: &'static str) -> BoxedStrategy<Pattern> {
    let case = Attribute::from_name(name).case();
    let value = || value(name);
    let special = match name {
        "path" => path_pattern().boxed(),
        "ip" => prop::collection::vec(net(), 1..4).prop_map(|nets| Pattern::nets(nets).unwrap()).boxed(),
        _ => value().prop_map(|value| Pattern::Exact(value.into())).boxed(),
    };
    let cut = || (value(), 0..5usize, 0..5usize);
    prop_oneof![
        4 => special,
        3 => value().prop_map(|value| Pattern::Exact(value.into())),
        3 => prop::collection::vec(value(), 1..4).prop_map(|values| Pattern::one_of(values).unwrap()),
        2 => cut().prop_map(|(value, length, _)| Pattern::Prefix(value.chars().take(length).collect())),
        2 => cut().prop_map(|(value, length, end)| {
            let prefix: String = value.chars().take(length).collect();
            let skipped = value.chars().count().saturating_sub(end);
            let suffix: String = value.chars().skip(skipped).collect();
            Pattern::wildcard(&format!("{prefix}*{suffix}")).unwrap()
        }),
        1 => Just(Pattern::wildcard("*a*").unwrap()),
        1 => prop::sample::select(vec!["[a-c]+", "/.*", "(?i)get|a", "", "é|.."])
            .prop_map(move |text| Pattern::regex(text, case).unwrap()),
        1 => Just(Pattern::Any),
        1 => Just(Pattern::Absent),
    ]
    .boxed()
}

fn value(name: &str) -> BoxedStrategy<String> {
    let from = |values: &[&str]| {
        let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        prop::sample::select(values).boxed()
    };
    match name {
        "method" => from(&["GET", "get", "Post", "POST"]),
        "path" => prop_oneof![path_value(), from(&["/a", "/a?b", "/", "", "a/b", "/a/b#c", "/A"])].boxed(),
        "host" => from(&["a.example", "A.Example", "b.example", "é.example", "example"]),
        "ip" => from(&[
            "10.0.0.1",
            "10.1.2.3",
            "::ffff:10.0.0.1",
            "192.168.1.1",
            "2001:db8::1",
            "::1",
            "10.0.0.1:80",
            " [2001:db8::1]:80",
            "nonsense",
        ]),
        _ => from(&["a", "b", "A", "ab", "abc", "", "é", "b\u{0}"]),
    }
}

pub fn single_path_pattern() -> impl Strategy<Value = PathPattern> {
    path_text().prop_map(|text| PathPattern::parse(&text).unwrap())
}

/// A path pattern, or several that a path may match at the same time.
fn path_pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        2 => single_path_pattern().prop_map(Pattern::Path),
        1 => prop::collection::vec(single_path_pattern(), 1..6).prop_map(|patterns| Pattern::paths(patterns).unwrap()),
    ]
}

pub fn path_value() -> impl Strategy<Value = String> {
    "(/[abA]?){0,4}([?#][a/]?)?"
}

fn path_text() -> impl Strategy<Value = String> {
    prop_oneof![4 => "(/([ab]?|\\*|\\{x\\})){1}(/([ab]?|\\*|\\{y\\})){0,1}(/([ab]?|\\*)){0,1}(/\\*\\*)?", 1 => Just("/**".to_owned())]
}

fn net() -> impl Strategy<Value = Net> {
    let texts = [
        "10.0.0.0/8",
        "10.0.0.0/16",
        "10.0.0.1",
        "10.1.0.0/16",
        "0.0.0.0/0",
        "192.168.0.0/16",
        "::/0",
        "2001:db8::/32",
        "2001:db8::1",
        "::1",
        "::ffff:10.0.0.0/120",
    ];
    prop::sample::select(texts.to_vec()).prop_map(|text| Net::parse(text).unwrap())
}

fn entry() -> impl Strategy<Value = (String, String)> {
    let names = [
        "method",
        "path",
        "host",
        "ip",
        "header.X-PLAN",
        "header.x-plan",
        "header.y",
        "user",
        "plan",
        "other",
    ];
    let too_long = || Just("a".repeat(REGEX_VALUE_BYTES_MAX + 1));
    prop::sample::select(names.to_vec())
        .prop_flat_map(move |name| (Just(name.to_owned()), prop_oneof![30 => value(name), 1 => too_long()]))
}
