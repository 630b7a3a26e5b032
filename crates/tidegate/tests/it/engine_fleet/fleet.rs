//! Nodes that share a store, on one manual clock.

use tidegate::ManualClock;
use tidegate_testing::fake_store::{FakeStore, StoreBehavior};

use crate::engine::fixture::{EngineFixture, domains};
use crate::engine::setup::Setup;
use crate::engine::shared_engine::engine_over;
use tidegate::StoreError;

/// A shared store, and nodes over it, each with its own queues and memory.
pub struct Fleet {
    pub store: FakeStore<ManualClock>,
    pub nodes: Vec<EngineFixture>,
}

impl Fleet {
    /// `nodes` nodes with the same rules.
    pub fn new(nodes: u32, file: &str) -> Self {
        let clock = ManualClock::default();
        Self::with_store(nodes, file, &clock, FakeStore::new(clock.clone()))
    }

    pub fn with_store(nodes: u32, file: &str, clock: &ManualClock, remote: FakeStore<ManualClock>) -> Self {
        remote.set_nodes(nodes);
        let node = |_| EngineFixture {
            setup: Setup::Shared,
            engine: engine_over(domains(file), clock.clone(), remote.clone()),
            clock: clock.clone(),
        };
        Self { nodes: (0..nodes).map(node).collect(), store: remote }
    }

    /// From now on the store does not answer.
    pub fn stop_store(&self) {
        self.store.set_behavior(StoreBehavior::Fail(StoreError::TimedOut));
    }

    /// From now on the store answers again.
    pub fn resume_store(&self) {
        self.store.set_behavior(StoreBehavior::Reply);
    }

    pub fn first(&self) -> &EngineFixture {
        &self.nodes[0]
    }
}
