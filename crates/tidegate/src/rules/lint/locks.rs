//! Locks, of which there may be several holders in an outage.

use tidegate_core::Algorithm;
use tidegate_core::rules::{Limits, RuleLimit};

use super::super::diagnostic::{Diagnostic, Report};
use super::super::file::FileRule;

/// Where nothing is said of it, each server goes on by itself while the store of a fleet does not answer. Of a lock that is
/// hardly what is meant. A plan of a tier that allows one at a time is no lock: another allows more.
pub(super) fn lint(report: &mut Report, rule: &FileRule) {
    let (Limits::Same(limits), None) = (&rule.rule.limits, rule.at.on_store_failure) else { return };
    for (_, at) in limits.iter().zip(&rule.at.limits).filter(|(limit, _)| is_lock(limit)) {
        let message =
            "in a fleet, each server hands this lock out for itself while their store does not answer";
        let found = Diagnostic::warning("lock-without-store", at.limit, message);
        report.push(found.hint(
            "write `on_store_failure: deny` in the rule if no two may ever hold it, or `on_store_failure: local` if that \
             is all right",
        ));
    }
}

fn is_lock(limit: &RuleLimit) -> bool {
    let is_lease = matches!(limit.limit.algorithm(), Algorithm::Leases(_));
    is_lease && limit.limit.rate().limit() == 1 && limit.is_enforced()
}
