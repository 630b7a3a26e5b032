//! What a store answers, now or later.

use std::fmt;
use std::pin::Pin;

use tidegate_core::{Op, PackedState, Timestamp};

use super::{Ask, StoreError};
use crate::{Lease, Outcomes, Release, Renewal};

/// The response of a store.
#[must_use]
#[allow(clippy::large_enum_variant, reason = "memory answers immediately, and a box would be an allocation")]
pub enum Response {
    /// The reply.
    Now(Result<Reply, StoreError>),
    /// The reply comes later.
    Later(ReplyFuture),
}

/// A reply that comes later. It borrows nothing.
pub type ReplyFuture = Pin<Box<dyn Future<Output = Result<Reply, StoreError>> + Send>>;

/// What a store did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// When it decided, by the store's clock.
    pub at: Timestamp,
    /// One outcome for each charge, in the plan's order, if the plan was decided.
    pub outcomes: Outcomes,
    /// The state of the lease.
    pub lease: LeaseReply,
    /// Whether the plan was charged, but fewer replicas have the charge than the store should wait for.
    pub is_unreplicated: bool,
    /// The states of the keys after the operation, by the store's clock, for [`Op::Count`].
    pub states: Option<Box<[PackedState]>>,
}

/// The state of a lease after an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaseReply {
    /// No lease was asked for, or none was granted.
    #[default]
    None,
    /// It is held: it was granted or renewed.
    Held(Lease),
    /// It was released now.
    Released,
    /// It is not held any more, before its expiry: it was released or reset, or the store lost it.
    AlreadyReleased,
    /// It has expired.
    Expired,
    /// The token belongs to another key or store.
    WrongOwner,
    /// No lease was granted, because the memory for leases is full. Nothing was charged.
    MemoryFull,
}

impl Reply {
    /// The reply to a plan that was decided.
    #[inline]
    pub fn new(at: Timestamp, outcomes: Outcomes) -> Self {
        Self { at, outcomes, lease: LeaseReply::None, is_unreplicated: false, states: None }
    }

    /// The reply to an operation without outcomes.
    pub fn empty(at: Timestamp) -> Self {
        Self::new(at, Outcomes::new())
    }

    /// Adds the state of a lease.
    #[must_use]
    pub fn with_lease(self, lease: LeaseReply) -> Self {
        Self { lease, ..self }
    }

    /// Whether there is an outcome for each charge, if the operation decides.
    #[inline]
    pub(crate) fn is_complete_for(&self, op: Op, charges: usize) -> bool {
        !op.decides() || self.outcomes.len() == charges
    }

    /// The error of a reply that is not [complete](Self::is_complete_for).
    #[cold]
    pub(crate) fn incomplete_error() -> StoreError {
        StoreError::Refused("the reply has outcomes for fewer limits than the plan".into())
    }

    /// The reply, if it is [complete](Self::is_complete_for).
    pub(crate) fn require_complete(self, ask: &Ask<'_, '_>) -> Result<Self, StoreError> {
        if self.is_complete_for(ask.op, ask.plan.charges().len()) {
            Ok(self)
        } else {
            Err(Self::incomplete_error())
        }
    }
}

impl Response {
    /// Waits for the reply.
    pub async fn reply(self) -> Result<Reply, StoreError> {
        match self {
            Self::Now(reply) => reply,
            Self::Later(later) => later.await,
        }
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(reply) => f.debug_tuple("Now").field(reply).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

impl LeaseReply {
    /// The lease, if it is held.
    pub fn into_lease(self) -> Option<Lease> {
        match self {
            Self::Held(lease) => Some(lease),
            _ => None,
        }
    }

    /// Converts the times of a lease from the store's clock to the caller's. The lease was asked for at `asked_at`, so for
    /// its holder it ends no later than in the store.
    #[must_use]
    pub(crate) fn rebased_to(self, asked_at: Timestamp) -> Self {
        match self {
            Self::Held(lease) => {
                Self::Held(Lease { since: asked_at, expires: asked_at.saturating_add(lease.ttl()), ..lease })
            }
            other => other,
        }
    }
}

impl From<LeaseReply> for Renewal {
    fn from(reply: LeaseReply) -> Self {
        match reply {
            LeaseReply::Held(lease) => Self::Renewed(lease),
            LeaseReply::Released | LeaseReply::AlreadyReleased => Self::AlreadyReleased,
            LeaseReply::Expired => Self::Expired,
            LeaseReply::None | LeaseReply::WrongOwner | LeaseReply::MemoryFull => Self::WrongOwner,
        }
    }
}

impl From<LeaseReply> for Release {
    fn from(reply: LeaseReply) -> Self {
        match reply {
            LeaseReply::Released => Self::Released,
            LeaseReply::Held(_) | LeaseReply::AlreadyReleased => Self::AlreadyReleased,
            LeaseReply::Expired => Self::Expired,
            LeaseReply::None | LeaseReply::WrongOwner | LeaseReply::MemoryFull => Self::WrongOwner,
        }
    }
}
