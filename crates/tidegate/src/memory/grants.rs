//! The terms of the lease that an allowed plan hands out.

use tidegate_core::algorithm::Counting;
use tidegate_core::{Fence, Grant, Leases, Nanos, Role, Ruling, Timestamp};

use super::MemoryStore;
use super::leases::at_least_the_least;
use super::shards::shard_of;
use super::transaction::{Beside, Line, Weighed, get};

impl MemoryStore {
    /// What all leases of an allowed plan are known by: a number higher than any of their keys has seen, and one end,
    /// after the shortest ttl from the latest instant, for a lease that is over for one of its limits is over. Limits
    /// that look on have no say in when it ends, unless there are no others.
    pub(super) fn grant(
        &self,
        lines: &[Line<'_>],
        beside: &Beside<'_>,
        weighed: &Weighed,
        ttl: Option<Nanos>,
    ) -> Option<Grant> {
        let parts =
            lines.iter().zip(weighed.rulings()).filter_map(|(line, ruling)| part(line, beside, ruling));
        let all = parts.reduce(Part::and)?;
        let ttl = ttl.map_or(all.ttl, |ttl| at_least_the_least(ttl).min(all.ttl));
        Some(self.above_lost(Grant { expires: all.instant.saturating_add(ttl), fence: all.fence }))
    }
}

/// What a limit says of the lease that it is part of.
#[derive(Clone, Copy)]
struct Part {
    role: Role,
    ttl: Nanos,
    /// The instant that counts for this limit: its key may have seen a later one than the caller's.
    instant: Timestamp,
    fence: Fence,
}

impl Part {
    /// What both say together.
    fn and(self, other: Self) -> Self {
        let fence = self.fence.max(other.fence);
        match (self.role, other.role) {
            (Role::Enforced, Role::Observed) => Self { fence, ..self },
            (Role::Observed, Role::Enforced) => Self { fence, ..other },
            (role, _) => {
                Self { role, ttl: self.ttl.min(other.ttl), instant: self.instant.max(other.instant), fence }
            }
        }
    }
}

/// What a limit says of the lease that would be charged to it; none if none would be.
fn part(line: &Line<'_>, beside: &Beside<'_>, ruling: Ruling) -> Option<Part> {
    let Line::Leases { algorithm, ask, tag } = line else { return None };
    let part = |leases: &Leases| Part {
        role: ruling.role,
        ttl: algorithm.ttl(),
        instant: leases.instant(ask.now),
        fence: leases.next_fence(ask.now),
    };
    let is_charged = algorithm.is_charged(*ask, ruling.fate);
    is_charged.then(|| get(&beside.leases, shard_of(*tag)).with(*tag, part))
}
