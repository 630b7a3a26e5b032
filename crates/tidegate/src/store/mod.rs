//! The store interface: counters in this process, or shared by a fleet.
//!
//! ```text
//! Ask { op, plan, now, deadline }  ->  Store::ask  ->  Response::Now(Reply)      memory: at once, not boxed
//!                                                  ->  Response::Later(future)   Redis: when it has answered
//! ```
//!
//! [`Fallback`] is a layer over a shared store: it decides in this process while that store does not answer. [`NodeStore`] is
//! either kind, for a program that is told at run time where to count.

mod error;
mod fallback;
mod into_store;
mod memory;
mod mixed;
mod node;
mod owned_plan;
mod shared;
pub(crate) mod split;
mod watch;

pub use error::StoreError;
pub use fallback::Fallback;
pub use into_store::IntoStore;
pub use node::NodeStore;
pub use shared::AsyncStore;
pub use tidegate_core::{
    Charge, ChargedAt, Counter, CounterId, DenyCache, Mode, Op, Outcome, Plan, PlanFull, StorePolicy, Role,
};
pub use watch::{PollChanged, Watch};

pub use crate::memory::{Outcomes, OutcomesIntoIter};

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;

use crate::memory::MemoryStore;
use crate::{Lease, Release, Renewal};

/// Counters.
///
/// An operation starts when [`ask`](Self::ask) is called, not when its reply is first polled. Dropping the reply does not take
/// the operation back.
pub trait Store: Send + Sync {
    /// Starts an operation on a plan.
    fn ask(&self, ask: &Ask<'_, '_>) -> Response;

    /// Decides a plan without asking, after the store failed: what each charge's
    /// [`on_store_failure`](tidegate_core::Policy::on_store_failure) says. A store without a [`Fallback`] cannot.
    fn ask_fallback(&self, ask: &Ask<'_, '_>, error: &StoreError) -> Result<Reply, StoreError> {
        let _ = ask;
        Err(error.clone())
    }

    /// How long all that is asked for one decision may take together; none if replies come at once.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// How many nodes share the store, this one included, as far as is known. Each has that share of a limit while the store does
    /// not answer.
    fn live_nodes(&self) -> NonZeroU32 {
        NonZeroU32::MIN
    }

    /// The counters of this process alone, if it has any: all of them, or those of a [`Fallback`].
    fn local(&self) -> Option<&Arc<MemoryStore>> {
        None
    }

    /// Whether [`local`](Self::local) has all counters. Then a plan is decided at the caller's instant, and it can be forecast
    /// exactly when a request that waits will be admitted.
    fn is_local(&self) -> bool {
        false
    }

    /// Watches for units of a plan's keys that other nodes give back: released leases, refunds, resets. None if the store cannot
    /// tell. Make the watch before the plan is asked about, so that no change in between is missed.
    fn watch(&self, plan: &Plan<'_>) -> Option<Watch> {
        let _ = plan;
        None
    }

    /// What runs work to its end whether or not anybody waits for it; none if the store has nothing that could.
    fn spawner(&self) -> Option<SpawnFn> {
        None
    }

    /// Does the background work that is due. Call it about once a second.
    fn tick(&self, now: Timestamp) {
        let _ = now;
    }
}

/// What a store is asked.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a, 'p> {
    /// What to do with the plan.
    pub op: Op,
    /// The plan.
    pub plan: &'a Plan<'p>,
    /// The instant, by the caller's clock. A shared store decides by its own.
    pub now: Timestamp,
    /// When the reply comes too late, by the caller's clock; the store's own timeout from `now` on if none.
    pub deadline: Option<Timestamp>,
}

/// What a store answers.
#[must_use]
#[allow(clippy::large_enum_variant, reason = "memory answers at once, and a box would be an allocation")]
pub enum Response {
    /// The reply.
    Now(Result<Reply, StoreError>),
    /// The reply comes later.
    Later(ReplyFuture),
}

/// A reply that comes later. It borrows nothing.
pub type ReplyFuture = Pin<Box<dyn Future<Output = Result<Reply, StoreError>> + Send>>;

