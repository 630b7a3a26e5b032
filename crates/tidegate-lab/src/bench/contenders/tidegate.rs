//! Tidegate with the system clock: `Limiter::check` and `Limiter::check_many`.

use std::hint::black_box;
use std::sync::Arc;

use tidegate::{AlgorithmName, Limiter, MemoryStore};

use super::{Contender, Lap};
use crate::bench::workload::BenchLimit;

/// Room for ten million keys. Unused memory is not resident.
const MEMORY_MAX: u64 = 1 << 30;
/// Keys in one call of `check_many`.
const MANY_KEYS: usize = 16;

/// What a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Call {
    /// `check`, and all of its answer.
    Answer,
    /// `check`, and only whether the request is allowed. That is what governor and the floor answer.
    Verdict,
    /// `check_many`, and all of its answers.
    Many,
}

pub(super) struct Tidegate {
    limiter: Limiter,
    call: Call,
    name: String,
}

impl Call {
    /// The name of a row.
    pub(in crate::bench) fn row(self, algorithm: AlgorithmName) -> String {
        match self {
            Self::Answer => algorithm.to_string(),
            Self::Verdict => format!("{algorithm}-verdict"),
            Self::Many => format!("{algorithm}-many"),
        }
    }
}

impl Tidegate {
    pub(super) fn new(
        algorithm: AlgorithmName,
        call: Call,
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
        Self { limiter, call, name: call.row(algorithm) }
    }
}

impl Contender for Tidegate {
    fn name(&self) -> &str {
        &self.name
    }

    fn lap_shared(&self, lap: Lap<'_>) -> u64 {
        match self.call {
            // `black_box` on the whole decision: otherwise the optimizer drops all except `is_allowed`. It takes a
            // reference because callers read a decision in place; copying it is not part of deciding.
            Call::Answer => lap.admitted(|key| black_box(&self.limiter.check(key, 1)).is_allowed()),
            Call::Verdict => lap.admitted(|key| self.limiter.check(key, 1).is_allowed()),
            Call::Many => lap.admitted_in_batches(MANY_KEYS, |keys| {
                let decisions = self.limiter.check_many(keys, 1);
                black_box(&decisions).iter().filter(|decision| decision.is_allowed()).count() as u64
            }),
        }
    }
}
