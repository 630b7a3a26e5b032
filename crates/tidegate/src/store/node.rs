//! The store of a node, chosen at run time.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Plan, Timestamp};

use super::{Ask, Fallback, Reply, Response, SpawnFn, Store, StoreError, Watch};
use crate::memory::MemoryStore;

/// The store of a node: its own memory, or a store that a fleet shares. Clones share the store.
#[derive(Clone)]
pub enum NodeStore {
    /// In the memory of this process.
    Local(Arc<MemoryStore>),
    /// In a shared store, and in the memory of this process while that does not answer.
    Shared(Fallback<Arc<dyn Store>>),
}

impl NodeStore {
    /// A shared store, with the memory of this process as its fallback.
    pub fn shared(shared: Arc<dyn Store>, local: Arc<MemoryStore>) -> Self {
        Self::Shared(Fallback::new(shared, local))
    }

    /// The memory of this process.
    pub fn memory(&self) -> &Arc<MemoryStore> {
        match self {
            Self::Local(memory) => memory,
            Self::Shared(fallback) => fallback.memory(),
        }
    }

    #[inline]
    fn get(&self) -> &dyn Store {
        match self {
            Self::Local(memory) => memory,
            Self::Shared(fallback) => fallback,
        }
    }
}

impl Store for NodeStore {
    #[inline]
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        match self {
            Self::Local(memory) => memory.ask(ask),
            Self::Shared(fallback) => fallback.ask(ask),
        }
    }

    fn ask_fallback(&self, ask: &Ask<'_, '_>, error: &StoreError) -> Result<Reply, StoreError> {
        self.get().ask_fallback(ask, error)
    }

    #[inline]
    fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Local(_) => None,
            Self::Shared(fallback) => fallback.timeout(),
        }
    }

    fn live_nodes(&self) -> NonZeroU32 {
        self.get().live_nodes()
    }

    #[inline]
    fn local(&self) -> Option<&Arc<MemoryStore>> {
        Some(self.memory())
    }

    #[inline]
    fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    fn watch(&self, plan: &Plan<'_>) -> Option<Watch> {
        self.get().watch(plan)
    }

    fn spawner(&self) -> Option<SpawnFn> {
        self.get().spawner()
    }

    fn tick(&self, now: Timestamp) {
        self.get().tick(now);
    }
}

impl std::fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_local() { "NodeStore::Local" } else { "NodeStore::Shared" })
    }
}
