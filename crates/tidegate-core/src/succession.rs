//! Limits that take the place of others.

use crate::{Counter, Timestamp};

/// A limit that was changed, enforced beside the new one for a while.
#[derive(Clone, Debug)]
pub struct Retiring {
    /// The old limit.
    pub counter: Counter,
    /// The first instant at which it is out of force.
    pub until: Timestamp,
}

/// What is left of `old` when `new` takes its place: nothing if `new` finds the same state.
pub fn retire(old: &Counter, new: &Counter, now: Timestamp) -> Option<Retiring> {
    if old.id() == new.id() {
        return None;
    }
    let window_ns = old.limit().window_ns_at(now).min(new.limit().window_ns_at(now));
    let until = Timestamp::from_nanos(now.as_nanos().saturating_add(window_ns));
    Some(Retiring { counter: old.clone(), until })
}
