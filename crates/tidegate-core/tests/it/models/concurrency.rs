//! "Admitted iff held leases + c <= L ... expired leases free themselves", where nobody gives a lease back.

use super::{Event, Model, stamped, sum_of};

#[derive(Debug)]
pub struct Concurrency {
    pub limit: u64,
    pub ttl: u64,
}

impl Model for Concurrency {
    fn admits(&self, past: &[Event], asked: Event) -> bool {
        let past = stamped(past, |at| at);
        let now = past.last().map_or(asked.at, |last| last.at.max(asked.at));
        // A lease that would outlast representable time ends with it.
        let expires = |event: &Event| (event.at + u128::from(self.ttl)).min(u128::from(u64::MAX));
        let held = sum_of(past.into_iter().filter(|event| expires(event) > now));
        held + u128::from(asked.cost) <= u128::from(self.limit)
    }

    fn capacity(&self) -> u64 {
        self.limit
    }
}
