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
pub use tallies::PAIRS_MAX;

use std::array;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::engine::StageTimes;
use tidegate::rules::{Answer, Fate, OnStoreFailure};
use tidegate_core::Verdict;

use super::Protocol;
use histogram::Histogram;
use kinds::Kinds;
use tallies::{Pair, Tallies, Tally};

/// One decision of so many has its time taken. Not a power of two, or of requests that come by the dozen it would
/// always be the same ones.
pub const TIMED_ONE_OF: u32 = 17;

/// What stands for the rule of calls that bring their own limit and know no rules: `CL.THROTTLE`.
const THROTTLE: Pair<'static> = Pair { domain: "", rule: "cl.throttle" };
/// Decisions that no rule had a say in, of domains without rules.
const NOBODY: Pair<'static> = Pair { domain: "", rule: "" };

/// What is counted. One for the process.
pub struct Metrics {
    tallies: Tallies,
    connections: [Connections; Protocol::ALL.len()],
    /// By protocol and reason.
    refused: Kinds,
    /// By protocol and reason.
    rejected: Kinds,
    /// By operation and result.
    operations: Kinds,
    /// Decisions without the store that a fleet shares, by what was done instead.
    degraded: [AtomicU64; OnStoreFailure::ALL.len()],
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
pub struct Took {
    /// From when it was asked for until there was an answer, without the time for which a rule held it.
    pub decision_ns: u64,
    /// The stages.
    pub stages: StageTimes,
}

impl Metrics {
    /// A request to this domain was decided. Whether the domain has rules is asked only where it is not known yet.
    #[inline]
    pub fn decided(&self, by: Protocol, domain: &str, answer: &Answer, has_rules: impl Fn() -> bool) {
        let rule = answer.decider().map_or("", |limit| &*limit.rule.name);
        self.tally(Pair { domain, rule }, &has_rules).count(by, answer.fate);
        for candidate in answer.candidates().filter(|candidate| !candidate.fate.passes()) {
            let tally = self.tally(Pair { domain, rule: &candidate.rule.name }, &has_rules);
            tally.candidate_denied.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many calls that brought their own limit were decided so.
    pub fn throttled(&self, verdict: Verdict, calls: u64) {
        let fate = if verdict == Verdict::Allowed { Fate::Allowed } else { Fate::Denied };
        self.tallies.add(THROTTLE).count_several(Protocol::Resp, fate, calls);
    }

    /// Whether the time of this decision is to be taken: of one of [`TIMED_ONE_OF`].
    #[inline]
    pub fn is_timed(&self) -> bool {
        thread_local!(static UNTIL_NEXT: Cell<u32> = const { Cell::new(0) });
        UNTIL_NEXT.with(|until| match until.get() {
            0 => {
                until.set(TIMED_ONE_OF - 1);
                true
            }
            left => {
                until.set(left - 1);
                false
            }
        })
    }

    /// The time of a decision was taken.
    pub fn took(&self, by: Protocol, took: Took) {
        self.decision[by as usize].observe(took.decision_ns);
        self.matching.observe(took.stages.matching_ns);
        self.store.observe(took.stages.store_ns);
    }

    /// A decision was made without the store that a fleet shares, by this.
    #[cold]
    pub fn degraded(&self, policy: OnStoreFailure) {
        self.degraded[policy as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many decisions were.
    pub fn degraded_decisions(&self) -> u64 {
        self.degraded.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// A connection was opened.
    pub fn connected(&self, by: Protocol) {
        self.connections[by as usize].opened.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was closed.
    pub fn disconnected(&self, by: Protocol) {
        self.connections[by as usize].closed.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was turned away: there are as many as there may be.
    pub fn turned_away(&self, by: Protocol) {
        self.refused(by, "too_many");
    }

    /// A connection was closed because it speaks another protocol than its port.
    pub fn foreign(&self, by: Protocol, spoken: &'static str) {
        self.refused(by, spoken);
    }

    /// A connection was not taken, or was closed before anything was asked, for this reason: a word or two, joined by
    /// underscores.
    pub fn refused(&self, by: Protocol, reason: &'static str) {
        self.refused.count([by.as_str(), reason]);
    }

    /// A request was not decided, for this reason: a word or two, joined by underscores.
    pub fn rejected(&self, by: Protocol, reason: &'static str) {
        self.rejected.count([by.as_str(), reason]);
    }

    /// Something was done that is no decision, with this result: a word or two each, joined by underscores.
    pub fn operated(&self, operation: &'static str, result: &'static str) {
        self.operations.count([operation, result]);
    }

    #[inline]
    fn tally(&self, pair: Pair<'_>, has_rules: impl Fn() -> bool) -> &Tally {
        match self.tallies.find(pair) {
            Some(tally) => tally,
            None => self.tally_anew(pair, has_rules),
        }
    }

    /// Clients choose what domains they name, so only those are told apart that have rules.
    #[cold]
    fn tally_anew(&self, pair: Pair<'_>, has_rules: impl Fn() -> bool) -> &Tally {
        let domain = if has_rules() { pair.domain } else { "" };
        self.tallies.add(Pair { domain, ..pair })
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let tallies = Tallies::new();
        tallies.add(NOBODY);
        Self {
            tallies,
            connections: Default::default(),
            refused: Kinds::new(),
            rejected: Kinds::new(),
            operations: Kinds::new(),
            degraded: Default::default(),
            decision: array::from_fn(|_| Histogram::default()),
            matching: Histogram::default(),
            store: Histogram::default(),
        }
    }
}
