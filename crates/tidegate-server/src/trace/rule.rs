//! The limits of a trace as one rule: all of them admit a request, or none is charged.

use tidegate::{Charge, Counter, Decision, LIMITS_MAX, Limit, MemoryStore, Plan};

use super::error::TraceError;
use super::line::Request;

/// Limits with a store of their own.
pub struct Rule {
    counters: Vec<Counter>,
    store: MemoryStore,
}

impl Rule {
    pub fn new(limits: &[Limit], store: MemoryStore) -> Result<Self, TraceError> {
        if limits.len() > LIMITS_MAX {
            let problem = format!("{} limits are too many (hint: the most are {LIMITS_MAX})", limits.len());
            return Err(TraceError::Limits(problem));
        }
        // A name is an identity: two limits of one name would count as one.
        let mut names: Vec<&str> = limits.iter().filter_map(Limit::name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let problem = format!("two limits are named `{}` (hint: rename one of them)", pair[0]);
            return Err(TraceError::Limits(problem));
        }
        let counter = |(place, limit): (usize, &Limit)| Counter::new("trace", place, limit.clone());
        Ok(Self { counters: limits.iter().enumerate().map(counter).collect(), store })
    }

    #[inline]
    pub fn decide(&self, &Request { at, key, cost }: &Request<'_>) -> Decision {
        if let [counter] = self.counters.as_slice() {
            return self.store.check_one(&Charge { key, counter, cost }, at);
        }
        let mut plan = Plan::new();
        for counter in &self.counters {
            // There are no more limits than fit a plan.
            let _ = plan.add(Charge { key, counter, cost });
        }
        Decision::merge(&self.store.check(&plan, at))
    }

    /// Counters that were given up while they still mattered.
    pub fn live_evictions(&self) -> u64 {
        self.store.stats().live_evictions
    }
}
