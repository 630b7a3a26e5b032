//! "Admitted iff held leases + c <= L ... expired leases free themselves", if no lease is released.

use super::{Event, Model, stamped, sum_of};

#[derive(Debug)]
pub struct Concurrency {
    pub limit: u64,
    pub ttl: u64,
}

impl Model for Concurrency {
    fn admits(&self, past: &[Event], request: Event) -> bool {
        let past = stamped(past, |at| at);
        let now = past.last().map_or(request.at, |last| last.at.max(request.at));
        // A lease ends no later than representable time.
        let expires = |event: &Event| (event.at + u128::from(self.ttl)).min(u128::from(u64::MAX));
        let units = sum_of(past.into_iter().filter(|event| expires(event) > now));
        units + u128::from(request.cost) <= u128::from(self.limit)
    }

    fn capacity(&self) -> u64 {
        self.limit
    }
}
