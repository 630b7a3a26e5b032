//! A plan that can wait for its turn: what a [`Plan`](tidegate_core::Plan) says, with nothing borrowed.

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Nanos, Role, Timestamp};

use crate::LeaseToken;

/// One plan, and what is to be done with it.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub op: Op,
    /// One at least.
    pub charges: SmallVec<[OrderCharge; 2]>,
    /// Whether the states that it found are wanted back even if it is not denied.
    pub keeps_states: bool,
}

/// What is to be done with a plan.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Check,
    Peek,
    Refund,
    Reset,
    Acquire {
        owner: Owner,
        ttl: Option<Nanos>,
    },
    Renew {
        token: LeaseToken,
        ttl: Option<Nanos>,
    },
    /// As renew, and the lease takes the token's fence, which is higher than its own: it has that elsewhere.
    Raise {
        token: LeaseToken,
        ttl: Option<Nanos>,
    },
    Release {
        token: LeaseToken,
    },
}

/// Who a lease belongs to: drawn at random for each, and kept as a secret.
pub(super) type Owner = [u8; 16];

/// One line of a plan.
#[derive(Clone, Debug)]
pub(super) struct OrderCharge {
    /// The name of its key in Redis.
    pub key: KeyName,
    pub algorithm: Algorithm,
    pub cost: u64,
    pub role: Role,
    /// Of a refund, from when on what is given back [counts](tidegate_core::algorithm::Counting::counts_from), in whole
    /// microseconds, if that is known: nothing is taken from what others used since.
    pub counts_from: Option<Timestamp>,
}

impl Order {
    pub(super) fn new(op: Op, charges: SmallVec<[OrderCharge; 2]>) -> Self {
        Self { op, charges, keeps_states: false }
    }

    /// One whose answer says what the states were before it.
    pub(super) fn keeping_states(op: Op, charges: SmallVec<[OrderCharge; 2]>) -> Self {
        Self { op, charges, keeps_states: true }
    }
}

impl Op {
    /// The number that the script knows it by: see `lua/main.lua`.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Check => 1,
            Self::Peek => 2,
            Self::Refund => 3,
            Self::Reset => 4,
            Self::Acquire { .. } => 5,
            Self::Renew { .. } => 6,
            Self::Release { .. } => 7,
            Self::Raise { .. } => 8,
        }
    }
}

/// The name of a key in Redis. Most need no allocation.
pub(super) type KeyName = SmallVec<[u8; 40]>;
