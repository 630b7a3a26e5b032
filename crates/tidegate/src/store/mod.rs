//! The store interface: counters in this process, or shared by a fleet.
//!
//! ```text
//! Ask { op, plan, now, deadline }  ->  Store::ask  ->  Response::Now(Reply)      memory: immediately, not boxed
//!                                                  ->  Response::Later(future)   Redis: when it has answered
//! ```
//!
//! [`Fallback`] is a layer over a shared store: it decides in this process while that store does not answer.
//! [`ModeStore`] is a layer that decides in this process and synchronises with the shared store.
//! [`LeaseStore`] keeps leases in a store of their own.
//! [`NodeStore`] is either kind, for a program that chooses at run time where to count.

mod error;
mod fallback;
mod into_store;
#[cfg(all(any(feature = "etcd", feature = "redis"), not(loom)))]
pub(crate) mod key_name;
mod lease_store;
mod memory;
mod mixed;
mod modes;
mod node;
mod owned_plan;
mod reply;
pub(crate) mod split;
mod watch;

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;

use crate::memory::MemoryStore;

pub use crate::memory::{Outcomes, OutcomesIntoIter};
pub use error::StoreError;
pub use fallback::Fallback;
pub use into_store::IntoStore;
pub use lease_store::LeaseStore;
pub use modes::{ModeSettings, ModeStats, ModeStore};
pub use node::NodeStore;
pub use reply::{LeaseReply, Reply, ReplyFuture, Response};
pub use tidegate_core::{
    Carry, Charge, ChargedAt, Counter, CounterId, DenyCache, Mode, Op, Outcome, Plan, PlanFull, Role,
    StorePolicy,
};
pub use watch::{PollChanged, Watch};

/// A store of counters.
///
/// An operation starts when [`ask`](Self::ask) is called, not when its reply is first polled. Dropping the reply does
/// not cancel the operation.
pub trait Store: Send + Sync {
    /// Starts an operation on a plan.
    fn ask(&self, ask: &Ask<'_, '_>) -> Response;

    /// Decides a plan without asking the store, after the store failed: each charge is decided by its
    /// [`on_store_failure`](tidegate_core::StorePolicy::on_store_failure). Returns the error if the store has no
    /// [`Fallback`].
    fn ask_fallback(&self, ask: &Ask<'_, '_>, error: &StoreError) -> Result<Reply, StoreError> {
        let _ = ask;
        Err(error.clone())
    }

    /// How long all calls for one decision may take together. None if the store replies immediately.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// How many nodes share the store, including this one, as far as is known. While the store does not answer, each
    /// node enforces its share of a limit.
    fn live_nodes(&self) -> NonZeroU32 {
        NonZeroU32::MIN
    }

    /// The counters in this process, if there are any: all of them, or those of a [`Fallback`].
    fn local(&self) -> Option<&Arc<MemoryStore>> {
        None
    }

    /// Whether [`local`](Self::local) has all counters. Then a plan is decided at the caller's instant, and exact
    /// forecasts are possible for requests that wait.
    fn is_local(&self) -> bool {
        false
    }

    /// Watches for units of a plan's keys that other nodes return: released leases, refunds, resets. None if the store
    /// cannot do that. Create the watch before asking about the plan, so that no change in between is missed.
    fn watch(&self, plan: &Plan<'_>) -> Option<Watch> {
        let _ = plan;
        None
    }

    /// Runs a future to completion, even if its caller stops waiting. None if the store has nothing that can.
    fn spawner(&self) -> Option<SpawnFn> {
        None
    }

    /// Does the background work that is due. Call it about once a second.
    fn tick(&self, now: Timestamp) {
        let _ = now;
    }
}

/// A store that may answer later. Calls over such a store are futures. Over [memory](crate::MemoryStore) alone they are
/// plain calls.
pub trait AsyncStore: Store {}

/// What a store is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a, 'p> {
    /// What to do with the plan.
    pub op: Op,
    /// The charges.
    pub plan: &'a Plan<'p>,
    /// The instant, by the caller's clock. A shared store decides by its own clock.
    pub now: Timestamp,
    /// When the reply is too late, by the caller's clock. Without it, the store's own timeout counts from `now`. The timeout
    /// also limits it, except for [`Op::Count`], for which no request waits.
    pub deadline: Option<Timestamp>,
}

/// Runs a future to completion.
pub type SpawnFn = Box<dyn FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) + Send>;

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

impl<S: Store> AsyncStore for Fallback<S> {}
impl AsyncStore for NodeStore {}
