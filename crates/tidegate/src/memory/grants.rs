//! The terms of the lease that an allowed plan hands out.

use tidegate_core::algorithm::Counting;
use tidegate_core::{Grant, Nanos, Ruling};

use super::MemoryStore;
use super::shards::shard_of;
use super::transaction::{Beside, Line, Weighed, get};
use crate::grant::GrantPart;

impl MemoryStore {
    /// What all leases of an allowed plan are known by, with a number above all that were lost.
    pub(super) fn grant(
        &self,
        lines: &[Line<'_>],
        beside: &Beside<'_>,
        weighed: &Weighed,
        ttl: Option<Nanos>,
    ) -> Option<Grant> {
        let parts =
            lines.iter().zip(weighed.rulings()).filter_map(|(line, ruling)| part(line, beside, ruling));
        Some(self.above_lost(parts.reduce(GrantPart::and)?.grant(ttl)))
    }
}

/// What a limit says of the lease that would be charged to it; none if none would be.
fn part(line: &Line<'_>, beside: &Beside<'_>, ruling: Ruling) -> Option<GrantPart> {
    let Line::Leases { algorithm, ask, tag } = line else { return None };
    let is_charged = algorithm.is_charged(*ask, ruling.fate);
    is_charged.then(|| {
        get(&beside.leases, shard_of(*tag))
            .with(*tag, |leases| GrantPart::of(algorithm, leases, ruling.role, ask.now))
    })
}
