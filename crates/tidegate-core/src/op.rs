//! The operations of a store.

use crate::{ChargedAt, LeaseToken, Nanos};

/// What a store is asked to do with a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Charge the whole plan, or nothing.
    Check,
    /// Decide as a check would, and change nothing.
    Peek,
    /// Report outcomes for a plan that is denied in any case, because another part of the request is denied. Charges
    /// nothing.
    Deny {
        /// Whether limits with `count_denied` count this attempt.
        counted: bool,
    },
    /// Charge the whole plan or nothing, and return a lease on the units of its concurrency limits.
    Acquire {
        /// The longest time that the lease lasts. If `None`, the lease lasts as long as its limits allow.
        ttl: Option<Nanos>,
    },
    /// Extend a lease, starting from now.
    Renew {
        /// The lease.
        token: LeaseToken,
        /// The longest time that the lease lasts. If `None`, the lease lasts as long as its limits allow.
        ttl: Option<Nanos>,
    },
    /// Give back the units of a lease.
    Release {
        /// The lease.
        token: LeaseToken,
    },
    /// Give back the units that the plan charged, at most what each key has used.
    Refund {
        /// When the plan was charged, so that a refund does not give back later charges. If `None`, the newest units.
        charged_at: Option<ChargedAt>,
    },
    /// Forget what the plan's keys have used.
    Reset,
    /// Count the whole plan, whether it fits or not, and report the [states](crate::PackedState) of its keys. A bucket
    /// gets a debt. Only for algorithms with a packed state.
    Count {
        /// How long ago the units were used. Buckets have drained since then.
        ago: Nanos,
    },
}

impl Op {
    /// Renews a lease. Without a ttl, the lease keeps the ttl that it was acquired or last renewed with.
    pub fn renew(token: LeaseToken, ttl: Option<Nanos>) -> Self {
        Self::Renew { token, ttl: ttl.or(token.ttl()) }
    }

    /// Whether the operation decides a plan and charges it if it is allowed.
    #[inline]
    pub const fn charges(self) -> bool {
        matches!(self, Self::Check | Self::Acquire { .. })
    }

    /// Whether the reply has an outcome for each charge.
    #[inline]
    pub const fn decides(self) -> bool {
        matches!(self, Self::Check | Self::Peek | Self::Acquire { .. } | Self::Deny { .. })
    }
}
