//! Tidegate: `Limiter::check` with the system clock.

use std::hint::black_box;
use std::sync::Arc;

use tidegate::{AlgorithmName, Limiter, MemoryStore};

use super::{Contender, Lap};
use crate::bench::workload::BenchLimit;

/// Room for ten million keys. Unused memory is not resident.
const MEMORY_MAX: u64 = 1 << 30;

pub(super) struct Tidegate {
    limiter: Limiter,
    name: &'static str,
}

impl Tidegate {
    pub(super) fn new(
        algorithm: AlgorithmName,
        BenchLimit { rate, per_s, burst, window_limit }: BenchLimit,
    ) -> Self {
        let limit = match algorithm {
            AlgorithmName::Gcra | AlgorithmName::TokenBucket => {
                format!("{{algorithm: {algorithm}, limit: {rate}, per: {per_s}s, burst: {burst}}}")
            }
            _ => format!("{{algorithm: {algorithm}, limit: {window_limit}, per: {per_s}s}}"),
        };
        let store = Arc::new(MemoryStore::bounded(MEMORY_MAX));
        let limiter = Limiter::builder().limit(limit).store(store).build().expect("the limit is valid");
        Self { limiter, name: algorithm.as_str() }
    }
}

impl Contender for Tidegate {
    fn name(&self) -> &str {
        self.name
    }

    fn lap_shared(&self, lap: Lap<'_>) -> u64 {
        // `black_box` on the whole decision: otherwise the optimizer drops all except `is_allowed`. It takes a
        // reference because callers read a decision in place; copying it is not part of deciding.
        lap.admitted(|key| black_box(&self.limiter.check(key, 1)).is_allowed())
    }
}
