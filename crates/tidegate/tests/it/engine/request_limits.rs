//! Limits that requests carry, against the simplest implementation: a table of counts.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use tidegate::rules::{AnswerKind, Descriptor, Entry, Request, RequestLimit, TimeUnit};
use tidegate_testing::proptest_config;

use crate::engine::fixture::{AnswerSummary, EngineFixture};
use crate::engine::setup::{Setup, over_each_store};

/// A rule limits the same attributes. It must not apply to a request that carries its own limit.
const FILE: &str = "
domain: api
rules:
  - { name: rule, match: { a: { exists: true } }, limit: { limit: 3 per minute, algorithm: fixed_window }, key: [a] }
  - { name: tight, match: { b: z }, limit: 0 per second }
";

fn check(fixture: &EngineFixture, domain: &str, descriptors: &[Descriptor<'_>]) -> AnswerSummary {
    fixture
        .setup
        .check(&fixture.engine, &Request { domain, descriptors }, AnswerSummary::from_answer)
        .unwrap()
}

fn request_limit(units: u32, per: TimeUnit) -> Option<RequestLimit> {
    Some(RequestLimit { units, per })
}

const USER: [Entry<'static>; 2] = [Entry { key: "a", value: "x" }, Entry { key: "b", value: "z" }];

fn a_request_limit_needs_a_domain_but_no_rule(setup: Setup) {
    let fixture = setup.fixture(FILE);
    let descriptors = [Descriptor { limit: request_limit(2, TimeUnit::Minute), ..Descriptor::new(&USER, 1) }];
    let answers: Vec<AnswerSummary> = (0..3).map(|_| check(&fixture, "api", &descriptors)).collect();
    let kinds: Vec<AnswerKind> = answers.iter().map(|answer| answer.kind).collect();
    assert_eq!(kinds, [AnswerKind::Allowed, AnswerKind::Allowed, AnswerKind::Denied]);
    assert_eq!(answers[0].limits, [("override".to_owned(), AnswerKind::Allowed, 1)]);
    assert_eq!(answers[2].retry_after_ms, Some(60_000));
    let elsewhere = check(&fixture, "unknown", &descriptors);
    assert_eq!((elsewhere.kind, elsewhere.limits.len()), (AnswerKind::Allowed, 0));
    fixture.advance(60);
    let descriptors = [Descriptor { limit: request_limit(2, TimeUnit::Minute), ..Descriptor::new(&USER, 2) }];
    assert_eq!(check(&fixture, "api", &descriptors).kind, AnswerKind::Allowed);
}

fn a_request_limit_of_zero_denies_all_but_a_cost_of_zero(setup: Setup) {
    let fixture = setup.fixture(FILE);
    let with =
        |cost| [Descriptor { limit: request_limit(0, TimeUnit::Year), ..Descriptor::new(&USER, cost) }];
    let answer = check(&fixture, "api", &with(1));
    assert_eq!((answer.kind, answer.retry_after_ms), (AnswerKind::Denied, None));
    assert_eq!(check(&fixture, "api", &with(0)).kind, AnswerKind::Allowed);
}

fn answers_report_the_request_limit(setup: Setup) {
    let fixture = setup.fixture(FILE);
    let descriptors =
        [Descriptor { limit: request_limit(u32::MAX, TimeUnit::Week), ..Descriptor::new(&USER, 1) }];
    let request = Request { domain: "api", descriptors: &descriptors };
    let checked = fixture.setup.check(&fixture.engine, &request, |answer| {
        assert_eq!(answer.limit(0).unwrap().current_limit(), u64::from(u32::MAX));
        assert_eq!(answer.remaining, u64::from(u32::MAX) - 1);
        assert_eq!(answer.limit(0).unwrap().id.to_string(), "week");
    });
    checked.unwrap();
    let explain = |request: &Request<'_>| {
        fixture.setup.explain(&fixture.engine, request, |explanation| explanation.to_string())
    };
    let explained = explain(&request);
    assert_eq!(
        explained,
        "descriptor 1: a=x b=z\n  rule override: applies\n    limit {algorithm: fixed_window, limit: 4294967295, \
         per: 7d, name: week}, key a=x b=z, cost 1, action reject: allowed, 4294967293 remaining, reset after 604800s\n      \
         admits at most 8589934590 in any 7d, around the end of a window; 4294967295 in each window\n\
         decision: allowed by override/week, 4294967293 remaining\n"
    );
    let elsewhere = explain(&Request { domain: "x", ..request });
    assert!(elsewhere.starts_with("domain x: has no rules, so nothing is limited\n"), "{elsewhere}");
}

fn answers_report_the_limit_resized_by_a_signal(setup: Setup) {
    let fixture = setup.fixture(
        "{ domain: api, rules: [ { name: a, limit: { limit: 10 per minute, algorithm: fixed_window }, \
         action: { elastic: { min: 5, max: 20, signal: spare } } } ] }",
    );
    let limit_now = || {
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&USER, 1)] };
        fixture.setup.peek(&fixture.engine, &request, |answer| answer.limit(0).unwrap().current_limit())
    };
    assert_eq!(limit_now(), 10);
    fixture.engine.push_signal("spare", "1".parse().unwrap()).unwrap();
    assert_eq!(limit_now(), 20);
}

