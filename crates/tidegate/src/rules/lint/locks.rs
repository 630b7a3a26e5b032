//! Concurrency limits, and what an outage of the shared store means for them.

use tidegate_core::Algorithm;
use tidegate_core::rules::{RuleLimits, RuleLimit};

use super::super::diagnostic::{Diagnostic, Report};
use super::super::file::FileRule;

/// By default a concurrency limit denies while the store of a fleet does not answer: nodes that cannot see each other would hand out
/// the same units. A rule of tiers is left alone: its limits are for different plans.
pub(super) fn lint_store_failure(report: &mut Report, rule: &FileRule) {
    let (RuleLimits::Same(limits), None) = (&rule.rule.limits, rule.spans.on_store_failure) else { return };
    for (_, at) in limits.iter().zip(&rule.spans.limits).filter(|(limit, _)| is_enforced_lease(limit)) {
        let message = "in a fleet, requests under this concurrency limit are denied while the shared store does not answer";
        let found = Diagnostic::warning("lock-without-store", at.limit, message);
        report.push(found.hint(
            "write `on_store_failure: deny` in the rule if that is meant, or `on_store_failure: local` if each node may hand \
             out its share meanwhile",
        ));
    }
}

fn is_enforced_lease(limit: &RuleLimit) -> bool {
    matches!(limit.limit.algorithm(), Algorithm::Leases(_)) && limit.is_enforced()
}
