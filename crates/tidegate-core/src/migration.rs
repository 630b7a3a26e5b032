//! What becomes of counters when limits change, so that nobody gets a fresh window.
//!
//! A limit that keeps its shape keeps its counter, and all that was used stays used. One whose shape changed (the
//! algorithm, W, n, where windows begin) is a new counter that starts empty. The old one is then enforced beside it
//! for the shorter of the two windows, and is [`Retiring`] for that long.
//!
//! ```
//! use tidegate_core::succession::retire;
//! use tidegate_core::{Counter, Timestamp};
//!
//! let counter = |limit: &str| Ok::<_, tidegate_core::LimitError>(Counter::new("login", 0, limit.parse()?));
//! let now = Timestamp::from_nanos(0);
//! assert!(retire(&counter("5 per minute")?, &counter("9 per minute")?, now).is_none());
//! let retiring = retire(&counter("5 per minute")?, &counter("100 per hour")?, now).expect("another W");
//! assert_eq!(retiring.until.as_nanos(), 60_000_000_000);
//! # Ok::<(), tidegate_core::LimitError>(())
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Counter, CounterId, Timestamp, Wait};

/// A counter on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupersededCounter {
    /// The counter.
    pub counter: Counter,
    /// The first instant at which it is not enforced any more.
    pub until: Timestamp,
}

/// A counter and what its limit is known by: within a rule a [`LimitId`](crate::LimitId), within a set of rules
/// the rule's identity too.
#[derive(Clone, Copy, Debug)]
pub struct IdentifiedCounter<'a, I> {
    /// What the limit is known by, before and after a change.
    pub identity: I,
    /// The counter.
    pub counter: &'a Counter,
}

/// Limits before and after a change.
#[derive(Clone, Copy, Debug)]
pub struct LimitMigration<'a, I> {
    /// Before it.
    pub old: &'a [IdentifiedCounter<'a, I>],
    /// After it.
    pub new: &'a [IdentifiedCounter<'a, I>],
    /// What was on its way out before it.
    pub superseded: &'a [SupersededCounter],
    /// When it happens.
    pub now: Timestamp,
}

impl SupersededCounter {
    /// Whether it is still enforced.
    #[inline]
    pub fn is_enforced(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

/// `old` on its way out, if the limit that counted there counts in `new` from `now` on; none if that is the same
/// counter.
pub fn supersede(old: &Counter, new: &Counter, now: Timestamp) -> Option<SupersededCounter> {
    if old.id() == new.id() {
        return None;
    }
    let window_ns = old.limit().window_ns_at(now).min(new.limit().window_ns_at(now));
    let until = Timestamp::from_nanos(now.as_nanos().saturating_add(window_ns));
    Some(SupersededCounter { counter: old.clone(), until })
}

impl<I: Ord> LimitMigration<'_, I> {
    /// What is on its way out after the change: each counter once and for as long as anything asks for, none that a new
    /// limit counts in.
    ///
    /// The latest to go comes first, so leaving out those whose time is over moves no other. A limit that is known by
    /// nothing new was taken away, and goes at once.
    pub fn superseded(&self) -> Vec<SupersededCounter> {
        let successors: BTreeMap<&I, &Counter> =
            self.new.iter().map(|new| (&new.identity, new.counter)).collect();
        let replaced =
            self.old.iter().filter_map(|old| supersede(old.counter, successors.get(&old.identity)?, self.now));
        let leftover = self.superseded.iter().filter(|old| old.is_enforced(self.now)).cloned();
        let mut retiring: Vec<SupersededCounter> = replaced.chain(leftover).collect();
        retiring.sort_by_key(|old| Reverse(old.until));
        let mut taken: BTreeSet<CounterId> = self.new.iter().map(|new| new.counter.id()).collect();
        retiring.retain(|old| taken.insert(old.counter.id()));
        retiring
    }
}

/// When the next of these goes.
pub fn next_expiry<'a>(retiring: impl IntoIterator<Item = &'a SupersededCounter>, now: Timestamp) -> Option<Timestamp> {
    retiring.into_iter().filter(|old| old.is_enforced(now)).map(|old| old.until).min()
}

/// The instant, `from` or later, from which on a wait is over before another counter goes, and that wait.
///
/// `next_expiry` says when the next one goes after an instant, and `wait_at` how long the wait is from an instant on, by
/// the counters that are enforced then. Without this a wait would be told that ends long after what it waits for.
pub fn wait_past_superseded(
    mut from: Timestamp,
    next_expiry: impl Fn(Timestamp) -> Option<Timestamp>,
    wait_at: impl Fn(Timestamp) -> Wait,
) -> (Timestamp, Wait) {
    loop {
        let wait = wait_at(from);
        let over = wait.span().map(|wait| from.saturating_add(wait));
        match next_expiry(from) {
            Some(end) if over.is_none_or(|over| over >= end) => from = end,
            _ => return (from, wait),
        }
    }
}
