//! Servers that share a store, on one manual clock.

use tidegate::ManualClock;
use tidegate_testing::remote::{StoreBehavior, FakeStore};

use crate::engine::bench::{EngineFixture, domains};
use crate::engine::setup::Setup;
use crate::engine::setup::shared::engine_over;
use tidegate::StoreError;

/// A shared store, and servers over it with lines and memory of their own.
pub struct Fleet {
    pub store: FakeStore<ManualClock>,
    pub nodes: Vec<EngineFixture>,
}

impl Fleet {
    /// So many servers with the same rules.
    pub fn new(servers: u32, file: &str) -> Self {
        let clock = ManualClock::default();
        Self::with_store(servers, file, &clock, FakeStore::new(clock.clone()))
    }

    pub fn with_store(servers: u32, file: &str, clock: &ManualClock, remote: FakeStore<ManualClock>) -> Self {
        remote.set_nodes(servers);
        let server = |_| EngineFixture {
            setup: Setup::Shared,
            engine: engine_over(domains(file), clock.clone(), remote.clone()),
            clock: clock.clone(),
        };
        Self { nodes: (0..servers).map(server).collect(), store: remote }
    }

    /// The store does not answer any more.
    pub fn stop_store(&self) {
        self.store.set_behavior(StoreBehavior::Fail(StoreError::TimedOut));
    }

    /// It does again.
    pub fn resume_store(&self) {
        self.store.set_behavior(StoreBehavior::Reply);
    }

    pub fn first(&self) -> &EngineFixture {
        &self.nodes[0]
    }
}
