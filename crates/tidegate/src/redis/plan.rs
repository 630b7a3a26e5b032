//! A plan that can wait in a queue: the content of a [`Plan`](tidegate_core::Plan), without borrows.

use smallvec::SmallVec;
use tidegate_core::{Algorithm, DenyCache, Op, Role, Timestamp};

use super::key_name::KeyName;
use super::topology::KeyMobility;

/// One plan, and the operation to run on it.
#[derive(Clone, Debug)]
pub(super) struct RedisPlan {
    pub op: Op,
    /// The owner of the lease to acquire; [`NO_OWNER`] for other operations.
    pub owner: LeaseOwner,
    /// What a renewal does to the lease's fencing token.
    pub fence: FenceChange,
    /// At least one.
    pub charges: SmallVec<[RedisCharge; 2]>,
    /// Whether the reply must contain the states before the plan, even if the plan is admitted.
    pub returns_states: bool,
    /// Whether a refund is published to waiters. The refund of one part of a denied plan is not: the plan
    /// then counts as never charged.
    pub is_published: bool,
}

/// Identifies a lease: random for each lease, and secret.
pub(super) type LeaseOwner = [u8; 16];

/// Means "no owner". Random owners are never zero.
pub(super) const NO_OWNER: LeaseOwner = [0; 16];

/// What a renewal does to the lease's fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FenceChange {
    Keep,
    /// Raise it to the token's, which is higher: another part of a split lease already has that one.
    Raise,
}

/// One charge of a plan.
#[derive(Clone, Debug)]
pub(super) struct RedisCharge {
    /// The name of its key in Redis.
    pub key: KeyName,
    pub algorithm: Algorithm,
    pub cost: u64,
    pub role: Role,
    /// For a refund: when the refunded charge
    /// [started to count](tidegate_core::algorithm::LimitAlgorithm::counts_from), in whole microseconds, if
    /// known. Units that other requests used since then are not refunded.
    pub counts_from: Option<Timestamp>,
    /// Whether the deny cache may deny this charge.
    pub deny_cache: DenyCache,
    /// Whether the key may move to another server of a ring.
    pub mobility: KeyMobility,
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

    /// The same plan, with an owner for its lease.
    pub(super) fn with_owner(self, owner: LeaseOwner) -> Self {
        Self { owner, ..self }
    }

    /// A plan whose reply contains the states before it.
    pub(super) fn with_states(op: Op, charges: SmallVec<[RedisCharge; 2]>) -> Self {
        Self { returns_states: true, ..Self::new(op, charges) }
    }
}

/// The op code that counts a denied attempt.
pub(super) const DENY_OP_CODE: u8 = 9;

/// The op code of a plan in the script: see `lua/main.lua`.
pub(super) fn op_code(plan: &RedisPlan) -> u8 {
    match plan.op {
        Op::Check => 1,
        Op::Deny { counted: true } if plan.charges.iter().any(|charge| charge.algorithm.counts_denied()) => {
            DENY_OP_CODE
        }
        Op::Peek | Op::Deny { .. } => 2,
        Op::Refund { .. } => match plan.is_published {
            false => 3,
            true => 10,
        },
        Op::Reset => 4,
        Op::Acquire { .. } => 5,
        Op::Renew { .. } => match plan.fence {
            FenceChange::Keep => 6,
            FenceChange::Raise => 8,
        },
        Op::Release { .. } => 7,
        Op::Count { .. } => 11,
        // The store refuses operations that the script does not know.
        _ => 0,
    }
}
