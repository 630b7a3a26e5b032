//! Random files for envoyproxy/ratelimit, and random requests that often match them.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A descriptor of a file.
#[derive(Clone, Debug)]
pub struct RandomDescriptor {
    pub key: &'static str,
    pub value: Option<&'static str>,
    pub shared: bool,
    pub limit: RandomLimit,
    /// Unique, in the order of the file from 1.
    pub number: u32,
    pub mode: Mode,
    pub name: Option<&'static str>,
    pub replaces: Vec<&'static str>,
    pub below: Vec<RandomDescriptor>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RandomLimit {
    None,
    Unlimited,
    Some,
    Several,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    Reject,
    Shadow,
    Quota,
}

const VALUES: [&str; 6] = ["x", "y", "xy", "yes", "{x}", "1"];
const WILDCARDS: [&str; 6] = ["*", "x*", "*y", "x*y", "*{*", "**"];
const NAMES: [&str; 3] = ["n", "m", "l/l"];

fn key() -> impl Strategy<Value = &'static str> {
    prop_oneof![20 => Just("a"), 2 => Just("b"), 1 => select(vec!["ip", "path", "entry.1"])]
}

fn node(below: BoxedStrategy<Vec<RandomDescriptor>>) -> impl Strategy<Value = RandomDescriptor> {
    let value = prop_oneof![
        3 => Just(None),
        4 => select(&VALUES[..]).prop_map(Some),
        3 => select(&WILDCARDS[..]).prop_map(Some)
    ];
    let limit = prop_oneof![
        3 => Just(RandomLimit::None), 1 => Just(RandomLimit::Unlimited), 6 => Just(RandomLimit::Some), 1 => Just(RandomLimit::Several)
    ];
    let mode = select(vec![Mode::Reject, Mode::Reject, Mode::Shadow, Mode::Quota]);
    let names = (prop::option::of(select(&NAMES[..])), vec(select(&NAMES[..]), 0..2));
    (key(), value, any::<bool>(), limit, mode, names, below).prop_map(
        |(key, value, shared, limit, mode, (name, replaces), below)| RandomDescriptor {
            shared: shared && value.is_some_and(|value| value.contains('*')),
            replaces: replaces.into_iter().filter(|replaced| name != Some(*replaced)).collect(),
            below: distinct(below),
            key,
            value,
            limit,
            number: 0,
            mode,
            name,
        },
    )
}

pub fn file() -> impl Strategy<Value = Vec<RandomDescriptor>> {
    let leaf = node(Just(Vec::new()).boxed());
    let descriptor = leaf.prop_recursive(3, 48, 6, |below| node(vec(below, 1..6).boxed()));
    vec(descriptor, 1..7).prop_map(|level| {
        let mut level = distinct(level);
        number(&mut level, &mut 0);
        level
    })
}

/// Removes duplicate descriptors of a level.
fn distinct(mut level: Vec<RandomDescriptor>) -> Vec<RandomDescriptor> {
    let mut seen = BTreeSet::new();
    level.retain(|node| seen.insert((node.key, node.value)));
    level
}

fn number(level: &mut [RandomDescriptor], last: &mut u32) {
    for node in level {
        *last += 1;
        node.number = *last;
        number(&mut node.below, last);
    }
}

pub type Request = Vec<(&'static str, String)>;

pub fn request() -> impl Strategy<Value = Request> {
    let rule_value = select(&VALUES[..]).prop_map(str::to_owned);
    let value = prop_oneof![3 => rule_value, 1 => "[xy{}]{0,3}", 1 => Just("xxy".to_owned())];
    let length = prop_oneof![1 => Just(0), 8 => Just(1), 12 => Just(2), 6 => Just(3), 1 => Just(4)];
    length.prop_flat_map(move |length| vec((key(), value.clone()), length))
}

/// The file as text. The size of each limit follows from its number.
pub fn file_text(file: &[RandomDescriptor], requests: fn(u32) -> u32) -> String {
    let items: Vec<String> =
        file.iter().map(|node| format!("  - {}\n", descriptor_text(node, requests))).collect();
    format!("domain: d\ndescriptors:\n{}", items.concat())
}

fn descriptor_text(node: &RandomDescriptor, requests: fn(u32) -> u32) -> String {
    let value = node.value.map(|value| format!(", value: {}", escaped(value))).unwrap_or_default();
    let name = node.name.map(|name| format!("name: {name}, ")).unwrap_or_default();
    let replaces: Vec<String> = node.replaces.iter().map(|name| format!("{{ name: {name} }}")).collect();
    let names = format!("{name}replaces: [ {} ]", replaces.join(", "));
    let requests_per_unit = format!("requests_per_unit: {}", requests(node.number));
    let limit = match node.limit {
        RandomLimit::None => String::new(),
        RandomLimit::Unlimited => format!(", rate_limit: {{ unlimited: true, {names} }}"),
        RandomLimit::Some => format!(", rate_limit: {{ unit: hour, {requests_per_unit}, {names} }}"),
        RandomLimit::Several => format!(
            ", rate_limit: {{ unit: day, {requests_per_unit}, {names} }}, \
             tidegate: {{ cost: 3, limits: [ 5 per second, {{ limit: 7 per day, key: [], name: seven }} ] }}"
        ),
    };
    let shared = if node.shared { ", share_threshold: true" } else { "" };
    let mode = match node.mode {
        Mode::Reject => "",
        Mode::Shadow => ", shadow_mode: true",
        Mode::Quota => ", quota_mode: true",
    };
    let below: Vec<String> = node.below.iter().map(|node| descriptor_text(node, requests)).collect();
    format!("{{ key: {}{value}{shared}{mode}{limit}, descriptors: [ {} ] }}", node.key, below.join(", "))
}

/// Quoted text in which YAML cannot see anything else.
pub fn escaped(text: &str) -> String {
    let escape =
        |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("\\U{:08x}", u32::from(c)) };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}
