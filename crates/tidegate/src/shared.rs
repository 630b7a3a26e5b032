//! A store that many processes share. It answers later, or not at all.

use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Nanos, Plan, Timestamp};

use crate::{Lease, LeaseToken, Outcomes, Release, Renewal};

/// What comes to be later. It holds on to nothing of whoever asked.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Counters that many processes share: each answers as [`MemoryStore`](crate::MemoryStore) does, by the store's own time.
///
/// A question is put when a method is called, not when the answer is first polled, and dropping the answer does not take
/// the question back. Every answer comes within the store's own budget of time; what did not come by then is a
/// [`StoreFailure`].
pub trait SharedStore: Send + Sync {
    /// Decides a plan: charges all of it or none. Those of its charges that `cacheable` names may be denied from memory for
    /// as long as it is known that the store would deny them.
    fn check(&self, plan: &Plan<'_>, cacheable: Cacheable) -> Later<Result<Settled, StoreFailure>>;

    /// Answers as [`check`](Self::check) would and changes nothing.
    fn peek(&self, plan: &Plan<'_>) -> Later<Result<Settled, StoreFailure>>;

    /// Decides a plan and hands out the lease of what it takes from concurrency limits.
    fn acquire(&self, plan: &Plan<'_>, ttl: Option<Nanos>) -> Later<Result<Settled, StoreFailure>>;

    /// Lets a lease last on.
    fn renew(
        &self,
        plan: &Plan<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Later<Result<Renewal, StoreFailure>>;

    /// Gives back what a lease holds.
    fn release(&self, plan: &Plan<'_>, token: &LeaseToken) -> Later<Result<Release, StoreFailure>>;

    /// Gives back what a plan charged: the newest units of each key, no more than it used.
    fn refund(&self, plan: &Plan<'_>) -> Later<Result<(), StoreFailure>>;

    /// Forgets what the plan's keys used.
    fn reset(&self, plan: &Plan<'_>) -> Later<Result<(), StoreFailure>>;

    /// The same store for a further question of a decision that has spent so much of the budget already: it has the rest.
    fn having_spent(&self, spent: Duration) -> Arc<dyn SharedStore>;

    /// How many processes share it, this one included, as far as is known: each of them has that share of a limit while the
    /// store does not answer.
    fn live_nodes(&self) -> NonZeroU32;
}

/// What a shared store said of a plan.
#[derive(Clone, Debug)]
pub struct Settled {
    /// One for each charge, in the plan's order.
    pub outcomes: Outcomes,
    /// When it was decided, by the store's time.
    pub at: Timestamp,
    /// What is held, if the plan was to hold what it is given.
    pub lease: Option<Lease>,
}

/// Which charges of a plan may be denied from memory, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cacheable(u64);

/// Why a shared store did not answer. What it was asked for may have been charged nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFailure {
    /// Not in time.
    TimedOut,
    /// It has not answered for a while and is not asked, until a probe says that it is back.
    Away,
    /// So many questions wait for it that this one was not put.
    Overloaded,
    /// It answered that it cannot: what it said.
    Refused(Box<str>),
    /// What it holds for a key is nothing that Tidegate put there: the key's name.
    Unreadable(Box<str>),
    /// The tokio runtime that the store runs on was dropped, so nothing can be asked any more.
    RuntimeGone,
}

impl Cacheable {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(u64::MAX);

    /// The same with the charge at this place.
    #[must_use]
    pub fn with(self, place: usize) -> Self {
        // A plan has no more charges than this has bits.
        Self(self.0 | 1u64.checked_shl(u32::try_from(place).unwrap_or(u32::MAX)).unwrap_or(0))
    }

    /// Whether the charge at this place may be.
    pub fn holds(self, place: usize) -> bool {
        u32::try_from(place)
            .ok()
            .and_then(|place| self.0.checked_shr(place))
            .is_some_and(|bits| bits & 1 == 1)
    }
}

impl StoreFailure {
    /// What it is called in metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Away => "away",
            Self::Overloaded => "overloaded",
            Self::Refused(_) => "refused",
            Self::Unreadable(_) => "unreadable",
            Self::RuntimeGone => "runtime_gone",
        }
    }
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the shared store did not answer in time"),
            Self::Away => f.write_str("the shared store does not answer, and is asked again when it is back"),
            Self::Overloaded => f.write_str("too many requests wait for the shared store"),
            Self::Refused(said) => write!(f, "the shared store refused: {said}"),
            Self::Unreadable(key) => write!(
                f,
                "the shared store holds something at `{key}` that is no counter (hint: delete that key, or give Tidegate \
                 a namespace of its own)"
            ),
            Self::RuntimeGone => f.write_str(
                "the tokio runtime that the shared store runs on was dropped (hint: keep that runtime for as long as the \
                 store is used, or let the store have a runtime of its own)",
            ),
        }
    }
}

impl std::error::Error for StoreFailure {}
