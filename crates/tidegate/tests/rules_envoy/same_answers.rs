//! Random files and random requests: the native file answers as the file it is made from.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tidegate::rules::envoy::convert;
use tidegate_core::rules::{Apply, Descriptor, Domain, Entry, KeyPart, Levels, Pattern, Rule};

use super::{domain, limits};

/// A descriptor of a file.
#[derive(Clone, Debug)]
struct Node {
    key: &'static str,
    value: Option<&'static str>,
    shared: bool,
    limit: Limit,
    mode: &'static str,
    name: Option<&'static str>,
    replaces: Vec<&'static str>,
    below: Vec<Node>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    None,
    Unlimited,
    Some,
    Several,
}

const VALUES: [&str; 6] = ["x", "y", "xy", "yes", "{x}", "1"];
const WILDCARDS: [&str; 6] = ["*", "x*", "*y", "x*y", "*{*", "**"];
const NAMES: [&str; 3] = ["n", "m", "l/l"];

fn key() -> impl Strategy<Value = &'static str> {
    prop_oneof![20 => Just("a"), 2 => Just("b"), 1 => select(vec!["ip", "path", "entry.1"])]
}

fn node(below: BoxedStrategy<Vec<Node>>) -> impl Strategy<Value = Node> {
    let value = prop_oneof![
        3 => Just(None),
        4 => select(&VALUES[..]).prop_map(Some),
        3 => select(&WILDCARDS[..]).prop_map(Some)
    ];
    let limit = prop_oneof![
        3 => Just(Limit::None), 1 => Just(Limit::Unlimited), 6 => Just(Limit::Some), 1 => Just(Limit::Several)
    ];
    let mode = select(vec!["", "", "shadow_mode: true, ", "quota_mode: true, "]);
    let names = (prop::option::of(select(&NAMES[..])), vec(select(&NAMES[..]), 0..2));
    (key(), value, any::<bool>(), limit, mode, names, below).prop_map(
        |(key, value, shared, limit, mode, (name, replaces), below)| Node {
            shared: shared && value.is_some_and(|value| value.contains('*')),
            replaces: replaces.into_iter().filter(|replaced| name != Some(*replaced)).collect(),
            below: distinct(below),
            key,
            value,
            limit,
            mode,
            name,
        },
    )
}

fn file() -> impl Strategy<Value = Vec<Node>> {
    let leaf = node(Just(Vec::new()).boxed());
    let one = leaf.prop_recursive(3, 48, 6, |below| node(vec(below, 1..6).boxed()));
    vec(one, 1..7).prop_map(distinct)
}

/// No two descriptors beside each other are the same.
fn distinct(mut level: Vec<Node>) -> Vec<Node> {
    let mut seen = BTreeSet::new();
    level.retain(|node| seen.insert((node.key, node.value)));
    level
}

