//! What is counted, for Prometheus.
//!
//! ```text
//! tallies.rs     decisions, by rule; kinds.rs rare things, by words; histogram.rs spans of time
//! store.rs       what a store that a fleet shares says of itself
//! page.rs        all of it, with what the engine, the status and the process say, as one page
//! exposition.rs  the text that the page is written in
//! ```
//!
//! Nothing here is told apart by key, or by anything else that clients choose: a page has so many lines at most,
//! whatever they send. What is counted for each request is a hash, a look or two and an addition.

mod exposition;
mod histogram;
mod kinds;
mod page;
mod process;
mod store;
mod tallies;

pub use exposition::CONTENT_TYPE;
pub use tallies::RULES_COUNTED_MAX;

use std::array;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::engine::StageTimes;
use tidegate::rules::{Answer, AnswerKind, OnStoreFailure};
use tidegate_core::OutcomeKind;

use super::Protocol;
use histogram::Histogram;
use kinds::LabeledCounters;
use tallies::{RuleLabels, RuleCounterTable, RuleCounters};

/// One decision of so many has its time taken. Not a power of two, or of requests that come by the dozen it would
/// always be the same ones.
pub const TIMING_SAMPLE_EVERY: u32 = 17;

/// What stands for the rule of calls that bring their own limit and know no rules: `CL.THROTTLE`.
const THROTTLE: RuleLabels<'static> = RuleLabels { domain: "", rule: "cl.throttle" };
/// Decisions that no rule had a say in, of domains without rules.
const NO_RULE: RuleLabels<'static> = RuleLabels { domain: "", rule: "" };

/// What is counted. One for the process.
pub struct Metrics {
    rule_counters: RuleCounterTable,
    connections: [Connections; Protocol::ALL.len()],
    /// By protocol and reason.
    refused_connections: LabeledCounters,
    /// By protocol and reason.
    rejected_requests: LabeledCounters,
    /// By operation and result.
    operations: LabeledCounters,
    /// Decisions without the store that a fleet shares, by what was done instead.
    degraded_decisions: [AtomicU64; OnStoreFailure::ALL.len()],
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

/// How long a decision took, as a whole and by stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionTimes {
    /// From when it was asked for until there was an answer, without the time for which a rule held it.
    pub decision_ns: u64,
    /// The stages.
    pub stages: StageTimes,
}

impl Metrics {
    /// A request to this domain was decided. Whether the domain has rules is asked only where it is not known yet.
    #[inline]
    pub fn count_decision(&self, by: Protocol, domain: &str, answer: &Answer, has_rules: impl Fn() -> bool) {
        let rule = answer.decider().map_or("", |limit| &*limit.rule.name);
        self.counters_of(RuleLabels { domain, rule }, &has_rules).increment(by, answer.kind);
        for candidate in answer.candidates().filter(|candidate| !candidate.kind.passes()) {
            let tally = self.counters_of(RuleLabels { domain, rule: &candidate.rule.name }, &has_rules);
            tally.candidate_denied.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many calls that brought their own limit were decided so.
    pub fn count_throttled(&self, verdict: OutcomeKind, calls: u64) {
        let fate = if verdict == OutcomeKind::Allowed { AnswerKind::Allowed } else { AnswerKind::Denied };
        self.rule_counters.add(THROTTLE).add(Protocol::Resp, fate, calls);
    }

    /// Whether the time of this decision is to be taken: of one of [`TIMED_ONE_OF`].
    #[inline]
    pub fn is_timed(&self) -> bool {
        thread_local!(static UNTIL_NEXT: Cell<u32> = const { Cell::new(0) });
        UNTIL_NEXT.with(|until| match until.get() {
            0 => {
                until.set(TIMING_SAMPLE_EVERY - 1);
                true
            }
            left => {
                until.set(left - 1);
                false
            }
        })
    }

    /// The time of a decision was taken.
    pub fn observe_times(&self, by: Protocol, took: DecisionTimes) {
        self.decision[by as usize].observe(took.decision_ns);
        self.matching.observe(took.stages.matching_ns);
        self.store.observe(took.stages.store_ns);
    }

    /// A decision was made without the store that a fleet shares, by this.
    #[cold]
    pub fn count_degraded(&self, policy: OnStoreFailure) {
        self.degraded_decisions[policy as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many decisions were.
    pub fn degraded_decisions(&self) -> u64 {
        self.degraded_decisions.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// A connection was opened.
    pub fn connection_opened(&self, by: Protocol) {
        self.connections[by as usize].opened.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was closed.
    pub fn connection_closed(&self, by: Protocol) {
        self.connections[by as usize].closed.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was turned away: there are as many as there may be.
    pub fn count_over_connection_limit(&self, by: Protocol) {
        self.count_refused_connection(by, "too_many");
    }

    /// A connection was closed because it speaks another protocol than its port.
    pub fn count_wrong_protocol(&self, by: Protocol, spoken: &'static str) {
        self.count_refused_connection(by, spoken);
    }

    /// A connection was not taken, or was closed before anything was asked, for this reason: a word or two, joined by
    /// underscores.
    pub fn count_refused_connection(&self, by: Protocol, reason: &'static str) {
        self.refused_connections.increment([by.as_str(), reason]);
    }

    /// A request was not decided, for this reason: a word or two, joined by underscores.
    pub fn count_rejected_request(&self, by: Protocol, reason: &'static str) {
        self.rejected_requests.increment([by.as_str(), reason]);
    }

    /// Something was done that is no decision, with this result: a word or two each, joined by underscores.
    pub fn count_operation(&self, operation: &'static str, result: &'static str) {
        self.operations.increment([operation, result]);
    }

    #[inline]
    fn counters_of(&self, pair: RuleLabels<'_>, has_rules: impl Fn() -> bool) -> &RuleCounters {
        match self.rule_counters.find(pair) {
            Some(tally) => tally,
            None => self.add_counters(pair, has_rules),
        }
    }

    /// Clients choose what domains they name, so only those are told apart that have rules.
    #[cold]
    fn add_counters(&self, pair: RuleLabels<'_>, has_rules: impl Fn() -> bool) -> &RuleCounters {
        let domain = if has_rules() { pair.domain } else { "" };
        self.rule_counters.add(RuleLabels { domain, ..pair })
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let tallies = RuleCounterTable::new();
        tallies.add(NO_RULE);
        Self {
            rule_counters: tallies,
            connections: Default::default(),
            refused_connections: LabeledCounters::new(),
            rejected_requests: LabeledCounters::new(),
            operations: LabeledCounters::new(),
            degraded_decisions: Default::default(),
            decision: array::from_fn(|_| Histogram::default()),
            matching: Histogram::default(),
            store: Histogram::default(),
        }
    }
}
