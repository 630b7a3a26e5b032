//! Random rules and requests, against the simplest implementation of the rules: a table of counts, searched one by one.
//!
//! All limits are fixed windows, whose model is a count. Other tests cover the other algorithms. These tests cover what
//! rules make of limits: which limits apply, with which key, what is charged, and the answer.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use proptest::prelude::*;
use tidegate::rules::{Answer, AnswerKind, Descriptor, Entry, Request};
use tidegate::{Nanos, Wait};
use tidegate_testing::proptest_config;

use crate::engine::fixture::EngineFixture;
use crate::engine::setup::{Setup, over_each_store};

const POOL: u64 = 3;
const POOL_SECONDS: u64 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelAction {
    Reject,
    Shadow,
    ShadowBan,
    Quota,
    /// Half of the limit on top.
    Soft,
    /// Twice the limit while the pool has units.
    Elastic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelMissing {
    Skip,
    Deny,
    Shared,
}

#[derive(Clone, Debug)]
struct ModelRule {
    /// Attribute and value.
    matches: Option<(usize, usize)>,
    key: Vec<usize>,
    missing: ModelMissing,
    action: ModelAction,
    limits: Vec<ModelLimit>,
}

#[derive(Clone, Copy, Debug)]
struct ModelLimit {
    units: u64,
    seconds: u64,
}

#[derive(Clone, Debug)]
struct ModelRequest {
    /// Seconds after the request before.
    after: u64,
    /// Descriptors: the value of each attribute, if present, and the cost.
    descriptors: Vec<([Option<usize>; 2], u64)>,
}

const NAMES: [&str; 2] = ["a", "b"];
const VALUES: [&str; 3] = ["x", "y", "z"];

fn rules() -> impl Strategy<Value = Vec<ModelRule>> {
    let action = prop_oneof![
        3 => Just(ModelAction::Reject),
        1 => Just(ModelAction::Shadow),
        1 => Just(ModelAction::ShadowBan),
        1 => Just(ModelAction::Quota),
        1 => Just(ModelAction::Soft),
        2 => Just(ModelAction::Elastic),
    ];
    let missing = prop_oneof![Just(ModelMissing::Skip), Just(ModelMissing::Deny), Just(ModelMissing::Shared)];
    let limit = (1..4u64, prop_oneof![Just(10u64), Just(60)])
        .prop_map(|(units, seconds)| ModelLimit { units, seconds });
    let rule = (
        prop::option::of((0..2usize, 0..3usize)),
        prop::sample::subsequence(vec![0, 1], 0..=2),
        missing,
        action,
        prop::collection::vec(limit, 1..3),
    );
    let rule = rule.prop_map(|(matches, key, missing, action, limits)| ModelRule {
        matches,
        key,
        missing,
        action,
        limits,
    });
    prop::collection::vec(rule, 1..5)
}

fn requests() -> impl Strategy<Value = Vec<ModelRequest>> {
    let value = || prop::option::weighted(0.8, 0..3usize);
    let descriptor = ([value(), value()], 0..3u64);
    let request = (0..12u64, prop::collection::vec(descriptor, 1..3));
    prop::collection::vec(request.prop_map(|(after, descriptors)| ModelRequest { after, descriptors }), 1..25)
}

fn file(rules: &[ModelRule], first: bool) -> String {
    let mut file = format!(
        "domain: api\napply: {}\npools: {{ spare: {{ limit: {POOL} per {POOL_SECONDS}s, algorithm: fixed_window }} }}\nrules:\n",
        if first { "first" } else { "all" }
    );
    for (number, rule) in rules.iter().enumerate() {
        let matches = rule.matches.map_or_else(String::new, |(name, value)| {
            format!("match: {{ {}: {} }}, ", NAMES[name], VALUES[value])
        });
        let key: Vec<&str> = rule.key.iter().map(|name| NAMES[*name]).collect();
        let missing = format!("{:?}", rule.missing).to_lowercase();
        let limits: Vec<String> = rule
            .limits
            .iter()
            .map(|limit| {
                let action = match rule.action {
                    ModelAction::Reject => "reject".to_owned(),
                    ModelAction::Shadow => "shadow".to_owned(),
                    ModelAction::ShadowBan => "shadow_ban".to_owned(),
                    ModelAction::Quota => "quota".to_owned(),
                    ModelAction::Soft => "{ soft: { margin: 50% } }".to_owned(),
                    ModelAction::Elastic => {
                        format!("{{ elastic: {{ max: {}, pool: spare }} }}", 2 * limit.units)
                    }
                };
                let ModelLimit { units, seconds } = limit;
                format!("{{ limit: {units} per {seconds}s, algorithm: fixed_window, action: {action} }}")
            })
            .collect();
        let (key, limits) = (key.join(", "), limits.join(", "));
        let _ = writeln!(
            file,
            "  - {{ name: r{number}, {matches}key: [{key}], missing: {missing}, limits: [ {limits} ] }}"
        );
    }
    file
}

/// A counter: the rule, the limit, its part, and the key.
type CounterKey = (usize, usize, &'static str, Vec<Option<usize>>);

#[derive(Clone, Debug)]
struct ModelMatchedLimit {
    rule: usize,
    limit: usize,
    key: Vec<Option<usize>>,
    refused: bool,
    cost: u64,
    from_pool: bool,
}

/// The outcome of a part of a limit.
#[derive(Clone, Copy)]
struct PartOutcome {
    fits: bool,
    left: u64,
    wait_s: Option<u64>,
}

struct Model<'a> {
    rules: &'a [ModelRule],
    first: bool,
    now: u64,
    /// By counter: its window and the count.
    counts: HashMap<CounterKey, (u64, u64)>,
}

#[derive(Debug, PartialEq, Eq)]
struct ModelAnswer {
    kind: AnswerKind,
    retry_after_s: Option<u64>,
    limits: Vec<(usize, AnswerKind, u64)>,
}

impl Model<'_> {
    fn decide(&mut self, request: &ModelRequest) -> ModelAnswer {
        let mut matched: Vec<ModelMatchedLimit> = request
            .descriptors
            .iter()
            .flat_map(|(values, cost)| self.matched_limits(values, *cost))
            .collect();
        // A request that finds nothing left of the granted units borrows from the pool.
        loop {
            let totals = self.totals(&matched);
            let borrows = |one: &ModelMatchedLimit| {
                let granted = self.part_outcome(&totals, one, "granted");
                self.rules[one.rule].action == ModelAction::Elastic
                    && !one.refused
                    && !one.from_pool
                    && !granted.fits
            };
            let borrowing: Vec<usize> = (0..matched.len()).filter(|at| borrows(&matched[*at])).collect();
            if borrowing.is_empty() {
                break;
            }
            borrowing.into_iter().for_each(|at| matched[at].from_pool = true);
        }
        let totals = self.totals(&matched);
        let before: Vec<(AnswerKind, Option<u64>)> =
            matched.iter().map(|one| self.outcome_alone(&totals, one)).collect();
        let blocking: Vec<&(AnswerKind, Option<u64>)> =
            before.iter().filter(|(kind, _)| !kind.passes()).collect();
        let passes = blocking.is_empty();
        if passes {
            for (counter, cost) in &totals {
                if *cost > 0 {
                    let window = self.now / self.seconds(counter);
                    let count = self.count(counter);
                    self.counts.insert(counter.clone(), (window, count + cost));
                }
            }
        }
        // Numbers are those after the charge.
        let limits = matched
            .iter()
            .zip(&before)
            .map(|(one, (kind, _))| (one.rule, *kind, if one.refused { 0 } else { self.remaining(one) }))
            .collect();
        let wait_of = |wait: Option<u64>| wait.unwrap_or(u64::MAX);
        let longest = blocking.iter().map(|(_, wait)| wait_of(*wait)).max().unwrap_or(0);
        let kind = match passes {
            true => before.iter().map(|(kind, _)| *kind).max().unwrap_or(AnswerKind::Allowed),
            // The first limit with the longest wait.
            false => blocking.iter().find(|(_, wait)| wait_of(*wait) == longest).unwrap().0,
        };
        let retry_after_s = Some(longest).filter(|longest| *longest < u64::MAX);
        ModelAnswer { kind, retry_after_s, limits }
    }

    fn matched_limits(&self, values: &[Option<usize>; 2], cost: u64) -> Vec<ModelMatchedLimit> {
        let matching =
            |rule: &ModelRule| rule.matches.is_none_or(|(name, value)| values[name] == Some(value));
        let rules = self.rules.iter().enumerate().filter(|(_, rule)| matching(rule));
        let rules = rules.take(if self.first { 1 } else { usize::MAX });
        let mut matched = Vec::new();
        for (number, rule) in rules {
            let key: Vec<Option<usize>> = rule.key.iter().map(|name| values[*name]).collect();
            let is_missing = key.contains(&None);
            if is_missing && rule.missing == ModelMissing::Skip {
                continue;
            }
            for limit in 0..rule.limits.len() {
                let refused = is_missing && rule.missing == ModelMissing::Deny;
                let key = key.clone();
                matched.push(ModelMatchedLimit { rule: number, limit, key, refused, cost, from_pool: false });
            }
        }
        matched
    }

    /// The parts of a limit that a request is charged to.
    fn parts(&self, one: &ModelMatchedLimit) -> Vec<CounterKey> {
        let part = |part| (one.rule, one.limit, part, one.key.clone());
        match (self.rules[one.rule].action, one.from_pool) {
            _ if one.refused => vec![],
            (ModelAction::Soft, _) => vec![part("main"), part("soft")],
            (ModelAction::Elastic, false) => vec![part("main"), part("granted")],
            (ModelAction::Elastic, true) => vec![part("main"), (0, 0, "pool", vec![])],
            _ => vec![part("main")],
        }
    }

    fn totals(&self, matched: &[ModelMatchedLimit]) -> BTreeMap<CounterKey, u64> {
        let mut totals = BTreeMap::new();
        for one in matched {
            for part in self.parts(one) {
                *totals.entry(part).or_insert(0) += one.cost;
            }
        }
        totals
    }

    fn units(&self, (rule, limit, part, _): &CounterKey) -> u64 {
        let units = self.rules[*rule].limits[*limit].units;
        match (*part, self.rules[*rule].action) {
            ("pool", _) => POOL,
            ("main", ModelAction::Soft) => units + (units / 2).max(1),
            ("main", ModelAction::Elastic) => 2 * units,
            _ => units,
        }
    }

    fn seconds(&self, (rule, limit, part, _): &CounterKey) -> u64 {
        if *part == "pool" { POOL_SECONDS } else { self.rules[*rule].limits[*limit].seconds }
    }

    fn count(&self, counter: &CounterKey) -> u64 {
        let window = self.now / self.seconds(counter);
        self.counts.get(counter).filter(|(of, _)| *of == window).map_or(0, |(_, count)| *count)
    }

    fn part_outcome(
        &self,
        totals: &BTreeMap<CounterKey, u64>,
        one: &ModelMatchedLimit,
        part: &'static str,
    ) -> PartOutcome {
        let counter =
            if part == "pool" { (0, 0, part, vec![]) } else { (one.rule, one.limit, part, one.key.clone()) };
        let (units, count) = (self.units(&counter), self.count(&counter));
        // For a part that is not charged, what this request alone would take from it.
        let cost = totals.get(&counter).copied().unwrap_or(one.cost);
        let fits = count + cost <= units;
        let seconds = self.seconds(&counter);
        let wait_s = match fits {
            true => Some(0),
            false => (cost <= units).then(|| seconds - self.now % seconds),
        };
        PartOutcome { fits, left: units.saturating_sub(count), wait_s }
    }

    /// The answer to a request if there were only this limit, and how long it would have to wait.
    fn outcome_alone(
        &self,
        totals: &BTreeMap<CounterKey, u64>,
        one: &ModelMatchedLimit,
    ) -> (AnswerKind, Option<u64>) {
        let action = self.rules[one.rule].action;
        let over = match action {
            ModelAction::Shadow => AnswerKind::ShadowDenied,
            ModelAction::Quota => AnswerKind::OverQuota,
            ModelAction::ShadowBan => AnswerKind::ShadowBanned,
            _ => AnswerKind::Denied,
        };
        if one.refused {
            return (over, None);
        }
        let main = self.part_outcome(totals, one, "main");
        match action {
            ModelAction::Soft if main.fits && !self.part_outcome(totals, one, "soft").fits => {
                (AnswerKind::Soft, Some(0))
            }
            ModelAction::Elastic if one.from_pool => {
                let pool = self.part_outcome(totals, one, "pool");
                let kind = if main.fits && pool.fits { AnswerKind::Soft } else { over };
                let wait = |wait: Option<u64>| wait.unwrap_or(u64::MAX);
                // When the granted units or the pool have room again.
                let granted = self.part_outcome(&self.totals_after_grant(one, totals), one, "granted");
                let all = wait(main.wait_s).max(wait(pool.wait_s).min(wait(granted.wait_s)));
                (kind, Some(all).filter(|all| *all < u64::MAX))
            }
            _ if main.fits => (AnswerKind::Allowed, Some(0)),
            _ => (over, main.wait_s),
        }
    }

    /// What was asked of the granted part when this one borrowed from the pool: by all with the same key.
    fn totals_after_grant(
        &self,
        one: &ModelMatchedLimit,
        totals: &BTreeMap<CounterKey, u64>,
    ) -> BTreeMap<CounterKey, u64> {
        let main = (one.rule, one.limit, "main", one.key.clone());
        let granted = (one.rule, one.limit, "granted", one.key.clone());
        BTreeMap::from([(granted, totals[&main])])
    }

    /// What a limit has left.
    fn remaining(&self, one: &ModelMatchedLimit) -> u64 {
        let left = |part| self.part_outcome(&BTreeMap::new(), one, part).left;
        match self.rules[one.rule].action {
            ModelAction::Soft => left("soft"),
            ModelAction::Elastic => left("granted").min(left("main")),
            _ => left("main"),
        }
    }
}

