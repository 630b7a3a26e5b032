//! Metrics for Prometheus.
//!
//! ```text
//! rule_counters.rs     decisions, by rule
//! descriptor_counters.rs  hits, by descriptor
//! labeled_counters.rs  rare events, by two labels
//! histogram.rs         durations
//! store.rs, process.rs the statistics of a shared store and of the process
//! page.rs              all metrics as one page
//! exposition.rs        the text format of the page
//! ```
//!
//! No label holds a key or any other value that clients choose, such as the name of an unknown domain. The exception is
//! a descriptor for which the file asks for it, and the number of descriptors is bounded. So clients cannot make the
//! page grow.
//!
//! The counters of a rule are found by domain and rule name, in a table of bounded size whose slots are never freed. So
//! counting a decision costs one hash, usually one look-up without a lock, and one addition, for each rule that applied;
//! and a reload of the rules resets no counter. Only one decision in [`TIMING_SAMPLE_EVERY`] is timed.

mod descriptor_counters;
mod exposition;
mod histogram;
mod labeled_counters;
mod page;
mod process;
mod rule_counters;
mod store;

use std::array;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::engine::StageTimes;
use tidegate::identity::TokenProblem;
use tidegate::rules::{Answer, AnswerKind, LimitAnswer, OnStoreFailure, Request};
use tidegate_core::OutcomeKind;

use super::Protocol;
use descriptor_counters::DescriptorCounterTable;
use histogram::Histogram;
use labeled_counters::LabeledCounters;
use rule_counters::{RuleCounterTable, RuleCounters, RuleLabels};

pub use descriptor_counters::DescriptorMetrics;
pub use exposition::CONTENT_TYPE;
pub use process::resident_bytes;
pub use rule_counters::{ANSWER_KINDS, RULES_COUNTED_MAX};

/// One decision in this many is timed. Not a power of two, because requests often come in such groups, and then always
/// the same one of a group would be timed.
pub const TIMING_SAMPLE_EVERY: u32 = 17;

/// The rule label of `CL.THROTTLE`, which has its limit in the call and uses no rules.
const THROTTLE: RuleLabels<'static> = RuleLabels { domain: "", rule: "cl.throttle" };
/// The labels of decisions without a rule, in domains without rules.
const NO_RULE: RuleLabels<'static> = RuleLabels { domain: "", rule: "" };
/// The rule label of limits that requests bring along. Answers call their rule `override`, which a file may use too.
const REQUEST_LIMIT: &str = "request_limit";

/// All counters. There is one per process.
pub struct Metrics {
    rule_counters: RuleCounterTable,
    descriptor_counters: DescriptorCounterTable,
    connections: [Connections; Protocol::ALL.len()],
    /// By protocol and reason.
    refused_connections: LabeledCounters,
    /// By protocol and reason.
    rejected_requests: LabeledCounters,
    /// By operation and result.
    operations: LabeledCounters,
    failed_logins: [AtomicU64; Protocol::ALL.len()],
    /// Decisions on requests whose domain has no rules, by protocol.
    unknown_domain: [AtomicU64; Protocol::ALL.len()],
    /// Requests whose token was not accepted, in the order of `TokenProblem::ALL`.
    token_problems: [AtomicU64; TokenProblem::ALL.len()],
    /// Failed attempts to get the keys of tokens.
    token_key_failures: AtomicU64,
    /// Decisions without the shared store, by the policy that replaced it.
    degraded_decisions: [AtomicU64; OnStoreFailure::ALL.len()],
    /// Decisions without the shared store because a key is not a counter.
    unreadable_decisions: AtomicU64,
    decision: [Histogram; Protocol::ALL.len()],
    matching: Histogram,
    store: Histogram,
}

/// The connections of a protocol.
#[derive(Debug, Default)]
struct Connections {
    opened: AtomicU64,
    closed: AtomicU64,
}

