//! What happens to counters when limits change. A change must not give clients a fresh window.
//!
//! The identity of a counter is its rule, the name or position of the limit, and the format of its state: the
//! algorithm, W, n and align; for a calendar its unit, zone and first day. For leases the format is only the algorithm,
//! because each lease says when it ends.
//!
//! A limit whose L or burst changed finds the state that it had, and used units stay used. A limit whose state format
//! changed is a new counter that starts empty. The old counter then stays in the plan as a [`SupersededCounter`] for
//! the shorter of the two windows. Limiters and rules both use this module.
//!
//! ```
//! use tidegate_core::migration::supersede;
//! use tidegate_core::{Counter, Timestamp};
//!
//! let counter = |limit: &str| Ok::<_, tidegate_core::LimitError>(Counter::new("login", 0, limit.parse()?));
//! let now = Timestamp::from_nanos(0);
//! assert!(supersede(&counter("5 per minute")?, &counter("9 per minute")?, now).is_none());
//! let superseded = supersede(&counter("5 per minute")?, &counter("100 per hour")?, now).expect("another W");
//! assert_eq!(superseded.until.as_nanos(), 60_000_000_000);
//! # Ok::<(), tidegate_core::LimitError>(())
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Counter, CounterId, Timestamp, Wait};

/// The old counter of a limit that changed. It is still enforced for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupersededCounter {
    /// The counter.
    pub counter: Counter,
    /// The first instant at which it is no longer enforced.
    pub until: Timestamp,
}

/// A counter with the identity of its limit: a [`LimitId`](crate::LimitId) within a rule, and also the rule's identity
/// within a set of rules.
#[derive(Clone, Copy, Debug)]
pub struct IdentifiedCounter<'a, I> {
    /// The identity of the limit, the same before and after a change.
    pub identity: I,
    /// The counter.
    pub counter: &'a Counter,
}

/// Limits before and after a change.
#[derive(Clone, Copy, Debug)]
pub struct LimitMigration<'a, I> {
    /// The limits before the change.
    pub old: &'a [IdentifiedCounter<'a, I>],
    /// The limits after the change.
    pub new: &'a [IdentifiedCounter<'a, I>],
    /// The counters that were superseded earlier.
    pub superseded: &'a [SupersededCounter],
    /// When the change happens.
    pub now: Timestamp,
}

impl SupersededCounter {
    /// Whether it is still enforced.
    #[inline]
    pub fn is_enforced(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

/// Supersedes `old` if the limit that counted there counts in `new` from `now` on. `None` if both are the same counter.
pub fn supersede(old: &Counter, new: &Counter, now: Timestamp) -> Option<SupersededCounter> {
    if old.id() == new.id() {
        return None;
    }
    let window_ns = old.limit().window_ns_at(now).min(new.limit().window_ns_at(now));
    let until = Timestamp::from_nanos(now.as_nanos().saturating_add(window_ns));
    Some(SupersededCounter { counter: old.clone(), until })
}

impl<I: Ord> LimitMigration<'_, I> {
    /// The counters that are superseded after the change. Each counter is listed once, with the latest end that applies
    /// to it. A counter that a new limit uses is not listed.
    ///
    /// The counter that ends last comes first, so skipping those that have ended does not move the others. The counter
    /// of a limit that was removed is not listed.
    pub fn superseded(&self) -> Vec<SupersededCounter> {
        let successors: BTreeMap<&I, &Counter> =
            self.new.iter().map(|new| (&new.identity, new.counter)).collect();
        let replaced = self
            .old
            .iter()
            .filter_map(|old| supersede(old.counter, successors.get(&old.identity)?, self.now));
        let leftover = self.superseded.iter().filter(|old| old.is_enforced(self.now)).cloned();
        let mut superseded: Vec<SupersededCounter> = replaced.chain(leftover).collect();
        superseded.sort_by_key(|old| Reverse(old.until));
        let mut seen: BTreeSet<CounterId> = self.new.iter().map(|new| new.counter.id()).collect();
        superseded.retain(|old| seen.insert(old.counter.id()));
        superseded
    }
}

/// When the next of these counters ends.
pub fn next_expiry<'a>(
    superseded: impl IntoIterator<Item = &'a SupersededCounter>,
    now: Timestamp,
) -> Option<Timestamp> {
    superseded.into_iter().filter(|old| old.is_enforced(now)).map(|old| old.until).min()
}

/// Finds the first instant, `from` or later, from which a wait ends before the next superseded counter does. Returns
/// that instant and the wait.
///
/// `next_expiry` returns when the next counter ends after an instant. `wait_at` returns how long the wait is from an
/// instant on, by the counters that are enforced then. Without this function, a caller would report a wait that ends
/// long after the counter that it waits for.
pub fn wait_past_superseded(
    mut from: Timestamp,
    next_expiry: impl Fn(Timestamp) -> Option<Timestamp>,
    wait_at: impl Fn(Timestamp) -> Wait,
) -> (Timestamp, Wait) {
    loop {
        let wait = wait_at(from);
        let ends_at = wait.span().map(|wait| from.saturating_add(wait));
        match next_expiry(from) {
            Some(expiry) if ends_at.is_none_or(|ends_at| ends_at >= expiry) => from = expiry,
            _ => return (from, wait),
        }
    }
}
