//! Stores that may answer later.

use super::{Fallback, NodeStore, Store};

/// A store that may answer later. Operations over such a store are futures; over [memory](crate::MemoryStore) alone they are
/// plain calls.
pub trait AsyncStore: Store {}

impl<S: Store> AsyncStore for Fallback<S> {}
impl AsyncStore for NodeStore {}
