//! The lease that a plan grants: one for all its concurrency limits together.

use tidegate_core::algorithm::Concurrency;
use tidegate_core::{FencingToken, Grant, Leases, Nanos, Role, Timestamp, WINDOW_NS_MIN};

/// What one limit contributes to the lease.
#[derive(Clone, Copy)]
pub(crate) struct GrantPart {
    role: Role,
    ttl: Nanos,
    /// The instant from which this limit counts. Later than the caller's if the key has seen a later one.
    instant: Timestamp,
    fencing_token: FencingToken,
}

impl GrantPart {
    /// The part of a limit whose leases are `leases`.
    pub(crate) fn new(algorithm: &Concurrency, leases: &Leases, role: Role, now: Timestamp) -> Self {
        Self {
            role,
            ttl: algorithm.ttl(),
            instant: leases.effective_now(now),
            fencing_token: leases.next_fencing_token(now),
        }
    }

    /// Merges two parts. The fencing token is higher than any that their keys have seen. The lease ends after the
    /// shortest ttl from the latest instant, because a lease that is over for one of its limits is over. Observed
    /// limits do not affect when it ends, unless there are only observed limits.
    pub(crate) fn merge(self, other: Self) -> Self {
        let fence = self.fencing_token.max(other.fencing_token);
        match (self.role, other.role) {
            (Role::Enforced, Role::Observed) => Self { fencing_token: fence, ..self },
            (Role::Observed, Role::Enforced) => Self { fencing_token: fence, ..other },
            (role, _) => Self {
                role,
                ttl: self.ttl.min(other.ttl),
                instant: self.instant.max(other.instant),
                fencing_token: fence,
            },
        }
    }

    /// The lease. It lasts at most `ttl`.
    pub(crate) fn grant(self, ttl: Option<Nanos>) -> Grant {
        Grant { expires: self.instant.saturating_add(self.lease_ttl(ttl)), fencing_token: self.fencing_token }
    }

    /// How long the lease lasts: at most `ttl`.
    pub(crate) fn lease_ttl(self, ttl: Option<Nanos>) -> Nanos {
        ttl.map_or(self.ttl, |ttl| at_least_min_ttl(ttl).min(self.ttl))
    }

    /// The latest instant that the limits which set the lease's end have seen.
    #[cfg(feature = "redis")]
    pub(crate) fn instant(self) -> Timestamp {
        self.instant
    }
}

/// Bounds a ttl from below: a lease that ends when it is granted would exclude no other holder.
pub(crate) fn at_least_min_ttl(ttl: Nanos) -> Nanos {
    ttl.max(Nanos::new(WINDOW_NS_MIN.into()))
}
