//! limitador: its synchronous limiter with its in-memory storage, one limit with one variable.

use std::collections::HashMap;
use std::hint::black_box;

use limitador::RateLimiter;
use limitador::limit::{Context, Expression, Limit, Namespace};

use super::{Contender, Lap};
use crate::bench::workload::BenchLimit;

pub(super) const NAME: &str = "limitador";

const VARIABLE: &str = "user";

pub(super) struct Limitador {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Limitador {
    pub(super) fn new(BenchLimit { per_s, window_limit, .. }: BenchLimit, keys: u64) -> Self {
        // Its cache starts to evict slightly below its capacity.
        let limiter = RateLimiter::new(keys + keys / 8 + 1_000);
        let variable = Expression::parse(VARIABLE).expect("a name is a valid expression");
        limiter.add_limit(Limit::new("bench", window_limit.into(), per_s.into(), [], [variable]));
        Self { limiter, namespace: "bench".into() }
    }
}

impl Contender for Limitador {
    fn name(&self) -> &str {
        NAME
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "limitador: builds a context per request and evaluates expressions; a rules engine, not a table.",
        )
    }

    fn lap_shared(&self, lap: Lap<'_>) -> u64 {
        lap.admitted(|key| {
            let context = Context::from(HashMap::from([(VARIABLE.to_owned(), key.clone())]));
            let answer = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1);
            black_box(answer).is_ok_and(|answer| !answer.limited)
        })
    }
}
