//! Random files and requests, decided three times: by the plainest model of envoyproxy/ratelimit, by the file, and by its
//! conversion. Each way of counting is tried.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tidegate::rules::envoy::convert_with;
use tidegate::rules::{Answer, Counting, LimitAnswer, LoadOptions, parse_with};
use tidegate::{Engine, ManualClock, MemoryStore, OutcomeKind, Timestamp};
use tidegate_core::rules::{AnswerKind, Descriptor, Domain, Entry, Request, RequestLimit, TimeUnit};

use super::domain;
use super::generators::{Mode, RandomDescriptor, RandomLimit, file, file_text, request};

const COUNTING: [Counting; 3] = [Counting::Upstream, Counting::UpstreamStop, Counting::None];

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
struct Model {
    counting: Counting,
    counts: HashMap<(String, u64), u64>,
}

/// What the model says: the decision, and for each descriptor with a limit whether it is over it, and what remains.
#[derive(Debug, PartialEq)]
struct Decided {
    kind: AnswerKind,
    statuses: Vec<(usize, bool, u64)>,
}

impl Model {
    fn decide(&mut self, file: &[RandomDescriptor], descriptors: &[Descriptor<'_>], hour: u64) -> Decided {
        let find = |descriptor: &Descriptor<'_>| match descriptor.limit {
            Some(_) => None,
            None => find_node(file, descriptor.entries),
        };
        let nodes: Vec<_> = descriptors.iter().map(find).collect();
        let replaced: Vec<&str> = nodes
            .iter()
            .flatten()
            .filter(|(node, _)| node.limit != RandomLimit::None)
            .flat_map(|(node, _)| node.replaces.iter().copied())
            .collect();
        let mut hits = Vec::new();
        for (index, (found, descriptor)) in nodes.into_iter().zip(descriptors).enumerate() {
            let cost = descriptor.cost;
            if let Some(limit) = descriptor.limit {
                let counter =
                    descriptor.entries.iter().map(|entry| format!("{}={};", entry.key, entry.value));
                let (counter, limit) = (counter.collect(), limit.units.into());
                hits.push(Hit { index, counter, cost, limit, mode: Mode::Reject });
                continue;
            }
            let Some((node, counter)) = found else { continue };
            let is_replaced = node.name.is_some_and(|name| replaced.contains(&name));
            if node.limit == RandomLimit::Some && !is_replaced {
                let limit = small_limit(node.number).into();
                hits.push(Hit { index, counter, cost, limit, mode: node.mode });
            }
        }
        // If nothing counts alone, a counter that appears twice in a request is decided for both together.
        let cost = |hit: &Hit| -> u64 {
            match self.counting {
                Counting::None => {
                    let same = hits.iter().filter(|other| other.counter == hit.counter);
                    same.map(|hit| hit.cost).sum()
                }
                _ => hit.cost,
            }
        };
        let is_over = |hit: &Hit| self.count(hit, hour) + cost(hit) > hit.limit;
        let over: Vec<bool> = hits.iter().map(is_over).collect();
        let is_enforced_over = hits.iter().zip(&over).any(|(hit, over)| hit.mode == Mode::Reject && *over);
        let is_any_over = over.contains(&true);
        let mut statuses = Vec::new();
        for (hit, was_over) in hits.iter().zip(&over) {
            let is_counted = match self.counting {
                Counting::Upstream => true,
                Counting::UpstreamStop => *was_over || !is_any_over,
                Counting::None => !is_enforced_over,
            };
            if is_counted {
                *self.counts.entry((hit.counter.clone(), hour)).or_default() += hit.cost;
            }
            // If nothing is counted, or a dry run has a say, the sum counts for each of them.
            let is_separate = self.counting != Counting::None;
            let count = self.count(hit, hour);
            let is_over = if is_separate { count > hit.limit } else { *was_over };
            statuses.push((hit.index, is_over, hit.limit.saturating_sub(count)));
        }
        let over_in = |mode: Mode| {
            let mut own = hits.iter().zip(&statuses).filter(move |(hit, _)| hit.mode == mode);
            (own.clone().any(|(_, status)| status.1), own.all(|(_, status)| status.1))
        };
        let kind = match (over_in(Mode::Reject), over_in(Mode::Quota), over_in(Mode::Shadow)) {
            ((true, _), _, _) | (_, (true, true), _) => AnswerKind::Denied,
            (_, (true, _), _) => AnswerKind::OverQuota,
            (_, _, (true, _)) => AnswerKind::ShadowDenied,
            _ => AnswerKind::Allowed,
        };
        Decided { kind, statuses }
    }

    fn count(&self, hit: &Hit, hour: u64) -> u64 {
        self.counts.get(&(hit.counter.clone(), hour)).copied().unwrap_or_default()
    }
}

/// A descriptor of a request that has a limit.
struct Hit {
    index: usize,
    counter: String,
    cost: u64,
    limit: u64,
    mode: Mode,
}

/// An answer in the words of the model. Without the numbers of a counter that appears twice, if nothing counts alone.
fn decided(answer: &Answer, counting: Counting) -> Decided {
    let status = |limit: LimitAnswer<'_>| {
        (limit.descriptor, limit.outcome.kind == OutcomeKind::Denied, limit.outcome.remaining)
    };
    Decided { kind: answer.kind, statuses: answer.limits().map(status).collect() }.comparable(counting)
}