fn refunds_and_resets_find_the_counter(setup: Setup) {
    let fixture = setup.fixture(FILE);
    let descriptors = [Descriptor { limit: request_limit(1, TimeUnit::Day), ..Descriptor::new(&USER, 1) }];
    let request = Request { domain: "api", descriptors: &descriptors };
    let kind = || fixture.setup.check(&fixture.engine, &request, |answer| answer.kind).unwrap();
    assert_eq!([kind(), kind()], [AnswerKind::Allowed, AnswerKind::Denied]);
    fixture.setup.refund(&fixture.engine, &request);
    assert_eq!([kind(), kind()], [AnswerKind::Allowed, AnswerKind::Denied]);
    fixture.setup.reset(&fixture.engine, &request);
    assert_eq!([kind(), kind()], [AnswerKind::Allowed, AnswerKind::Denied]);
}

/// Entries as pairs of indices into names and values.
type Pairs = Vec<(usize, usize)>;

#[derive(Clone, Debug)]
struct ModelDescriptor {
    entries: Pairs,
    cost: u64,
    limit: Option<RequestLimit>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum CounterKey {
    Own { domain: usize, seconds: u64, entries: Pairs },
    Rule { a: usize },
}

const DOMAINS: [&str; 2] = ["api", "other"];
const NAMES: [&str; 2] = ["a", "ab"];
const VALUES: [&str; 3] = ["b", "", "y"];
const RULE: &str = "
domain: api
rules: [ { name: rule, match: { a: { exists: true } }, limit: { limit: 3 per minute, algorithm: fixed_window }, key: [a] } ]
";

fn requests() -> impl Strategy<Value = Vec<(u64, usize, Vec<ModelDescriptor>)>> {
    let unit = prop_oneof![Just(TimeUnit::Second), Just(TimeUnit::Minute), Just(TimeUnit::Hour)];
    let limit = prop::option::of((0..5u32, unit).prop_map(|(units, per)| RequestLimit { units, per }));
    let entries = prop::collection::vec((0..2usize, 0..3usize), 0..3);
    let descriptor =
        (entries, 0..3u64, limit).prop_map(|(entries, cost, limit)| ModelDescriptor { entries, cost, limit });
    prop::collection::vec((0..40u64, 0..2usize, prop::collection::vec(descriptor, 1..4)), 1..30)
}

#[derive(Default)]
struct Model {
    now: u64,
    counts: HashMap<CounterKey, (u64, u64)>,
}

impl Model {
    /// Whether a request passes: each of its counters has room for all that the request takes from it, by the tightest
    /// limit that the request carries for it.
    fn passes(&mut self, domain: usize, descriptors: &[ModelDescriptor]) -> bool {
        let mut charges: BTreeMap<CounterKey, (u64, u64, u64)> = BTreeMap::new();
        for descriptor in descriptors {
            let first_a = descriptor.entries.iter().find(|(name, _)| *name == 0);
            let (counter, units, seconds) = match (descriptor.limit, first_a) {
                (Some(limit), _) if domain == 0 => {
                    let seconds = limit.per.nanos() / 1_000_000_000;
                    let entries = descriptor.entries.clone();
                    (CounterKey::Own { domain, seconds, entries }, u64::from(limit.units), seconds)
                }
                (None, Some((_, value))) if domain == 0 => (CounterKey::Rule { a: *value }, 3, 60),
                _ => continue,
            };
            let (cost, least, _) = charges.entry(counter).or_insert((0, u64::MAX, seconds));
            *cost += descriptor.cost;
            *least = units.min(*least);
        }
        let count = |counter: &CounterKey, seconds| {
            let here = self.counts.get(counter).filter(|(window, _)| *window == self.now / seconds);
            here.map_or(0, |(_, count)| *count)
        };
        let after: Vec<_> = charges
            .iter()
            .map(|(counter, (cost, units, seconds))| {
                (counter, count(counter, *seconds) + cost, *units, *seconds)
            })
            .collect();
        let passes = after.iter().all(|(_, count, units, _)| count <= units);
        if passes {
            let windows = after
                .iter()
                .map(|(counter, count, _, seconds)| ((*counter).clone(), (self.now / seconds, *count)));
            let windows: Vec<_> = windows.collect();
            self.counts.extend(windows);
        }
        passes
    }
}

fn request_limits_agree_with_the_model(setup: Setup) {
    proptest!(proptest_config(250), |(requests in requests())| {
        let fixture = setup.fixture(RULE);
        let mut model = Model::default();
        for (number, (after, domain, model_descriptors)) in requests.iter().enumerate() {
            fixture.advance(*after);
            model.now += after;
            let entry = |(name, value): &(usize, usize)| Entry { key: NAMES[*name], value: VALUES[*value] };
            let entries: Vec<Vec<Entry<'_>>> =
                model_descriptors.iter().map(|descriptor| descriptor.entries.iter().map(entry).collect()).collect();
            let descriptors: Vec<Descriptor<'_>> = model_descriptors
                .iter()
                .zip(&entries)
                .map(|(descriptor, entries)| Descriptor { entries, cost: descriptor.cost, limit: descriptor.limit })
                .collect();
            let answer = check(&fixture, DOMAINS[*domain], &descriptors);
            let expected = if model.passes(*domain, model_descriptors) { AnswerKind::Allowed } else { AnswerKind::Denied };
            prop_assert_eq!(answer.kind, expected, "request {} of {:?}", number, requests);
        }
    });
}

over_each_store!(
    a_request_limit_needs_a_domain_but_no_rule,
    a_request_limit_of_zero_denies_all_but_a_cost_of_zero,
    answers_report_the_request_limit,
    answers_report_the_limit_resized_by_a_signal,
    refunds_and_resets_find_the_counter,
    request_limits_agree_with_the_model,
);
