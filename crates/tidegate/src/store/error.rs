//! Why a store did not answer.

use std::fmt;

/// Why a store did not answer. The operation may have been charged nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The reply did not come in time.
    TimedOut,
    /// The circuit breaker is open: the store has not answered for a while, and is not asked until a probe succeeds.
    BreakerOpen,
    /// Too many operations wait for the store, so this one was not started.
    Overloaded,
    /// No server of the store can be reached. Carries the reasons.
    Unreachable(Box<str>),
    /// The store answered with an error. Carries its text.
    Refused(Box<str>),
    /// The value of a key was not written by Tidegate. Carries the name of the key.
    Unreadable(Box<str>),
    /// The tokio runtime of the store was dropped, so nothing can be asked any more.
    RuntimeGone,
}

impl StoreError {
    /// The name in metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::BreakerOpen => "away",
            Self::Overloaded => "overloaded",
            Self::Unreachable(_) => "unreachable",
            Self::Refused(_) => "refused",
            Self::Unreadable(_) => "unreadable",
            Self::RuntimeGone => "runtime_gone",
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the shared store did not answer in time"),
            Self::BreakerOpen => f.write_str("the shared store does not answer; it is asked again when it is back"),
            Self::Overloaded => f.write_str("too many requests wait for the shared store"),
            Self::Unreachable(reasons) => write!(f, "the shared store cannot be reached: {reasons}"),
            Self::Refused(text) => write!(f, "the shared store refused: {text}"),
            Self::Unreadable(key) => write!(
                f,
                "the value at `{key}` in the shared store is not a counter (hint: delete the key, or give Tidegate its \
                 own namespace)"
            ),
            Self::RuntimeGone => f.write_str(
                "the tokio runtime of the shared store was dropped (hint: keep that runtime while the store is used, \
                 or give the store its own runtime)",
            ),
        }
    }
}

impl std::error::Error for StoreError {}
