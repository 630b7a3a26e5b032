//! The terms of the lease that a plan hands out: one, for all its concurrency limits together.

use tidegate_core::algorithm::Concurrency;
use tidegate_core::{FencingToken, Grant, Leases, Nanos, Role, Timestamp, WINDOW_NS_MIN};

/// What a limit says of the lease that it is part of.
#[derive(Clone, Copy)]
pub(crate) struct GrantPart {
    role: Role,
    ttl: Nanos,
    /// The instant that counts for this limit: its key may have seen a later one than the caller's.
    instant: Timestamp,
    fencing_token: FencingToken,
}

impl GrantPart {
    /// What a limit says of a lease that would be charged to it.
    pub(crate) fn new(algorithm: &Concurrency, leases: &Leases, role: Role, now: Timestamp) -> Self {
        Self { role, ttl: algorithm.ttl(), instant: leases.effective_now(now), fencing_token: leases.next_fencing_token(now) }
    }

    /// What both say together: a number higher than any of their keys has seen, and one end, after the shortest ttl from
    /// the latest instant, for a lease that is over for one of its limits is over. Limits that look on have no say in when
    /// it ends, unless there are no others.
    pub(crate) fn merge(self, other: Self) -> Self {
        let fence = self.fencing_token.max(other.fencing_token);
        match (self.role, other.role) {
            (Role::Enforced, Role::Observed) => Self { fencing_token: fence, ..self },
            (Role::Observed, Role::Enforced) => Self { fencing_token: fence, ..other },
            (role, _) => {
                Self { role, ttl: self.ttl.min(other.ttl), instant: self.instant.max(other.instant), fencing_token: fence }
            }
        }
    }

    /// The lease, which lasts no longer than `ttl`.
    pub(crate) fn grant(self, ttl: Option<Nanos>) -> Grant {
        let ttl = ttl.map_or(self.ttl, |ttl| at_least_min_ttl(ttl).min(self.ttl));
        Grant { expires: self.instant.saturating_add(ttl), fencing_token: self.fencing_token }
    }

    /// The latest instant that any of those has seen which say when the lease ends.
    #[cfg(feature = "redis")]
    pub(crate) fn instant(self) -> Timestamp {
        self.instant
    }
}

/// A lease that is over as soon as it is handed out would keep nobody out.
pub(crate) fn at_least_min_ttl(ttl: Nanos) -> Nanos {
    ttl.max(Nanos::new(WINDOW_NS_MIN.into()))
}