impl Decided {
    fn comparable(mut self, counting: Counting) -> Self {
        if counting == Counting::None {
            self.statuses.clear();
        }
        self
    }
}

fn engine(domain: Domain) -> Engine<ManualClock> {
    Engine::with_store(vec![domain], Arc::new(MemoryStore::bounded(1 << 20)), ManualClock::default()).unwrap()
}

/// Descriptors, and the minutes since the last request.
#[derive(Clone, Debug)]
struct TestRequest {
    descriptors: Vec<TestDescriptor>,
    minutes: u64,
}

/// Entries, their cost, and the hourly limit that the descriptor brings along.
#[derive(Clone, Debug)]
struct TestDescriptor {
    entries: super::generators::Request,
    cost: u64,
    own_limit: Option<u32>,
}

/// A request that often repeats entries, with the same limit or another.
fn test_request() -> impl Strategy<Value = TestRequest> {
    let cost = || prop_oneof![8 => Just(1), 1 => Just(2), 1 => Just(0)];
    let own_limit = || prop_oneof![4 => Just(None), 1 => (0_u32..6).prop_map(Some)];
    let again = vec((any::<prop::sample::Index>(), cost(), own_limit()), 0..3);
    (vec((request(), cost(), own_limit()), 1..4), again, 0_u64..20).prop_map(|(first, again, minutes)| {
        let descriptor = |(entries, cost, own_limit)| TestDescriptor { entries, cost, own_limit };
        let again = again.into_iter().map(|(at, cost, limit)| (at.get(&first).0.clone(), cost, limit));
        let again: Vec<_> = again.map(descriptor).collect();
        TestRequest { descriptors: first.into_iter().map(descriptor).chain(again).collect(), minutes }
    })
}

/// Without limits in requests, which have counters of their own if the file is native.
fn without_own_limits(mut requests: Vec<TestRequest>) -> Vec<TestRequest> {
    let descriptors = requests.iter_mut().flat_map(|request| &mut request.descriptors);
    descriptors.for_each(|descriptor| descriptor.own_limit = None);
    requests
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
fn decide_all(file: &[RandomDescriptor], requests: &[TestRequest], counting: Counting) -> Vec<[Decided; 3]> {
    let text = file_text(file, small_limit);
    let mut options = LoadOptions::default();
    options.counting = counting;
    let native = convert_with("envoy.yaml", &text, options).unwrap_or_else(|report| panic!("{report}"));
    let loaded = parse_with("envoy.yaml", &text, options).unwrap_or_else(|report| panic!("{report}"));
    let (envoy, native) = (engine(loaded.domains[0].clone()), engine(domain(&native.text)));
    let (mut model, mut minute) = (Model { counting, counts: HashMap::new() }, 0);
    let decide = |request_spec: &TestRequest| {
        minute += request_spec.minutes;
        let entries: Vec<Vec<Entry<'_>>> = request_spec
            .descriptors
            .iter()
            .map(|descriptor| descriptor.entries.iter().map(|(key, value)| Entry { key, value }).collect())
            .collect();
        let descriptors: Vec<Descriptor<'_>> = entries
            .iter()
            .zip(&request_spec.descriptors)
            .map(|(entries, TestDescriptor { cost, own_limit, .. })| {
                let limit = own_limit.map(|units| RequestLimit { units, per: TimeUnit::Hour });
                Descriptor { limit, ..Descriptor::new(entries, *cost) }
            })
            .collect();
        let now = Timestamp::from_nanos(minute * 60_000_000_000);
        let request = Request { domain: "d", descriptors: &descriptors };
        let by = |engine: &Engine<ManualClock>| decided(&engine.check_at(&request, now).unwrap(), counting);
        [model.decide(file, &descriptors, minute / 60).comparable(counting), by(&envoy), by(&native)]
    };
    requests.iter().map(decide).collect()
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn both_files_decide_as_the_model_does(file in file().prop_map(without_extension), requests in vec(test_request(), 1..40).prop_map(without_own_limits), counting in select(COUNTING.to_vec())) {
        for (at, [model, envoy, native]) in decide_all(&file, &requests, counting).into_iter().enumerate() {
            let context = || format!("{:?} at {at}\n{}", requests[at], file_text(&file, small_limit));
            prop_assert_eq!(&envoy, &model, "the file: {}", context());
            prop_assert_eq!(&native, &model, "the native file: {}", context());
        }
    }

    #[test]
    fn limits_in_requests_are_decided_as_the_model_does(file in file().prop_map(without_extension), requests in vec(test_request(), 1..40), counting in select(vec![Counting::Upstream, Counting::UpstreamStop])) {
        for (at, [model, envoy, _]) in decide_all(&file, &requests, counting).into_iter().enumerate() {
            prop_assert_eq!(&envoy, &model, "{:?} at {}\n{}", requests[at], at, file_text(&file, small_limit));
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
        for [decision, ..] in decide_all(&file, &requests, Counting::Upstream) {
            *decisions.entry(decision.kind).or_default() += 1;
        }
    }
    let often = |decision| decisions.get(&decision).is_some_and(|count| *count > 0);
    let expected = [AnswerKind::Allowed, AnswerKind::Denied, AnswerKind::ShadowDenied, AnswerKind::OverQuota];
    assert!(expected.into_iter().all(often), "{decisions:?}");
}
