//! The terms of the lease that a plan hands out: one, for all its concurrency limits together.

use tidegate_core::algorithm::Concurrency;
use tidegate_core::{Fence, Grant, Leases, Nanos, Role, Timestamp, WINDOW_NS_MIN};

/// What a limit says of the lease that it is part of.
#[derive(Clone, Copy)]
pub(crate) struct GrantPart {
    role: Role,
    ttl: Nanos,
    /// The instant that counts for this limit: its key may have seen a later one than the caller's.
    instant: Timestamp,
    fence: Fence,
}

impl GrantPart {
    /// What a limit says of a lease that would be charged to it.
    pub(crate) fn of(algorithm: &Concurrency, leases: &Leases, role: Role, now: Timestamp) -> Self {
        Self { role, ttl: algorithm.ttl(), instant: leases.instant(now), fence: leases.next_fence(now) }
    }

    /// What both say together: a number higher than any of their keys has seen, and one end, after the shortest ttl from
    /// the latest instant, for a lease that is over for one of its limits is over. Limits that look on have no say in when
    /// it ends, unless there are no others.
    pub(crate) fn and(self, other: Self) -> Self {
        let fence = self.fence.max(other.fence);
        match (self.role, other.role) {
            (Role::Enforced, Role::Observed) => Self { fence, ..self },
            (Role::Observed, Role::Enforced) => Self { fence, ..other },
            (role, _) => {
                Self { role, ttl: self.ttl.min(other.ttl), instant: self.instant.max(other.instant), fence }
            }
        }
    }

    /// The lease, which lasts no longer than `ttl`.
    pub(crate) fn grant(self, ttl: Option<Nanos>) -> Grant {
        let ttl = ttl.map_or(self.ttl, |ttl| at_least_the_least(ttl).min(self.ttl));
        Grant { expires: self.instant.saturating_add(ttl), fence: self.fence }
    }

    /// The latest instant that any of those has seen which say when the lease ends.
    #[cfg(feature = "redis")]
    pub(crate) fn instant(self) -> Timestamp {
        self.instant
    }
}

/// A lease that is over as soon as it is handed out would keep nobody out.
pub(crate) fn at_least_the_least(ttl: Nanos) -> Nanos {
    ttl.max(Nanos::new(WINDOW_NS_MIN.into()))
}
