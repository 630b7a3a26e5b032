//! Tidegate: `Limiter::check` by the system clock.

use std::hint::black_box;
use std::sync::Arc;

use tidegate::{AlgorithmName, Limiter, MemoryStore};

use super::{Contender, Lap};
use crate::bench::terms::Terms;

/// Room for ten million keys; what is not used is not resident.
const MEMORY_MAX: u64 = 1 << 30;

pub(super) struct Tidegate {
    limiter: Limiter,
    name: &'static str,
}

impl Tidegate {
    pub(super) fn new(algorithm: AlgorithmName, Terms { rate, per_s, burst, window_limit }: Terms) -> Self {
        let limit = match algorithm {
            AlgorithmName::Gcra | AlgorithmName::TokenBucket => {
                format!("{{algorithm: {algorithm}, limit: {rate}, per: {per_s}s, burst: {burst}}}")
            }
            _ => format!("{{algorithm: {algorithm}, limit: {window_limit}, per: {per_s}s}}"),
        };
        let store = Arc::new(MemoryStore::bounded(MEMORY_MAX));
        let limiter = Limiter::builder().limit(limit).store(store).build().expect("the limit is one");
        Self { limiter, name: algorithm.as_str() }
    }
}

impl Contender for Tidegate {
    fn name(&self) -> &str {
        self.name
    }

    fn lap_shared(&self, lap: Lap<'_>) -> u64 {
        // All of the answer is wanted, not the verdict alone: otherwise the optimizer drops the rest. By
        // reference, for a caller reads the answer where it is; a copy of it is not part of a decision.
        lap.admitted(|key| black_box(&self.limiter.check(key, 1)).is_allowed())
    }
}
