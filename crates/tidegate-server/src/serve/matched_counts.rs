//! How many limits a request matches, for operators who change their counters.

use tidegate::rules::Request;
use tidegate::store::PlanFull;
use tidegate::{AlgorithmName, Clock as _};

use super::App;

/// The number of limits that a request matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MatchedCounts {
    pub rates: usize,
    /// Concurrency limits. Only the holder of a lease can release it.
    pub concurrency: usize,
}

impl MatchedCounts {
    /// Counts the limits that a request matches; `None` if its domain has no rules. This depends only on the rules, not
    /// on existing counters.
    pub fn of(app: &App, request: &Request<'_>) -> Option<Result<Self, PlanFull>> {
        let rules = app.engine.rules();
        rules.domain(request.domain)?;
        let matched = rules.matched_limits(request);
        if let Err(full) = matched.plan(&rules, app.engine.clock().now()) {
            return Some(Err(full));
        }
        let mut counts = Self::default();
        // A limit whose key is incomplete has no counter to change.
        for limit in matched.all().iter().filter(|limit| limit.has_key()) {
            match rules.resolve(&limit.limit).limit.limit().limit.algorithm_name() {
                AlgorithmName::Concurrency => counts.concurrency += 1,
                _ => counts.rates += 1,
            }
        }
        Some(Ok(counts))
    }

    /// The result of a refund.
    pub fn refund_result(self) -> &'static str {
        if self.rates > 0 { "refunded" } else { "nothing" }
    }
}
