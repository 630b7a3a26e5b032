//! Counts decisions by the rule that made them.
//!
//! The table is a fixed array of slots with open addressing. A slot is filled once and never emptied, so a look-up
//! needs no lock: a hash, one or two comparisons and an addition. Counters belong to the names of a domain and a rule,
//! so a reload resets nothing. If there are more than [`RULES_COUNTED_MAX`] pairs of names, the rest share one counter.

use std::array;
use std::cell::Cell;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use tidegate::rules::AnswerKind;

use crate::serve::Protocol;

/// The maximum number of domain and rule pairs with their own counters.
pub const RULES_COUNTED_MAX: usize = 1_000;
/// The rule label of the shared counter for pairs over the maximum. Its domain is empty.
pub const OTHER: &str = "other";
/// At least twice the maximum in use, so that searches are short.
const SLOTS: usize = (2 * RULES_COUNTED_MAX).next_power_of_two();

/// All kinds of answers, in the order of their discriminants.
pub const ANSWER_KINDS: [AnswerKind; 8] = [
    AnswerKind::Allowed,
    AnswerKind::ShadowDenied,
    AnswerKind::OverQuota,
    AnswerKind::Soft,
    AnswerKind::Delayed,
    AnswerKind::ShadowBanned,
    AnswerKind::Denied,
    AnswerKind::Unavailable,
];

/// The decisions of all rules.
pub struct RuleCounterTable {
    slots: Box<[OnceLock<Box<RuleCounters>>]>,
    used: AtomicUsize,
    hasher: RandomState,
    other: RuleCounters,
}

/// The decisions of a rule. An empty rule name means that no rule applied.
#[derive(Debug)]
pub struct RuleCounters {
    /// The domain. Empty if it has no rules.
    pub domain: Box<str>,
    /// The rule.
    pub rule: Box<str>,
    decisions: [[AtomicU64; ANSWER_KINDS.len()]; Protocol::ALL.len()],
    /// Requests that the rule applied to and another rule decided, by what this rule alone says.
    decided_by_other: [AtomicU64; ANSWER_KINDS.len()],
    /// Requests that its candidate was tried on.
    pub candidate_evaluated: AtomicU64,
    /// How often its candidate would have denied a request.
    pub candidate_denied: AtomicU64,
}

/// The names of a domain and a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleLabels<'a> {
    /// The domain.
    pub domain: &'a str,
    /// The rule.
    pub rule: &'a str,
}

impl RuleCounterTable {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| OnceLock::new()).collect(),
            used: AtomicUsize::new(0),
            hasher: RandomState::default(),
            other: RuleCounters::new(RuleLabels { domain: "", rule: OTHER }),
        }
    }

    /// The counters of a pair, if it is in the table.
    #[inline]
    pub fn find(&self, pair: RuleLabels<'_>) -> Option<&RuleCounters> {
        // The same rule often decides several requests in a row. Comparing the names is cheaper than hashing them.
        thread_local!(static LAST_SLOT: Cell<usize> = const { Cell::new(0) });
        let last = self.slots.get(LAST_SLOT.get()).and_then(OnceLock::get);
        if let Some(counters) = last.filter(|counters| counters.matches(pair)) {
            return Some(counters);
        }
        for slot in self.search(pair) {
            let counters = self.slots[slot].get()?;
            if counters.matches(pair) {
                LAST_SLOT.set(slot);
                return Some(counters);
            }
        }
        None
    }

    /// The counters of a pair, added if needed. The shared ones if the table is full.
    pub fn add(&self, pair: RuleLabels<'_>) -> &RuleCounters {
        if let Some(counters) = self.find(pair) {
            return counters;
        }
        let room = |used: usize| (used < RULES_COUNTED_MAX).then_some(used + 1);
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            return &self.other;
        }
        for slot in self.search(pair) {
            let mut is_new = false;
            let counters = self.slots[slot].get_or_init(|| {
                is_new = true;
                Box::new(RuleCounters::new(pair))
            });
            // Otherwise another pair has taken the slot.
            if counters.matches(pair) {
                if !is_new {
                    self.used.fetch_sub(1, Ordering::Relaxed);
                }
                return counters;
            }
        }
        &self.other
    }

    /// All counters, sorted by name, the shared ones last.
    pub fn all(&self) -> impl Iterator<Item = &RuleCounters> {
        let mut all: Vec<&RuleCounters> =
            self.slots.iter().filter_map(OnceLock::get).map(|counters| &**counters).collect();
        all.sort_unstable_by(|a, b| (&a.domain, &a.rule).cmp(&(&b.domain, &b.rule)));
        all.into_iter().chain([&self.other])
    }

    /// The slots in which a pair may be, the first choice first.
    fn search(&self, pair: RuleLabels<'_>) -> impl Iterator<Item = usize> + use<> {
        #[allow(clippy::cast_possible_truncation, reason = "below SLOTS")]
        let first = (self.hasher.hash_one(pair) % SLOTS as u64) as usize;
        (0..SLOTS).map(move |step| (first + step) % SLOTS)
    }
}

