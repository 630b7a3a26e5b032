//! The terms of the lease that an allowed plan hands out.

use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{Grant, Nanos, ChargeDecision};

use super::MemoryStore;
use super::shards::shard_of;
use super::transaction::{PlanShards, ChargeState, WeighedPlan, locked_at};
use crate::grant::GrantPart;

impl MemoryStore {
    /// What all leases of an allowed plan are known by, with a number above all that were lost.
    pub(super) fn grant_for_plan(
        &self,
        lines: &[ChargeState<'_>],
        beside: &PlanShards<'_>,
        weighed: &WeighedPlan,
        ttl: Option<Nanos>,
    ) -> Option<Grant> {
        let parts =
            lines.iter().zip(weighed.per_charge()).filter_map(|(line, ruling)| grant_part(line, beside, ruling));
        Some(self.raise_above_lost_fence(parts.reduce(GrantPart::merge)?.grant(ttl)))
    }
}

/// What a limit says of the lease that would be charged to it; none if none would be.
fn grant_part(line: &ChargeState<'_>, beside: &PlanShards<'_>, ruling: ChargeDecision) -> Option<GrantPart> {
    let ChargeState::Leases { algorithm, ask, tag } = line else { return None };
    let is_charged = algorithm.is_charged(*ask, ruling.decision);
    is_charged.then(|| {
        locked_at(&beside.leases, shard_of(*tag))
            .with_state(*tag, |leases| GrantPart::new(algorithm, leases, ruling.role, ask.now))
    })
}