type Request = Vec<(&'static str, String)>;

fn request() -> impl Strategy<Value = Request> {
    let known = select(&VALUES[..]).prop_map(str::to_owned);
    let value = prop_oneof![3 => known, 1 => "[xy{}]{0,3}", 1 => Just("xxy".to_owned())];
    let length = prop_oneof![1 => Just(0), 8 => Just(1), 12 => Just(2), 6 => Just(3), 1 => Just(4)];
    length.prop_flat_map(move |length| vec((key(), value.clone()), length))
}

/// The file as text. Each limit has a number of its own.
fn written(level: &[Node], indent: usize, limits: &mut u32, text: &mut String) {
    for node in level {
        let value = node.value.map(|value| format!("value: {}, ", escaped(value))).unwrap_or_default();
        *limits += 1;
        let name = node.name.map(|name| format!("name: {name}, ")).unwrap_or_default();
        let replaces: Vec<String> = node.replaces.iter().map(|name| format!("{{ name: {name} }}")).collect();
        let of_limit = format!("{name}replaces: [ {} ]", replaces.join(", "));
        let limit = match node.limit {
            Limit::None => String::new(),
            Limit::Unlimited => format!("rate_limit: {{ unlimited: true, {of_limit} }}, "),
            Limit::Some => format!("rate_limit: {{ unit: hour, requests_per_unit: {limits}, {of_limit} }}, "),
            Limit::Several => format!(
                "rate_limit: {{ unit: day, requests_per_unit: {limits}, {of_limit} }}, \
                 tidegate: {{ cost: 3, limits: [ 5 per second, {{ limit: 7 per day, key: [], name: seven }} ] }}, "
            ),
        };
        let shared = if node.shared { "share_threshold: true, " } else { "" };
        let spaces = " ".repeat(indent);
        text.push_str(&format!(
            "{spaces}- {{ key: {}, {value}{shared}{}{limit}descriptors: [\n",
            node.key, node.mode
        ));
        let mut below = String::new();
        written(&node.below, indent + 2, limits, &mut below);
        text.push_str(&below.replace("- {", "  {"));
        text.push_str(&format!("{spaces}] }}"));
        text.push_str(if indent == 0 { "\n" } else { ",\n" });
    }
}

fn escaped(text: &str) -> String {
    let escape =
        |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("\\U{:08x}", u32::from(c)) };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

fn text_of(file: &[Node]) -> String {
    let mut text = "domain: d\ndescriptors:\n".to_owned();
    written(file, 0, &mut 0, &mut text);
    text
}

/// What is charged for a descriptor, and what is not for it. Nothing: no limit applies.
#[derive(Debug, PartialEq)]
struct Answer {
    charges: Vec<Charge>,
    replaces: BTreeSet<String>,
}

#[derive(Debug, PartialEq)]
struct Charge {
    limit: String,
    terms: String,
    /// The values that make the key, by their places in the descriptor; those that the rule fixes left out.
    key: BTreeSet<(usize, String)>,
}

fn answer(rule: &Rule, descriptor: &[Entry<'_>]) -> Option<Answer> {
    let patterns = &rule.entries.as_ref().unwrap().each;
    let charges = limits(rule).iter().map(|limit| {
        let place = |part: &KeyPart| match part {
            KeyPart::Entry(place) => *place,
            KeyPart::Attribute(attribute) => {
                descriptor.iter().position(|entry| attribute.is_named(entry.key)).unwrap()
            }
            other => panic!("{other}"),
        };
        let places = limit.key.parts().iter().map(place);
        let varying = places.filter(|place| !matches!(patterns[*place].1, Pattern::Exact(_)));
        Charge {
            limit: limit.limit.to_string(),
            terms: format!("{:?} {:?}", limit.cost, limit.action),
            key: varying.map(|place| (place, descriptor[place].value.to_owned())).collect(),
        }
    });
    let replaces = rule.replaces.iter().map(|name| name.to_string()).collect();
    let answer = Answer { charges: charges.collect(), replaces };
    (!answer.charges.is_empty() || !answer.replaces.is_empty()).then_some(answer)
}

/// By levels, as envoyproxy/ratelimit does.
fn by_levels<'d>(domain: &'d Domain, descriptor: &Descriptor<'_>) -> Option<&'d Rule> {
    Some(&domain.rules[Levels::new(&domain.rules).find(descriptor)? as usize])
}

/// The first that matches.
fn by_list<'d>(domain: &'d Domain, descriptor: &Descriptor<'_>) -> Option<&'d Rule> {
    assert_eq!(domain.apply, Apply::First);
    domain.rules.iter().find(|rule| rule.mismatch(descriptor).is_none())
}

fn entries(request: &Request) -> Vec<Entry<'_>> {
    request.iter().map(|(key, value)| Entry { key, value }).collect()
}

proptest! {
    #[test]
    fn the_native_file_answers_as_the_first_one(file in file(), requests in vec(request(), 1..30)) {
        let text = text_of(&file);
        let envoy = domain(&text);
        let native = convert("envoy.yaml", &text).unwrap_or_else(|report| panic!("{text}\n{report}"));
        let native_domain = domain(&native.text);
        for request in requests {
            let entries = entries(&request);
            let descriptor = Descriptor { entries: &entries, cost: 1 };
            let expected = by_levels(&envoy, &descriptor).and_then(|rule| answer(rule, &entries));
            let answered = by_list(&native_domain, &descriptor).and_then(|rule| answer(rule, &entries));
            prop_assert_eq!(answered, expected, "{:?}\n{}\n{}", request, text, native.text);
        }
    }

    #[test]
    fn text_is_written_so_that_it_is_read_as_it_was(
        texts in vec("[\\PC\\n\\t\\r\\x00\\x1f\\x7f\u{85}\u{2028}\u{feff}:#'\"\\\\{}*&!|>%@` ,-]{1,6}", 3),
    ) {
        let [domain_name, key, value] = &texts[..] else { unreachable!() };
        prop_assume!(domain_name.trim() == domain_name && !domain_name.chars().any(char::is_control));
        prop_assume!(!key.trim().is_empty());
        let text = format!(
            "domain: {}\ndescriptors: [ {{ key: {}, value: {}, rate_limit: {{ unit: day, requests_per_unit: 1 }} }} ]",
            escaped(domain_name), escaped(key), escaped(value)
        );
        let native = domain(&convert("envoy.yaml", &text).unwrap_or_else(|report| panic!("{report}")).text);
        let envoy = domain(&text);
        prop_assert_eq!(&native.name, &envoy.name);
        prop_assert_eq!(&native.rules[0].entries, &envoy.rules[0].entries);
    }
}

#[test]
fn a_fair_share_of_the_requests_finds_something() {
    let mut runner = TestRunner::deterministic();
    let strategy = (file(), request());
    let (mut found, mut deep, mut shared, mut ended, mut replacing) = (0, 0, 0, 0, 0);
    for _ in 0..1000 {
        let (file, request) = strategy.new_tree(&mut runner).unwrap().current();
        let text = text_of(&file);
        let envoy = domain(&text);
        let entries = entries(&request);
        let descriptor = Descriptor { entries: &entries, cost: 1 };
        if let Some(rule) = by_levels(&envoy, &descriptor).filter(|rule| answer(rule, &entries).is_some()) {
            found += 1;
            deep += usize::from(entries.len() > 1);
            shared += usize::from(limits(rule).iter().any(|limit| limit.key.parts().len() < entries.len()));
            replacing += usize::from(!rule.replaces.is_empty());
        }
        let native = domain(&convert("envoy.yaml", &text).unwrap().text);
        ended += usize::from(by_list(&native, &descriptor).is_some_and(|rule| rule.name.ends_with("/...")));
    }
    let counts = format!("{found} found, {deep} deep, {shared} shared, {ended} ended, {replacing} replacing");
    assert!(found > 200 && deep > 50 && shared > 30 && ended > 30 && replacing > 30, "{counts}");
}