/// Runs work to its end.
pub type SpawnFn = Box<dyn FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) + Send>;

/// What a store did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// When, by the store's clock.
    pub at: Timestamp,
    /// One outcome for each charge, in the plan's order, if the plan was decided.
    pub outcomes: Outcomes,
    /// What became of a lease.
    pub lease: LeaseReply,
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaseReply {
    /// No lease was asked for, or none was given.
    #[default]
    None,
    /// It is held: it was handed out or renewed.
    Held(Lease),
    /// It was released.
    Released,
    /// It was released before.
    AlreadyReleased,
    /// Its time is over.
    Expired,
    /// The token belongs to another key or store.
    WrongOwner,
}

impl Reply {
    /// A decided plan.
    #[inline]
    pub fn new(at: Timestamp, outcomes: Outcomes) -> Self {
        Self { at, outcomes, lease: LeaseReply::None }
    }

    /// An operation without outcomes.
    pub fn empty(at: Timestamp) -> Self {
        Self::new(at, Outcomes::new())
    }

    /// The same with what became of a lease.
    #[must_use]
    pub fn with_lease(self, lease: LeaseReply) -> Self {
        Self { lease, ..self }
    }

    /// Whether it has an outcome for every charge of the plan, if it was to be decided.
    #[inline]
    pub(crate) fn is_complete_for(&self, op: Op, charges: usize) -> bool {
        !op.decides() || self.outcomes.len() == charges
    }

    /// What is wrong with a reply that does not [answer](Self::answers).
    #[cold]
    pub(crate) fn incomplete_error() -> StoreError {
        StoreError::Refused("it answered for fewer limits than it was asked about".into())
    }

    /// The reply, if it [answers](Self::answers).
    pub(crate) fn require_complete(self, ask: &Ask<'_, '_>) -> Result<Self, StoreError> {
        if self.is_complete_for(ask.op, ask.plan.charges().len()) { Ok(self) } else { Err(Self::incomplete_error()) }
    }
}

impl Response {
    /// The reply, when it is there.
    pub async fn reply(self) -> Result<Reply, StoreError> {
        match self {
            Self::Now(reply) => reply,
            Self::Later(later) => later.await,
        }
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

    /// The same, with a lease of another clock as one of the caller's. It was asked for at `asked`, so it ends for its holder no
    /// later than in the store.
    #[must_use]
    pub(crate) fn rebased_to(self, asked: Timestamp) -> Self {
        match self {
            Self::Held(lease) => {
                Self::Held(Lease { since: asked, expires: asked.saturating_add(lease.ttl()), ..lease })
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
            LeaseReply::None | LeaseReply::WrongOwner => Self::WrongOwner,
        }
    }
}

impl From<LeaseReply> for Release {
    fn from(reply: LeaseReply) -> Self {
        match reply {
            LeaseReply::Released => Self::Released,
            LeaseReply::Held(_) | LeaseReply::AlreadyReleased => Self::AlreadyReleased,
            LeaseReply::Expired => Self::Expired,
            LeaseReply::None | LeaseReply::WrongOwner => Self::WrongOwner,
        }
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    #[inline]
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        (**self).ask(ask)
    }

    fn ask_fallback(&self, ask: &Ask<'_, '_>, error: &StoreError) -> Result<Reply, StoreError> {
        (**self).ask_fallback(ask, error)
    }

    fn timeout(&self) -> Option<Duration> {
        (**self).timeout()
    }

    fn live_nodes(&self) -> NonZeroU32 {
        (**self).live_nodes()
    }

    fn local(&self) -> Option<&Arc<MemoryStore>> {
        (**self).local()
    }

    fn is_local(&self) -> bool {
        (**self).is_local()
    }

    fn watch(&self, plan: &Plan<'_>) -> Option<Watch> {
        (**self).watch(plan)
    }

    fn spawner(&self) -> Option<SpawnFn> {
        (**self).spawner()
    }

    fn tick(&self, now: Timestamp) {
        (**self).tick(now);
    }
}
