//! Decisions, counted by the rule that made them.
//!
//! A table of slots that are filled once and never emptied, so that counting takes a hash, a look or two and an
//! addition, and a reload resets nothing: a counter belongs to the names of a domain and a rule, whatever rules are in
//! force. There are so many pairs of names at most; all beyond are counted as one.

use std::array;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use tidegate::rules::AnswerKind;

use crate::serve::Protocol;

/// The most pairs of a domain and a rule that are counted apart.
pub const RULES_COUNTED_MAX: usize = 1_000;
/// What the rule is called of all that are counted together because there are too many; of no domain.
pub const OTHER: &str = "other";
/// Twice as many as can be in use, so that a search is short.
const SLOTS: usize = (2 * RULES_COUNTED_MAX).next_power_of_two();

/// All fates, in their order.
pub const FATES: [AnswerKind; 8] = [
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

/// The decisions of a rule. No name of a rule: no rule had a say.
#[derive(Debug)]
pub struct RuleCounters {
    /// The domain; none if it is not known.
    pub domain: Box<str>,
    /// The rule.
    pub rule: Box<str>,
    decisions: [[AtomicU64; FATES.len()]; Protocol::ALL.len()],
    /// How often its candidate would have denied a request.
    pub candidate_denied: AtomicU64,
}

/// Names as requests and rules have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleLabels<'a> {
    /// The domain.
    pub domain: &'a str,
    /// The rule.
    pub rule: &'a str,
}

impl RuleCounterTable {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| OnceLock::new()).collect(),
            used: AtomicUsize::new(0),
            hasher: RandomState::default(),
            other: RuleCounters::new(RuleLabels { domain: "", rule: OTHER }),
        }
    }

    /// The counters of a pair, if it was counted before.
    #[inline]
    pub fn find(&self, pair: RuleLabels<'_>) -> Option<&RuleCounters> {
        for slot in self.search(pair) {
            let tally = self.slots[slot].get()?;
            if tally.matches(pair) {
                return Some(tally);
            }
        }
        None
    }

    /// The counters of a pair; those of all others if there are too many pairs.
    pub fn add(&self, pair: RuleLabels<'_>) -> &RuleCounters {
        if let Some(tally) = self.find(pair) {
            return tally;
        }
        let room = |used: usize| (used < RULES_COUNTED_MAX).then_some(used + 1);
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            return &self.other;
        }
        for slot in self.search(pair) {
            let mut is_new = false;
            let tally = self.slots[slot].get_or_init(|| {
                is_new = true;
                Box::new(RuleCounters::new(pair))
            });
            // Else somebody else had use for the slot.
            if tally.matches(pair) {
                if !is_new {
                    self.used.fetch_sub(1, Ordering::Relaxed);
                }
                return tally;
            }
        }
        &self.other
    }

    /// All that was counted, in the order of their names, and last what is counted together.
    pub fn all(&self) -> impl Iterator<Item = &RuleCounters> {
        let mut all: Vec<&RuleCounters> =
            self.slots.iter().filter_map(OnceLock::get).map(|tally| &**tally).collect();
        all.sort_unstable_by(|one, other| (&one.domain, &one.rule).cmp(&(&other.domain, &other.rule)));
        all.into_iter().chain([&self.other])
    }

    /// Where a pair may be, the likeliest place first.
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
            candidate_denied: AtomicU64::new(0),
        }
    }

    /// Counts a decision.
    #[inline]
    pub fn increment(&self, by: Protocol, fate: AnswerKind) {
        self.add(by, fate, 1);
    }

    /// Counts decisions that all came out the same.
    #[inline]
    pub fn add(&self, by: Protocol, fate: AnswerKind, decisions: u64) {
        self.decisions[by as usize][fate as usize].fetch_add(decisions, Ordering::Relaxed);
    }

    /// How many decisions there were.
    pub fn get(&self, by: Protocol, fate: AnswerKind) -> u64 {
        self.decisions[by as usize][fate as usize].load(Ordering::Relaxed)
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
        let tallies = RuleCounterTable::new();
        assert!(tallies.find(pair("api", "login")).is_none());
        tallies.add(pair("api", "login")).increment(Protocol::Http, AnswerKind::Denied);
        tallies.add(pair("apilogin", "")).increment(Protocol::Http, AnswerKind::Denied);
        tallies.add(pair("api", "login")).increment(Protocol::Grpc, AnswerKind::Allowed);
        let found = tallies.find(pair("api", "login")).unwrap();
        let counted = |by, fate| found.get(by, fate);
        assert_eq!(counted(Protocol::Http, AnswerKind::Denied), 1);
        assert_eq!((counted(Protocol::Grpc, AnswerKind::Allowed), counted(Protocol::Resp, AnswerKind::Denied)), (1, 0));
    }

    #[test]
    fn discriminants_are_indexes() {
        assert!(FATES.iter().enumerate().all(|(number, fate)| *fate as usize == number));
        assert!(Protocol::ALL.iter().enumerate().all(|(number, by)| *by as usize == number));
    }

    #[test]
    fn rules_over_the_limit_share_one_counter() {
        let tallies = RuleCounterTable::new();
        for number in 0..3 * RULES_COUNTED_MAX {
            tallies.add(pair("api", &format!("rule-{number}"))).increment(Protocol::Http, AnswerKind::Allowed);
        }
        let all: Vec<&RuleCounters> = tallies.all().collect();
        assert_eq!(all.len(), RULES_COUNTED_MAX + 1);
        let other = all.last().unwrap();
        assert_eq!((&*other.domain, &*other.rule), ("", OTHER));
        assert_eq!(other.get(Protocol::Http, AnswerKind::Allowed), 2 * RULES_COUNTED_MAX as u64);
        let sum: u64 = all.iter().map(|tally| tally.get(Protocol::Http, AnswerKind::Allowed)).sum();
        assert_eq!(sum, 3 * RULES_COUNTED_MAX as u64);
    }

    /// As many pairs as there is room for, but for one that each thread may be about to add.
    #[test]
    fn threads_share_the_counters_of_a_rule() {
        const THREADS: usize = 8;
        const PAIRS: usize = RULES_COUNTED_MAX - THREADS;
        let (tallies, together) = (RuleCounterTable::new(), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    for number in 0..PAIRS {
                        tallies.add(pair("api", &number.to_string())).increment(Protocol::Resp, AnswerKind::Soft);
                    }
                });
            }
        });
        let counted: Vec<u64> =
            tallies.all().map(|tally| tally.get(Protocol::Resp, AnswerKind::Soft)).collect();
        assert_eq!(counted.len(), PAIRS + 1);
        assert_eq!(counted.iter().sum::<u64>(), (THREADS * PAIRS) as u64);
    }
}
