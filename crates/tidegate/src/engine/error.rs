//! Why a call of an engine failed.

use std::fmt;

use tidegate_core::PlanFull;

use crate::StoreError;

/// Why a call of an engine failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineError {
    /// The request falls under more limits than a plan has room for.
    PlanFull,
    /// The store did not answer. It may have performed the operation nevertheless.
    Store(StoreError),
}

impl From<PlanFull> for EngineError {
    fn from(_: PlanFull) -> Self {
        Self::PlanFull
    }
}

impl From<StoreError> for EngineError {
    fn from(failure: StoreError) -> Self {
        Self::Store(failure)
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlanFull => PlanFull.fmt(f),
            Self::Store(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for EngineError {}
