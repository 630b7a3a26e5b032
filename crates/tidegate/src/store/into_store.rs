//! Types that convert to a store, for limiters and locks.

use std::sync::Arc;

use super::{Fallback, NodeStore, Store};
#[cfg(all(any(feature = "etcd", feature = "redis"), not(loom)))]
use crate::memory::MEMORY_BYTES_DEFAULT;
use crate::memory::MemoryStore;

/// Converts to a store: a memory store, a store on Redis or etcd, or a [`Fallback`] over any other shared store.
pub trait IntoStore {
    /// The resulting store.
    type Store: Store;

    /// Converts to a store.
    fn into_store(self) -> Self::Store;
}

impl IntoStore for Arc<MemoryStore> {
    type Store = Self;

    fn into_store(self) -> Self {
        self
    }
}

/// While Redis does not answer, decisions are made in a memory store of at most 256 MiB. Pass a [`Fallback`] to share
/// that store or to set its size.
#[cfg(all(feature = "redis", not(loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
impl IntoStore for crate::redis::RedisStore {
    type Store = Fallback<Self>;

    fn into_store(self) -> Fallback<Self> {
        Fallback::new(self, Arc::new(MemoryStore::bounded(MEMORY_BYTES_DEFAULT)))
    }
}

/// While etcd does not answer, a limit with `on_store_failure: local` is decided in a memory store of at most 256 MiB.
/// Locks are refused.
#[cfg(all(feature = "etcd", not(loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "etcd")))]
impl IntoStore for crate::etcd::EtcdStore {
    type Store = Fallback<Self>;

    fn into_store(self) -> Fallback<Self> {
        Fallback::new(self, Arc::new(MemoryStore::bounded(MEMORY_BYTES_DEFAULT)))
    }
}

impl<S: Store> IntoStore for Fallback<S> {
    type Store = Self;

    fn into_store(self) -> Self {
        self
    }
}

impl IntoStore for NodeStore {
    type Store = Self;

    fn into_store(self) -> Self {
        self
    }
}
