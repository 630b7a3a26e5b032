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
use tidegate::rules::Fate;

use crate::serve::Protocol;

/// The most pairs of a domain and a rule that are counted apart.
pub const PAIRS_MAX: usize = 1_000;
/// What the rule is called of all that are counted together because there are too many; of no domain.
pub const OTHER: &str = "other";
/// Twice as many as can be in use, so that a search is short.
const SLOTS: usize = (2 * PAIRS_MAX).next_power_of_two();

/// All fates, in their order.
pub const FATES: [Fate; 8] = [
    Fate::Allowed,
    Fate::ShadowDenied,
    Fate::OverQuota,
    Fate::Soft,
    Fate::Delayed,
    Fate::ShadowBanned,
    Fate::Denied,
    Fate::Unavailable,
];

/// The decisions of all rules.
pub struct Tallies {
    slots: Box<[OnceLock<Box<Tally>>]>,
    used: AtomicUsize,
    hasher: RandomState,
    other: Tally,
}

/// The decisions of a rule. No name of a rule: no rule had a say.
#[derive(Debug)]
pub struct Tally {
    /// The domain; none if it is not known.
    pub domain: Box<str>,
    /// The rule.
    pub rule: Box<str>,
    by: [[AtomicU64; FATES.len()]; Protocol::ALL.len()],
    /// How often its candidate would have denied a request.
    pub candidate_denied: AtomicU64,
}

/// Names as requests and rules have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair<'a> {
    /// The domain.
    pub domain: &'a str,
    /// The rule.
    pub rule: &'a str,
}

impl Tallies {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| OnceLock::new()).collect(),
            used: AtomicUsize::new(0),
            hasher: RandomState::default(),
            other: Tally::new(Pair { domain: "", rule: OTHER }),
        }
    }

    /// The counters of a pair, if it was counted before.
    #[inline]
    pub fn find(&self, pair: Pair<'_>) -> Option<&Tally> {
        for slot in self.search(pair) {
            let tally = self.slots[slot].get()?;
            if tally.is_of(pair) {
                return Some(tally);
            }
        }
        None
    }

    /// The counters of a pair; those of all others if there are too many pairs.
    pub fn add(&self, pair: Pair<'_>) -> &Tally {
        if let Some(tally) = self.find(pair) {
            return tally;
        }
        let room = |used: usize| (used < PAIRS_MAX).then_some(used + 1);
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            return &self.other;
        }
        for slot in self.search(pair) {
            let mut is_new = false;
            let tally = self.slots[slot].get_or_init(|| {
                is_new = true;
                Box::new(Tally::new(pair))
            });
            // Else somebody else had use for the slot.
            if tally.is_of(pair) {
                if !is_new {
                    self.used.fetch_sub(1, Ordering::Relaxed);
                }
                return tally;
            }
        }
        &self.other
    }

    /// All that was counted, in the order of their names, and last what is counted together.
    pub fn all(&self) -> impl Iterator<Item = &Tally> {
        let mut all: Vec<&Tally> =
            self.slots.iter().filter_map(OnceLock::get).map(|tally| &**tally).collect();
        all.sort_unstable_by(|one, other| (&one.domain, &one.rule).cmp(&(&other.domain, &other.rule)));
        all.into_iter().chain([&self.other])
    }

    /// Where a pair may be, the likeliest place first.
    fn search(&self, pair: Pair<'_>) -> impl Iterator<Item = usize> + use<> {
        #[allow(clippy::cast_possible_truncation, reason = "below SLOTS")]
        let first = (self.hasher.hash_one(pair) % SLOTS as u64) as usize;
        (0..SLOTS).map(move |step| (first + step) % SLOTS)
    }
}

impl Tally {
    fn new(pair: Pair<'_>) -> Self {
        Self {
            domain: pair.domain.into(),
            rule: pair.rule.into(),
            by: array::from_fn(|_| array::from_fn(|_| AtomicU64::new(0))),
            candidate_denied: AtomicU64::new(0),
        }
    }

    /// Counts a decision.
    #[inline]
    pub fn count(&self, by: Protocol, fate: Fate) {
        self.count_several(by, fate, 1);
    }

    /// Counts decisions that all came out the same.
    #[inline]
    pub fn count_several(&self, by: Protocol, fate: Fate, decisions: u64) {
        self.by[by as usize][fate as usize].fetch_add(decisions, Ordering::Relaxed);
    }

    /// How many decisions there were.
    pub fn counted(&self, by: Protocol, fate: Fate) -> u64 {
        self.by[by as usize][fate as usize].load(Ordering::Relaxed)
    }

    fn is_of(&self, pair: Pair<'_>) -> bool {
        *self.rule == *pair.rule && *self.domain == *pair.domain
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn pair<'a>(domain: &'a str, rule: &'a str) -> Pair<'a> {
        Pair { domain, rule }
    }

    #[test]
    fn a_pair_has_counters_of_its_own_for_good() {
        let tallies = Tallies::new();
        assert!(tallies.find(pair("api", "login")).is_none());
        tallies.add(pair("api", "login")).count(Protocol::Http, Fate::Denied);
        tallies.add(pair("apilogin", "")).count(Protocol::Http, Fate::Denied);
        tallies.add(pair("api", "login")).count(Protocol::Grpc, Fate::Allowed);
        let found = tallies.find(pair("api", "login")).unwrap();
        let counted = |by, fate| found.counted(by, fate);
        assert_eq!(counted(Protocol::Http, Fate::Denied), 1);
        assert_eq!((counted(Protocol::Grpc, Fate::Allowed), counted(Protocol::Resp, Fate::Denied)), (1, 0));
    }

    #[test]
    fn fates_and_protocols_are_where_their_numbers_say() {
        assert!(FATES.iter().enumerate().all(|(number, fate)| *fate as usize == number));
        assert!(Protocol::ALL.iter().enumerate().all(|(number, by)| *by as usize == number));
    }

    #[test]
    fn too_many_are_counted_together_and_nothing_is_lost() {
        let tallies = Tallies::new();
        for number in 0..3 * PAIRS_MAX {
            tallies.add(pair("api", &format!("rule-{number}"))).count(Protocol::Http, Fate::Allowed);
        }
        let all: Vec<&Tally> = tallies.all().collect();
        assert_eq!(all.len(), PAIRS_MAX + 1);
        let other = all.last().unwrap();
        assert_eq!((&*other.domain, &*other.rule), ("", OTHER));
        assert_eq!(other.counted(Protocol::Http, Fate::Allowed), 2 * PAIRS_MAX as u64);
        let sum: u64 = all.iter().map(|tally| tally.counted(Protocol::Http, Fate::Allowed)).sum();
        assert_eq!(sum, 3 * PAIRS_MAX as u64);
    }

    /// As many pairs as there is room for, but for one that each thread may be about to add.
    #[test]
    fn threads_that_come_with_the_same_pair_find_the_same_counters() {
        const THREADS: usize = 8;
        const PAIRS: usize = PAIRS_MAX - THREADS;
        let (tallies, together) = (Tallies::new(), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    for number in 0..PAIRS {
                        tallies.add(pair("api", &number.to_string())).count(Protocol::Resp, Fate::Soft);
                    }
                });
            }
        });
        let counted: Vec<u64> =
            tallies.all().map(|tally| tally.counted(Protocol::Resp, Fate::Soft)).collect();
        assert_eq!(counted.len(), PAIRS + 1);
        assert_eq!(counted.iter().sum::<u64>(), (THREADS * PAIRS) as u64);
    }
}
