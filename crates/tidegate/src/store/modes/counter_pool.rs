//! Counters that many keys share, so that a key costs only a pointer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use tidegate_core::{Counter, CounterId};

/// A counter for each limit. Overrides may change the limit of a key: the last one is kept.
#[derive(Default)]
pub(super) struct CounterPool {
    counters: Mutex<HashMap<CounterId, Arc<Counter>, RandomState>>,
}

/// Counters at most. Rules have fewer; requests that bring their own limits may have more.
const COUNTERS_MAX: usize = 10_000;

impl CounterPool {
    /// A counter equal to this one.
    pub fn get(&self, counter: &Counter) -> Arc<Counter> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = counters.get(&counter.id())
            && **shared == *counter
        {
            return shared.clone();
        }
        let shared = Arc::new(counter.clone());
        if counters.len() >= COUNTERS_MAX {
            counters.clear();
        }
        counters.insert(counter.id(), shared.clone());
        shared
    }
}