fn the_engine_agrees_with_the_model(setup: Setup) {
    proptest!(proptest_config(500), |(rules in rules(), requests in requests(), first: bool)| {
        let file = file(&rules, first);
        let fixture = setup.fixture(&file);
        let mut model = Model { rules: &rules, first, now: 0, counts: HashMap::new() };
        for (number, request) in requests.iter().enumerate() {
            fixture.advance(request.after);
            model.now += request.after;
            let answer = check(&fixture, request);
            let expected = model.decide(request);
            prop_assert_eq!(answer, expected, "request {} of {:?}\n{}", number, requests, file);
        }
    });
}

fn check(fixture: &EngineFixture, request: &ModelRequest) -> ModelAnswer {
    let entries: Vec<Vec<Entry<'_>>> = request
        .descriptors
        .iter()
        .map(|(values, _)| {
            let has = (0..2).filter_map(|name| Some((name, values[name]?)));
            has.map(|(name, value)| Entry { key: NAMES[name], value: VALUES[value] }).collect()
        })
        .collect();
    let descriptors: Vec<Descriptor<'_>> = entries
        .iter()
        .zip(&request.descriptors)
        .map(|(entries, (_, cost))| Descriptor::new(entries, *cost))
        .collect();
    let request = Request { domain: "api", descriptors: &descriptors };
    fixture.setup.check(&fixture.engine, &request, summarize).unwrap()
}

fn summarize(answer: &Answer) -> ModelAnswer {
    let number = |name: &str| name[1..].parse().unwrap();
    let seconds =
        |wait: Wait| wait.span().map(|span: Nanos| u64::try_from(span.get() / 1_000_000_000).unwrap());
    ModelAnswer {
        kind: answer.kind,
        retry_after_s: seconds(answer.retry_after),
        limits: answer
            .limits()
            .map(|one| (number(&one.rule.name), one.kind, one.outcome.remaining))
            .collect(),
    }
}

over_each_store!(the_engine_agrees_with_the_model,);