/// How long a decision took, in total and by stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionTimes {
    /// From the request to the answer, without the time in a wait queue.
    pub decision_ns: u64,
    /// By stage.
    pub stages: StageTimes,
}

impl Metrics {
    /// Counts a decision. Calls `has_rules` only for labels that are not in the table yet.
    #[inline]
    pub fn count_decision(
        &self,
        protocol: Protocol,
        domain: &str,
        answer: &Answer,
        has_rules: impl Fn() -> bool,
    ) {
        let decider = answer.decider();
        let rule = decider.map_or("", |limit| rule_label(&limit));
        self.counters_of(RuleLabels { domain, rule }, &has_rules).increment(protocol, answer.kind);
        if let Some(decider) = decider
            && answer.limits().len() > 1
        {
            let others = answer.limits().filter(|limit| !std::ptr::eq(limit.rule, decider.rule));
            for_each_rule(&others, |limit, kind| {
                let pair = RuleLabels { domain, rule: rule_label(&limit) };
                self.counters_of(pair, &has_rules).count_decided_by_other(kind);
            });
        }
        if answer.candidates().len() > 0 {
            for_each_rule(&answer.candidates(), |candidate, kind| {
                let counters =
                    self.counters_of(RuleLabels { domain, rule: &candidate.rule.name }, &has_rules);
                counters.candidate_evaluated.fetch_add(1, Ordering::Relaxed);
                if !kind.passes() {
                    counters.candidate_denied.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }

    /// Counts the hits of a decision, by descriptor.
    #[inline]
    pub fn count_descriptors(&self, request: &Request<'_>, answer: &Answer) {
        self.descriptor_counters.count(request, answer);
    }

    /// Counts a decision on a request whose domain has no rules.
    pub fn count_unknown_domain(&self, protocol: Protocol) {
        self.unknown_domain[protocol as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request whose token was not accepted.
    #[cold]
    pub fn count_token_problem(&self, problem: TokenProblem) {
        let counts = TokenProblem::ALL.iter().zip(&self.token_problems);
        for (_, count) in counts.filter(|(known, _)| **known == problem) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a failed attempt to get the keys of tokens.
    pub fn count_token_key_failure(&self) {
        self.token_key_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts calls of `CL.THROTTLE` with the same outcome.
    pub fn count_throttled(&self, outcome: OutcomeKind, calls: u64) {
        let kind = if outcome == OutcomeKind::Allowed { AnswerKind::Allowed } else { AnswerKind::Denied };
        self.rule_counters.add(THROTTLE).add(Protocol::Resp, kind, calls);
    }

    /// Whether to time this decision: one in [`TIMING_SAMPLE_EVERY`], counted per thread.
    #[inline]
    pub fn is_timed(&self) -> bool {
        thread_local!(static UNTIL_NEXT: Cell<u32> = const { Cell::new(0) });
        UNTIL_NEXT.with(|countdown| match countdown.get() {
            0 => {
                countdown.set(TIMING_SAMPLE_EVERY - 1);
                true
            }
            left => {
                countdown.set(left - 1);
                false
            }
        })
    }

    /// Adds the times of a decision to the histograms.
    pub fn observe_times(&self, protocol: Protocol, times: DecisionTimes) {
        self.decision[protocol as usize].observe(times.decision_ns);
        self.matching.observe(times.stages.matching_ns);
        self.store.observe(times.stages.store_ns);
    }

    /// Counts a decision that was made by this policy, without the shared store. One that was made because of an
    /// unreadable key is counted separately: the store works.
    #[cold]
    pub fn count_degraded(&self, policy: OnStoreFailure, unreadable_key: bool) {
        let count = match unreadable_key {
            true => &self.unreadable_decisions,
            false => &self.degraded_decisions[policy as usize],
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// How many decisions were made without the shared store because it did not answer.
    pub fn degraded_decisions(&self) -> u64 {
        self.degraded_decisions.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Counts an opened connection.
    pub fn connection_opened(&self, protocol: Protocol) {
        self.connections[protocol as usize].opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a closed connection.
    pub fn connection_closed(&self, protocol: Protocol) {
        self.connections[protocol as usize].closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was refused because of `--connections-max`.
    pub fn count_over_connection_limit(&self, protocol: Protocol) {
        self.count_refused_connection(protocol, "too_many");
    }

    /// Counts a connection that was closed because it speaks the wrong protocol, which is named in snake case.
    pub fn count_wrong_protocol(&self, protocol: Protocol, spoken: &'static str) {
        self.count_refused_connection(protocol, spoken);
    }

    /// Counts a connection that was refused, or closed before its first request. `reason` is in snake case.
    pub fn count_refused_connection(&self, protocol: Protocol, reason: &'static str) {
        self.refused_connections.increment([protocol.as_str(), reason]);
    }

    /// Counts a request that was not decided. `reason` is in snake case.
    pub fn count_rejected_request(&self, protocol: Protocol, reason: &'static str) {
        self.rejected_requests.increment([protocol.as_str(), reason]);
    }

    /// Counts a client that sent no secret or a wrong one.
    pub fn count_failed_login(&self, protocol: Protocol) {
        self.failed_logins[protocol as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an operation other than a decision. Both labels are in snake case.
    pub fn count_operation(&self, operation: &'static str, result: &'static str) {
        self.operations.increment([operation, result]);
    }

    #[inline]
    fn counters_of(&self, pair: RuleLabels<'_>, has_rules: impl Fn() -> bool) -> &RuleCounters {
        match self.rule_counters.find(pair) {
            Some(counters) => counters,
            None => self.add_counters(pair, has_rules),
        }
    }

    /// Clients can send any domain name, so only domains with rules become labels.
    #[cold]
    fn add_counters(&self, pair: RuleLabels<'_>, has_rules: impl Fn() -> bool) -> &RuleCounters {
        let domain = if has_rules() { pair.domain } else { "" };
        self.rule_counters.add(RuleLabels { domain, ..pair })
    }
}

/// Calls `count` once for each rule of the limits, with its first limit and the most severe of their answers.
fn for_each_rule<'a>(
    limits: &(impl Iterator<Item = LimitAnswer<'a>> + Clone),
    mut count: impl FnMut(LimitAnswer<'a>, AnswerKind),
) {
    for (index, limit) in limits.clone().enumerate() {
        let is_same = |other: &LimitAnswer<'_>| std::ptr::eq(other.rule, limit.rule);
        if !limits.clone().take(index).any(|other| is_same(&other)) {
            let severest = limits.clone().skip(index).filter(is_same).map(|other| other.kind).max();
            count(limit, severest.unwrap_or(limit.kind));
        }
    }
}

/// The rule label of a limit.
fn rule_label<'a>(limit: &LimitAnswer<'a>) -> &'a str {
    if limit.is_request_limit { REQUEST_LIMIT } else { &limit.rule.name }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(DescriptorMetrics::default())
    }
}

impl Metrics {
    /// Creates counters that are all zero.
    pub fn new(descriptors: DescriptorMetrics) -> Self {
        let rule_counters = RuleCounterTable::new();
        rule_counters.add(NO_RULE);
        Self {
            rule_counters,
            descriptor_counters: DescriptorCounterTable::new(descriptors),
            connections: Default::default(),
            refused_connections: LabeledCounters::new(),
            rejected_requests: LabeledCounters::new(),
            operations: LabeledCounters::new(),
            failed_logins: Default::default(),
            unknown_domain: Default::default(),
            token_problems: Default::default(),
            token_key_failures: AtomicU64::new(0),
            degraded_decisions: Default::default(),
            unreadable_decisions: AtomicU64::new(0),
            decision: array::from_fn(|_| Histogram::default()),
            matching: Histogram::default(),
            store: Histogram::default(),
        }
    }
}
