//! A charge on a key of the tables.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Charge, Counter, StorePolicy};

/// An enforced charge that borrows nothing. Many keys share a counter, so it is small, and cheap to make and to move.
#[derive(Clone, Debug)]
pub(super) struct KeyCharge {
    key: SmallVec<[u8; 32]>,
    counter: Arc<Counter>,
    policy: StorePolicy,
    pub cost: u64,
}

impl KeyCharge {
    pub fn new(key: &[u8], counter: &Arc<Counter>, policy: StorePolicy, cost: u64) -> Self {
        Self { key: SmallVec::from_slice(key), counter: counter.clone(), policy, cost }
    }

    pub fn charge(&self) -> Charge<'_> {
        Charge { policy: self.policy, ..Charge::new(&self.key, &self.counter, self.cost) }
    }
}
