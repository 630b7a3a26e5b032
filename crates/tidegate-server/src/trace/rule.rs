//! The limits of a trace as one rule: all of them admit a request, or none is charged.

use std::sync::Arc;

use tidegate::{Limit, Limiter, ManualClock, MemoryStore};

use super::error::TraceError;

/// A limiter that is told the time, for time is the trace's.
pub type TraceLimiter = Limiter<ManualClock>;

/// The rule that `limits` make, with a store of its own.
pub fn build_limiter(limits: &[Limit], store: MemoryStore) -> Result<TraceLimiter, TraceError> {
    let builder = limits.iter().cloned().fold(Limiter::builder(), |builder, limit| builder.limit(limit));
    builder.store(Arc::new(store)).clock(ManualClock::default()).build().map_err(TraceError::Limits)
}
