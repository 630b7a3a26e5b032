//! Random files and requests, decided three times: by the plainest model of envoyproxy/ratelimit (which
//! charges nothing for a denied request), by the file, and by its conversion.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tidegate::rules::envoy::convert;
use tidegate::{Engine, ManualClock, MemoryStore, Timestamp};
use tidegate_core::rules::{AnswerKind, Descriptor, Domain, Entry, Request};

use super::domain;
use super::generators::{Mode, RandomDescriptor, RandomLimit, file, file_text, request};

/// A limit so small that requests exceed it.
fn small_limit(number: u32) -> u32 {
    number % 4
}

/// What a descriptor finds: the last node, and the name of its counter.
fn find_node<'f>(
    level: &'f [RandomDescriptor],
    entries: &[Entry<'_>],
) -> Option<(&'f RandomDescriptor, String)> {
    let (entry, rest) = entries.split_first()?;
    let same_key = || level.iter().filter(|node| node.key == entry.key);
    let matches_value = |node: &&RandomDescriptor| {
        node.value.is_some_and(|text| text.contains('*') && matches_wildcard(text, entry.value))
    };
    let node = same_key()
        .find(|node| node.value == Some(entry.value))
        .or_else(|| same_key().find(matches_value))
        .or_else(|| same_key().find(|node| node.value.is_none()))?;
    let counted_value = node.value.filter(|_| node.shared).unwrap_or(entry.value);
    let counter = format!("{}={counted_value};", entry.key);
    match rest {
        [] => Some((node, counter)),
        _ => find_node(&node.below, rest).map(|(node, below)| (node, counter + &below)),
    }
}

/// Tries everything that a star can match.
fn matches_wildcard(text: &str, value: &str) -> bool {
    match text.chars().next() {
        None => value.is_empty(),
        Some('*') => (0..=value.len()).any(|end| matches_wildcard(&text[1..], &value[end..])),
        Some(c) => value.strip_prefix(c).is_some_and(|rest| matches_wildcard(&text[1..], rest)),
    }
}

/// The usage, by counter and hour.
#[derive(Default)]
struct Model {
    counts: HashMap<(String, u64), u64>,
}

impl Model {
    fn decide(&mut self, file: &[RandomDescriptor], descriptors: &[Descriptor<'_>], hour: u64) -> AnswerKind {
        let nodes: Vec<_> =
            descriptors.iter().map(|descriptor| find_node(file, descriptor.entries)).collect();
        let replaced: Vec<&str> = nodes
            .iter()
            .flatten()
            .filter(|(node, _)| node.limit != RandomLimit::None)
            .flat_map(|(node, _)| node.replaces.iter().copied())
            .collect();
        // A counter that appears twice in a request is charged for both together.
        let mut charges: BTreeMap<String, (&RandomDescriptor, u64)> = BTreeMap::new();
        for (found, descriptor) in nodes.into_iter().zip(descriptors) {
            let Some((node, counter)) = found else { continue };
            let is_replaced = node.name.is_some_and(|name| replaced.contains(&name));
            if node.limit == RandomLimit::Some && !is_replaced {
                charges.entry(counter).or_insert((node, 0)).1 += descriptor.cost;
            }
        }
        let mut decision = AnswerKind::Allowed;
        for (counter, (node, cost)) in &charges {
            let count = self.counts.get(&(counter.clone(), hour)).copied().unwrap_or_default();
            if count + cost > u64::from(small_limit(node.number)) {
                decision = decision.max(match node.mode {
                    Mode::Reject => AnswerKind::Denied,
                    Mode::Shadow => AnswerKind::ShadowDenied,
                    Mode::Quota => AnswerKind::OverQuota,
                });
            }
        }
        if decision.passes() {
            for (counter, (_, cost)) in charges {
                *self.counts.entry((counter, hour)).or_default() += cost;
            }
        }
        decision
    }
}

fn engine(domain: Domain) -> Engine<ManualClock> {
    Engine::with_store(vec![domain], Arc::new(MemoryStore::bounded(1 << 20)), ManualClock::default()).unwrap()
}

/// Descriptors with their costs, and the minutes since the last request.
#[derive(Clone, Debug)]
struct TestRequest {
    descriptors: Vec<(super::generators::Request, u64)>,
    minutes: u64,
}

fn test_request() -> impl Strategy<Value = TestRequest> {
    let cost = prop_oneof![8 => Just(1), 1 => Just(2), 1 => Just(0)];
    (vec((request(), cost), 1..4), 0_u64..20)
        .prop_map(|(descriptors, minutes)| TestRequest { descriptors, minutes })
}

/// Without what envoyproxy/ratelimit does not have.
fn without_extension(mut file: Vec<RandomDescriptor>) -> Vec<RandomDescriptor> {
    for node in &mut file {
        if node.limit == RandomLimit::Several {
            node.limit = RandomLimit::Some;
        }
        node.below = without_extension(std::mem::take(&mut node.below));
    }
    file
}

/// The answers of the model, of the file and of the native file.
fn decide_all(file: &[RandomDescriptor], requests: &[TestRequest]) -> Vec<[AnswerKind; 3]> {
    let text = file_text(file, small_limit);
    let native = convert("envoy.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
    let (envoy, native) = (engine(domain(&text)), engine(domain(&native.text)));
    let (mut model, mut minute) = (Model::default(), 0);
    let decide = |request_spec: &TestRequest| {
        minute += request_spec.minutes;
        let entries: Vec<Vec<Entry<'_>>> = request_spec
            .descriptors
            .iter()
            .map(|(request, _)| request.iter().map(|(key, value)| Entry { key, value }).collect())
            .collect();
        let descriptors: Vec<Descriptor<'_>> = entries
            .iter()
            .zip(&request_spec.descriptors)
            .map(|(entries, (_, cost))| Descriptor::new(entries, *cost))
            .collect();
        let now = Timestamp::from_nanos(minute * 60_000_000_000);
        let request = Request { domain: "d", descriptors: &descriptors };
        let by = |engine: &Engine<ManualClock>| engine.check_at(&request, now).unwrap().kind;
        [model.decide(file, &descriptors, minute / 60), by(&envoy), by(&native)]
    };
    requests.iter().map(decide).collect()
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn both_files_decide_as_the_model_does(file in file().prop_map(without_extension), requests in vec(test_request(), 1..40)) {
        for (at, [model, envoy, native]) in decide_all(&file, &requests).into_iter().enumerate() {
            let context = || format!("{:?} at {at}\n{}", requests[at], file_text(&file, small_limit));
            prop_assert_eq!(envoy, model, "the file: {}", context());
            prop_assert_eq!(native, model, "the native file: {}", context());
        }
    }
}

#[test]
fn random_requests_reach_every_decision() {
    let mut runner = TestRunner::deterministic();
    let strategy = (file().prop_map(without_extension), vec(test_request(), 40));
    let mut decisions: BTreeMap<AnswerKind, usize> = BTreeMap::new();
    for _ in 0..100 {
        let (file, requests) = strategy.new_tree(&mut runner).unwrap().current();
        for [decision, ..] in decide_all(&file, &requests) {
            *decisions.entry(decision).or_default() += 1;
        }
    }
    let often = |decision| decisions.get(&decision).is_some_and(|count| *count > 50);
    let expected = [AnswerKind::Allowed, AnswerKind::Denied, AnswerKind::ShadowDenied, AnswerKind::OverQuota];
    assert!(expected.into_iter().all(often), "{decisions:?}");
}
