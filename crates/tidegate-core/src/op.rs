//! What a store is asked to do with a plan.

use crate::{ChargedAt, LeaseToken, Nanos};

/// What a store is asked to do with a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Charge all of it, or none.
    Check,
    /// Answer as a check would, and change nothing.
    Peek,
    /// Answer for a plan that is denied in any case, because another part of it is: charge nothing.
    Deny {
        /// Whether limits that count denied attempts count this one.
        counted: bool,
    },
    /// Charge all of it or none, and hand out the lease of what concurrency limits give.
    Acquire {
        /// The longest that the lease lasts; as long as its limits allow if none.
        ttl: Option<Nanos>,
    },
    /// Let a lease last from now on.
    Renew {
        /// The lease.
        token: LeaseToken,
        /// The longest that it lasts; as long as its limits allow if none.
        ttl: Option<Nanos>,
    },
    /// Give back what a lease holds.
    Release {
        /// The lease.
        token: LeaseToken,
    },
    /// Give back what the plan charged, no more than each key used.
    Refund {
        /// When it was charged, so that nothing is taken from what was charged later; the newest units if none.
        charged_at: Option<ChargedAt>,
    },
    /// Forget what the plan's keys used.
    Reset,
}

impl Op {
    /// Whether it decides a plan and charges what is admitted.
    #[inline]
    pub const fn charges(self) -> bool {
        matches!(self, Self::Check | Self::Acquire { .. })
    }

    /// Whether its reply has an outcome for each charge.
    #[inline]
    pub const fn decides(self) -> bool {
        matches!(self, Self::Check | Self::Peek | Self::Acquire { .. } | Self::Deny { .. })
    }
}
