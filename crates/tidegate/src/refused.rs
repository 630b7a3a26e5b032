//! Why a request was not admitted: the error of every method that acquires or waits.

use std::fmt;

use tidegate_core::{Decision, Nanos, PlanFull, Wait};

use crate::queue::Refusal;
use crate::store::{Fallback, StoreError};

const LEASE_MEMORY_FULL: &str = "the memory for leases is full, and leases that are held are not evicted (hint: give \
                                 the store more memory, or use shorter ttls)";

/// Why a request was not admitted: the error of `try_x`, `x`, `x_within` and `reserve`. Nothing was charged, unless the
/// [store](Self::Store) failed.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Limiter, Refused};
///
/// let limiter = Limiter::new("1 per hour")?;
/// let _admitted = limiter.try_acquire("user:42", 1)?;
/// match limiter.acquire_within_blocking("user:42", 1, Duration::from_secs(1)) {
///     Err(Refused::TooLong { wait }) => println!("it would take {wait:?}"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Refused {
    /// The request is over a limit and does not wait. Carries the decision.
    OverLimit(Decision),
    /// The request costs more than its limits can ever admit, so waiting is useless.
    Never,
    /// The request cannot be admitted within its maximum wait.
    TooLong {
        /// From when the request was made until it would be admitted, behind all requests that wait already. None if it
        /// is not known.
        wait: Option<Nanos>,
    },
    /// The wait queue is full.
    QueueFull,
    /// The request falls under more limits than a plan has room for.
    PlanFull,
    /// There is no memory for another lease. Leases that are held are never evicted for a new one. Give the store more
    /// memory, or use shorter ttls.
    LeaseMemoryFull,
    /// The shared store did not answer, and its policy denies requests then. The store may have charged the request
    /// nevertheless.
    Store(StoreError),
}

impl Refused {
    /// The refusal for a decision that denies.
    pub(crate) fn from_denied(decision: Decision) -> Self {
        if decision.lease_memory_full { Self::LeaseMemoryFull } else { Self::OverLimit(decision) }
    }

    /// How long to wait before a retry: [never](Wait::NEVER) if the request cannot be admitted at all, none if it is
    /// not known.
    pub fn retry_after(&self) -> Option<Wait> {
        match self {
            Self::OverLimit(decision) => Some(decision.retry_after),
            Self::Never | Self::PlanFull => Some(Wait::NEVER),
            Self::TooLong { wait } => wait.map(Wait::of),
            Self::QueueFull => None,
            Self::LeaseMemoryFull | Self::Store(_) => Some(Fallback::<()>::RETRY_AFTER),
        }
    }

    /// The decision that denied the request, if one did.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::OverLimit(decision) => Some(decision),
            _ => None,
        }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Never => Self::Never,
            Refusal::TooLong { wait } => Self::TooLong { wait },
            Refusal::QueueFull => Self::QueueFull,
        }
    }
}

impl From<StoreError> for Refused {
    fn from(failure: StoreError) -> Self {
        Self::Store(failure)
    }
}

impl From<PlanFull> for Refused {
    fn from(_: PlanFull) -> Self {
        Self::PlanFull
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverLimit(decision) => match decision.retry_after {
                Wait::NEVER => f.write_str("the cost is more than the limit can ever admit"),
                retry_after => write!(f, "over the limit; retry in {retry_after}"),
            },
            Self::Never => f.write_str("the cost is more than the limit can ever admit"),
            Self::TooLong { wait: Some(wait) } => write!(f, "the request would have to wait for {wait}"),
            Self::TooLong { wait: None } => f.write_str("not admitted within the maximum wait"),
            Self::QueueFull => f.write_str("the wait queue is full"),
            Self::PlanFull => PlanFull.fmt(f),
            Self::LeaseMemoryFull => f.write_str(LEASE_MEMORY_FULL),
            Self::Store(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(failure) => Some(failure),
            _ => None,
        }
    }
}
