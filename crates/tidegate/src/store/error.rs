//! Why a store did not answer.

use std::fmt;

/// Why a store did not answer. What it was asked for may have been charged nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// Not in time.
    TimedOut,
    /// It has not answered for a while and is not asked, until a probe says that it is back.
    BreakerOpen,
    /// Too many operations wait for it, so this one was not started.
    Overloaded,
    /// It answered that it cannot: what it said.
    Refused(Box<str>),
    /// What it holds for a key was not put there by Tidegate: the key's name.
    Unreadable(Box<str>),
    /// The tokio runtime that the store runs on was dropped, so nothing can be asked any more.
    RuntimeGone,
}

impl StoreError {
    /// Its name in metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::BreakerOpen => "away",
            Self::Overloaded => "overloaded",
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
            Self::BreakerOpen => f.write_str("the shared store does not answer, and is asked again when it is back"),
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

impl std::error::Error for StoreError {}
