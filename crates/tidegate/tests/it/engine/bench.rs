//! An engine on a manual clock, asked in short.

use std::time::Duration;

use tidegate::rules::{self, Answer, Descriptor, Domain, Entry, Fate, LimitAnswer, Request};
use tidegate::{ManualClock, Wait};

use crate::engine::setup::{Setup, TestEngine};

pub struct Bench {
    pub setup: Setup,
    pub engine: TestEngine<ManualClock>,
    pub clock: ManualClock,
}

/// What matters of an answer, without what it borrows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub fate: Fate,
    pub remaining: u64,
    /// In milliseconds; none: never.
    pub retry_after_ms: Option<u128>,
    pub delay_ms: u128,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Of each limit: the rule, the fate it would have had alone, and what it has left.
    pub limits: Vec<(String, Fate, u64)>,
    pub candidates: Vec<(String, Fate)>,
    pub degraded: bool,
}

pub fn domains(file: &str) -> Vec<Domain> {
    match rules::parse("rules.yaml", file) {
        Ok(loaded) => loaded.domains,
        Err(report) => panic!("{report}"),
    }
}

impl Bench {
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

    /// Asks for a request of domain `api`: `method=POST path=/login`, with `;` between descriptors.
    pub fn ask(&self, attributes: &str) -> Told {
        self.ask_for(attributes, 1)
    }

    pub fn ask_for(&self, attributes: &str, cost: u64) -> Told {
        with_request(attributes, cost, |request| self.setup.check(&self.engine, request, Told::of).unwrap())
    }

    pub fn peek(&self, attributes: &str) -> Told {
        with_request(attributes, 1, |request| self.setup.peek(&self.engine, request, Told::of))
    }

    /// Explains what becomes of a request, as text.
    pub fn explained(&self, attributes: &str) -> String {
        with_request(attributes, 1, |request| {
            self.setup.explain(&self.engine, request, |explanation| explanation.to_string())
        })
    }

    /// The fates of so many requests in a row.
    pub fn fates(&self, attributes: &str, times: usize) -> Vec<Fate> {
        (0..times).map(|_| self.ask(attributes).fate).collect()
    }

    /// How many of so many requests in a row pass.
    pub fn passing(&self, attributes: &str, times: usize) -> usize {
        self.fates(attributes, times).into_iter().filter(|fate| fate.passes()).count()
    }
}

impl Told {
    pub fn of(answer: &Answer) -> Self {
        let wait = |wait: Wait| wait.span().map(|span| span.get().div_ceil(1_000_000));
        let name = |limit: &LimitAnswer<'_>| limit.rule.name.to_string();
        Self {
            fate: answer.fate,
            remaining: answer.remaining,
            retry_after_ms: wait(answer.retry_after),
            delay_ms: answer.delay.get().div_ceil(1_000_000),
            rule: answer.decider().as_ref().map(name),
            limits: answer.limits().map(|one| (name(&one), one.fate, one.outcome.remaining)).collect(),
            candidates: answer.candidates().map(|one| (name(&one), one.fate)).collect(),
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

pub fn with_request<R>(attributes: &str, cost: u64, ask: impl FnOnce(&Request<'_>) -> R) -> R {
    let entries = entries(attributes);
    let descriptors: Vec<Descriptor<'_>> =
        entries.iter().map(|entries| Descriptor::new(entries, cost)).collect();
    ask(&Request { domain: "api", descriptors: &descriptors })
}
