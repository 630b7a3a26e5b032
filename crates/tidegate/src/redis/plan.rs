//! A plan that can wait for its turn: what a [`Plan`](tidegate_core::Plan) says, with nothing borrowed.

use smallvec::SmallVec;
use tidegate_core::{Algorithm, DenyCache, Op, Role, Timestamp};

/// One plan, and what is to be done with it.
#[derive(Clone, Debug)]
pub(super) struct RedisPlan {
    pub op: Op,
    /// Who the lease belongs to that is acquired; [`NOBODY`] for other operations.
    pub owner: LeaseOwner,
    /// What a renewal does to the lease's fence.
    pub fence: FenceChange,
    /// One at least.
    pub charges: SmallVec<[RedisCharge; 2]>,
    /// Whether the states that it found are wanted back even if it is not denied.
    pub returns_states: bool,
    /// Whether a refund is published, for those who wait for units. Parts of a denied plan that come back are not: that is
    /// as if they had never been charged.
    pub is_published: bool,
}

/// Who a lease belongs to: drawn at random for each, and kept as a secret.
pub(super) type LeaseOwner = [u8; 16];

/// The owner that is never drawn.
pub(super) const NO_OWNER: LeaseOwner = [0; 16];

/// What a renewal does to the lease's fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FenceChange {
    Keep,
    /// The lease takes the token's fence, which is higher than its own: it has that in another place.
    Raise,
}

/// One line of a plan.
#[derive(Clone, Debug)]
pub(super) struct RedisCharge {
    /// The name of its key in Redis.
    pub key: KeyName,
    pub algorithm: Algorithm,
    pub cost: u64,
    pub role: Role,
    /// Of a refund, from when on what is given back [counts](tidegate_core::algorithm::Counting::counts_from), in whole
    /// microseconds, if that is known: nothing is taken from what others used since.
    pub counts_from: Option<Timestamp>,
    /// Whether it may be denied from memory.
    pub deny_cache: DenyCache,
}

impl RedisPlan {
    pub(super) fn new(op: Op, charges: SmallVec<[RedisCharge; 2]>) -> Self {
        Self {
            op,
            owner: NO_OWNER,
            fence: FenceChange::Keep,
            charges,
            returns_states: false,
            is_published: false,
        }
    }

    /// The same, for a lease of this owner.
    pub(super) fn with_owner(self, owner: LeaseOwner) -> Self {
        Self { owner, ..self }
    }

    /// One whose answer says what the states were before it.
    pub(super) fn with_states(op: Op, charges: SmallVec<[RedisCharge; 2]>) -> Self {
        Self { returns_states: true, ..Self::new(op, charges) }
    }
}

/// The number of an operation that counts a denied attempt.
pub(super) const DENY_OP_CODE: u8 = 9;

/// The number that the script knows an operation by: see `lua/main.lua`.
pub(super) fn op_code(order: &RedisPlan) -> u8 {
    match order.op {
        Op::Check => 1,
        Op::Deny { counted: true } if order.charges.iter().any(|charge| charge.algorithm.counts_denied()) => {
            DENY_OP_CODE
        }
        Op::Peek | Op::Deny { .. } => 2,
        Op::Refund { .. } => match order.is_published {
            false => 3,
            true => 10,
        },
        Op::Reset => 4,
        Op::Acquire { .. } => 5,
        Op::Renew { .. } => match order.fence {
            FenceChange::Keep => 6,
            FenceChange::Raise => 8,
        },
        Op::Release { .. } => 7,
        // The store refuses operations that the script does not know.
        _ => 0,
    }
}

/// The name of a key in Redis. Most need no allocation.
pub(super) type KeyName = SmallVec<[u8; 40]>;
