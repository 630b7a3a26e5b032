//! Random files and requests, decided: by the plainest model of envoyproxy/ratelimit that charges nothing for what is
//! denied, by the file, and by the native file it becomes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tidegate::rules::envoy::convert;
use tidegate::{Engine, ManualClock, MemoryStore, Timestamp};
use tidegate_core::rules::{Descriptor, Domain, Entry, Fate, Request};

use super::domain;
use super::random::{Limit, Mode, Node, file, request, text_of};

/// So little that limits are exceeded.
fn few(number: u32) -> u32 {
    number % 4
}

/// What a descriptor finds: the last one, and what its counter is called.
fn walk<'f>(level: &'f [Node], entries: &[Entry<'_>]) -> Option<(&'f Node, String)> {
    let (entry, rest) = entries.split_first()?;
    let of_key = || level.iter().filter(|node| node.key == entry.key);
    let like = |node: &&Node| node.value.is_some_and(|text| text.contains('*') && is_like(text, entry.value));
    let node = of_key()
        .find(|node| node.value == Some(entry.value))
        .or_else(|| of_key().find(like))
        .or_else(|| of_key().find(|node| node.value.is_none()))?;
    let counted = node.value.filter(|_| node.shared).unwrap_or(entry.value);
    let own = format!("{}={counted};", entry.key);
    match rest {
        [] => Some((node, own)),
        _ => walk(&node.below, rest).map(|(node, below)| (node, own + &below)),
    }
}

/// By trying everything a star can stand for.
fn is_like(text: &str, value: &str) -> bool {
    match text.chars().next() {
        None => value.is_empty(),
        Some('*') => (0..=value.len()).any(|end| is_like(&text[1..], &value[end..])),
        Some(c) => value.strip_prefix(c).is_some_and(|rest| is_like(&text[1..], rest)),
    }
}

/// How much was counted, by counter and hour.
#[derive(Default)]
struct Model {
    counts: HashMap<(String, u64), u64>,
}

impl Model {
    fn decide(&mut self, file: &[Node], descriptors: &[Descriptor<'_>], hour: u64) -> Fate {
        let found: Vec<_> = descriptors.iter().map(|descriptor| walk(file, descriptor.entries)).collect();
        let replaced: Vec<&str> = found
            .iter()
            .flatten()
            .filter(|(node, _)| node.limit != Limit::None)
            .flat_map(|(node, _)| node.replaces.iter().copied())
            .collect();
        // Who stands in a request twice is charged twice at once.
        let mut charges: BTreeMap<String, (&Node, u64)> = BTreeMap::new();
        for (found, descriptor) in found.into_iter().zip(descriptors) {
            let Some((node, counter)) = found else { continue };
            let is_replaced = node.name.is_some_and(|name| replaced.contains(&name));
            if node.limit == Limit::Some && !is_replaced {
                charges.entry(counter).or_insert((node, 0)).1 += descriptor.cost;
            }
        }
        let mut fate = Fate::Allowed;
        for (counter, (node, cost)) in &charges {
            let count = self.counts.get(&(counter.clone(), hour)).copied().unwrap_or_default();
            if count + cost > u64::from(few(node.number)) {
                fate = fate.max(match node.mode {
                    Mode::Reject => Fate::Denied,
                    Mode::Shadow => Fate::ShadowDenied,
                    Mode::Quota => Fate::OverQuota,
                });
            }
        }
        if fate.passes() {
            for (counter, (_, cost)) in charges {
                *self.counts.entry((counter, hour)).or_default() += cost;
            }
        }
        fate
    }
}

fn engine(domain: Domain) -> Engine<ManualClock> {
    Engine::over(vec![domain], Arc::new(MemoryStore::bounded(1 << 20)), ManualClock::default()).unwrap()
}

/// Descriptors with their costs, and the minutes since the last request.
#[derive(Clone, Debug)]
struct Asked {
    descriptors: Vec<(super::random::Request, u64)>,
    minutes: u64,
}

fn asked() -> impl Strategy<Value = Asked> {
    let cost = prop_oneof![8 => Just(1), 1 => Just(2), 1 => Just(0)];
    (vec((request(), cost), 1..4), 0_u64..20)
        .prop_map(|(descriptors, minutes)| Asked { descriptors, minutes })
}

/// Without what envoyproxy/ratelimit does not have.
fn plain(mut file: Vec<Node>) -> Vec<Node> {
    for node in &mut file {
        if node.limit == Limit::Several {
            node.limit = Limit::Some;
        }
        node.below = plain(std::mem::take(&mut node.below));
    }
    file
}

/// Every answer of the model, of the file and of the native file.
fn answers(file: &[Node], requests: &[Asked]) -> Vec<[Fate; 3]> {
    let text = text_of(file, few);
    let native = convert("envoy.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
    let (envoy, native) = (engine(domain(&text)), engine(domain(&native.text)));
    let (mut model, mut minute) = (Model::default(), 0);
    let decide = |asked: &Asked| {
        minute += asked.minutes;
        let entries: Vec<Vec<Entry<'_>>> = asked
            .descriptors
            .iter()
            .map(|(request, _)| request.iter().map(|(key, value)| Entry { key, value }).collect())
            .collect();
        let descriptors: Vec<Descriptor<'_>> = entries
            .iter()
            .zip(&asked.descriptors)
            .map(|(entries, (_, cost))| Descriptor::new(entries, *cost))
            .collect();
        let now = Timestamp::from_nanos(minute * 60_000_000_000);
        let request = Request { domain: "d", descriptors: &descriptors };
        let by = |engine: &Engine<ManualClock>| engine.check_at(&request, now).unwrap().fate;
        [model.decide(file, &descriptors, minute / 60), by(&envoy), by(&native)]
    };
    requests.iter().map(decide).collect()
}

proptest! {
    #![proptest_config(tidegate_testing::cases(64))]
    #[test]
    fn both_files_decide_as_the_model_does(file in file().prop_map(plain), requests in vec(asked(), 1..40)) {
        for (at, [model, envoy, native]) in answers(&file, &requests).into_iter().enumerate() {
            let context = || format!("{:?} at {at}\n{}", requests[at], text_of(&file, few));
            prop_assert_eq!(envoy, model, "the file: {}", context());
            prop_assert_eq!(native, model, "the native file: {}", context());
        }
    }
}

#[test]
fn requests_have_every_fate_and_often_enough() {
    let mut runner = TestRunner::deterministic();
    let strategy = (file().prop_map(plain), vec(asked(), 40));
    let mut fates: BTreeMap<Fate, usize> = BTreeMap::new();
    for _ in 0..100 {
        let (file, requests) = strategy.new_tree(&mut runner).unwrap().current();
        for [fate, ..] in answers(&file, &requests) {
            *fates.entry(fate).or_default() += 1;
        }
    }
    let often = |fate| fates.get(&fate).is_some_and(|count| *count > 50);
    let wanted = [Fate::Allowed, Fate::Denied, Fate::ShadowDenied, Fate::OverQuota];
    assert!(wanted.into_iter().all(often), "{fates:?}");
}