impl RuleCounters {
    fn new(pair: RuleLabels<'_>) -> Self {
        Self {
            domain: pair.domain.into(),
            rule: pair.rule.into(),
            decisions: array::from_fn(|_| array::from_fn(|_| AtomicU64::new(0))),
            decided_by_other: array::from_fn(|_| AtomicU64::new(0)),
            candidate_evaluated: AtomicU64::new(0),
            candidate_denied: AtomicU64::new(0),
        }
    }

    /// Counts a decision.
    #[inline]
    pub fn increment(&self, protocol: Protocol, kind: AnswerKind) {
        self.add(protocol, kind, 1);
    }

    /// Counts several decisions of the same kind.
    #[inline]
    pub fn add(&self, protocol: Protocol, kind: AnswerKind, decisions: u64) {
        self.decisions[protocol as usize][kind as usize].fetch_add(decisions, Ordering::Relaxed);
    }

    /// The number of decisions of this kind.
    pub fn get(&self, protocol: Protocol, kind: AnswerKind) -> u64 {
        self.decisions[protocol as usize][kind as usize].load(Ordering::Relaxed)
    }

    /// Counts a request that the rule applied to and another rule decided.
    pub fn count_decided_by_other(&self, kind: AnswerKind) {
        self.decided_by_other[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that the rule applied to, of which it alone says this.
    pub fn evaluations(&self, kind: AnswerKind) -> u64 {
        let decided: u64 = Protocol::ALL.into_iter().map(|protocol| self.get(protocol, kind)).sum();
        decided + self.decided_by_other[kind as usize].load(Ordering::Relaxed)
    }

    fn matches(&self, pair: RuleLabels<'_>) -> bool {
        *self.rule == *pair.rule && *self.domain == *pair.domain
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn pair<'a>(domain: &'a str, rule: &'a str) -> RuleLabels<'a> {
        RuleLabels { domain, rule }
    }

    #[test]
    fn a_rule_keeps_its_counters() {
        let table = RuleCounterTable::new();
        assert!(table.find(pair("api", "login")).is_none());
        table.add(pair("api", "login")).increment(Protocol::Http, AnswerKind::Denied);
        table.add(pair("apilogin", "")).increment(Protocol::Http, AnswerKind::Denied);
        table.add(pair("api", "login")).increment(Protocol::Grpc, AnswerKind::Allowed);
        let counters = table.find(pair("api", "login")).unwrap();
        let counts = |protocol, kind| counters.get(protocol, kind);
        assert_eq!(counts(Protocol::Http, AnswerKind::Denied), 1);
        assert_eq!(
            (counts(Protocol::Grpc, AnswerKind::Allowed), counts(Protocol::Resp, AnswerKind::Denied)),
            (1, 0)
        );
    }

    #[test]
    fn discriminants_are_indexes() {
        assert!(ANSWER_KINDS.iter().enumerate().all(|(number, kind)| *kind as usize == number));
        assert!(Protocol::ALL.iter().enumerate().all(|(number, protocol)| *protocol as usize == number));
    }

    #[test]
    fn rules_over_the_limit_share_one_counter() {
        let table = RuleCounterTable::new();
        for number in 0..3 * RULES_COUNTED_MAX {
            table.add(pair("api", &format!("rule-{number}"))).increment(Protocol::Http, AnswerKind::Allowed);
        }
        let all: Vec<&RuleCounters> = table.all().collect();
        assert_eq!(all.len(), RULES_COUNTED_MAX + 1);
        let other = all.last().unwrap();
        assert_eq!((&*other.domain, &*other.rule), ("", OTHER));
        assert_eq!(other.get(Protocol::Http, AnswerKind::Allowed), 2 * RULES_COUNTED_MAX as u64);
        let sum: u64 = all.iter().map(|counters| counters.get(Protocol::Http, AnswerKind::Allowed)).sum();
        assert_eq!(sum, 3 * RULES_COUNTED_MAX as u64);
    }

    /// Leaves room for one pair per thread: a thread that adds a pair reserves room before it knows that the pair
    /// exists.
    #[test]
    fn threads_share_the_counters_of_a_rule() {
        const THREADS: usize = 8;
        const PAIRS: usize = RULES_COUNTED_MAX - THREADS;
        let (table, together) = (RuleCounterTable::new(), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    for number in 0..PAIRS {
                        table
                            .add(pair("api", &number.to_string()))
                            .increment(Protocol::Resp, AnswerKind::Soft);
                    }
                });
            }
        });
        let counts: Vec<u64> =
            table.all().map(|counters| counters.get(Protocol::Resp, AnswerKind::Soft)).collect();
        assert_eq!(counts.len(), PAIRS + 1);
        assert_eq!(counts.iter().sum::<u64>(), (THREADS * PAIRS) as u64);
    }
}
