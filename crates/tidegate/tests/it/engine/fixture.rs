//! An engine on a manual clock, with short forms of requests and answers.

use std::time::Duration;

use tidegate::rules::{self, Answer, AnswerKind, Descriptor, Domain, Entry, LimitAnswer, Request};
use tidegate::{ManualClock, Wait};

use crate::engine::setup::{Setup, TestEngine};

pub struct EngineFixture {
    pub setup: Setup,
    pub engine: TestEngine<ManualClock>,
    pub clock: ManualClock,
}

/// The parts of an answer that tests compare. Borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerSummary {
    pub kind: AnswerKind,
    pub remaining: u64,
    /// In milliseconds. None for never.
    pub retry_after_ms: Option<u128>,
    pub delay_ms: u128,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Of each limit: its rule, the kind of answer without other limits, and the remaining units.
    pub limits: Vec<(String, AnswerKind, u64)>,
    pub candidates: Vec<(String, AnswerKind)>,
    pub degraded: bool,
}

pub fn domains(file: &str) -> Vec<Domain> {
    match rules::parse("rules.yaml", file) {
        Ok(loaded) => loaded.domains,
        Err(report) => panic!("{report}"),
    }
}

impl EngineFixture {
    pub fn new(setup: Setup, file: &str) -> Self {
        let clock = ManualClock::default();
        Self { setup, engine: setup.engine(domains(file), clock.clone()), clock }
    }

    pub fn reload(&self, file: &str) {
        self.engine.replace(domains(file)).unwrap();
    }

    pub fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Checks a request of the domain `api`: `method=POST path=/login`, with `;` between descriptors.
    pub fn check(&self, attributes: &str) -> AnswerSummary {
        self.check_cost(attributes, 1)
    }

    pub fn check_cost(&self, attributes: &str, cost: u64) -> AnswerSummary {
        with_request(attributes, cost, |request| {
            self.setup.check(&self.engine, request, AnswerSummary::from_answer).unwrap()
        })
    }

    pub fn peek(&self, attributes: &str) -> AnswerSummary {
        with_request(attributes, 1, |request| {
            self.setup.peek(&self.engine, request, AnswerSummary::from_answer)
        })
    }

    /// Explains the answer to a request, as text.
    pub fn explain(&self, attributes: &str) -> String {
        with_request(attributes, 1, |request| {
            self.setup.explain(&self.engine, request, |explanation| explanation.to_string())
        })
    }

    /// The kinds of the answers to `times` requests in a row.
    pub fn kinds(&self, attributes: &str, times: usize) -> Vec<AnswerKind> {
        (0..times).map(|_| self.check(attributes).kind).collect()
    }

    /// How many of `times` requests in a row pass.
    pub fn count_passing(&self, attributes: &str, times: usize) -> usize {
        self.kinds(attributes, times).into_iter().filter(|kind| kind.passes()).count()
    }
}

impl AnswerSummary {
    pub fn from_answer(answer: &Answer) -> Self {
        let wait = |wait: Wait| wait.span().map(|span| span.get().div_ceil(1_000_000));
        let name = |limit: &LimitAnswer<'_>| limit.rule.name.to_string();
        Self {
            kind: answer.kind,
            remaining: answer.remaining,
            retry_after_ms: wait(answer.retry_after),
            delay_ms: answer.delay.get().div_ceil(1_000_000),
            rule: answer.decider().as_ref().map(name),
            limits: answer.limits().map(|one| (name(&one), one.kind, one.outcome.remaining)).collect(),
            candidates: answer.candidates().map(|one| (name(&one), one.kind)).collect(),
            degraded: answer.degraded,
        }
    }
}

/// The entries of each descriptor of `method=POST path=/login`, with `;` between descriptors.
pub fn entries(attributes: &str) -> Vec<Vec<Entry<'_>>> {
    let entry = |pair| {
        let (key, value) = str::split_once(pair, '=').expect("key=value");
        Entry { key, value }
    };
    attributes.split(';').map(|one| one.split_whitespace().map(entry).collect()).collect()
}

pub fn with_request<R>(attributes: &str, cost: u64, f: impl FnOnce(&Request<'_>) -> R) -> R {
    let entries = entries(attributes);
    let descriptors: Vec<Descriptor<'_>> =
        entries.iter().map(|entries| Descriptor::new(entries, cost)).collect();
    f(&Request { domain: "api", descriptors: &descriptors })
}
