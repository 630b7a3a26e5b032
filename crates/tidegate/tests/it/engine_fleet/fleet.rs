//! Servers that share a store, on one manual clock.

use tidegate::ManualClock;
use tidegate_testing::remote::{Mood, Remote};

use crate::engine::bench::{Bench, domains};
use crate::engine::setup::Setup;
use crate::engine::setup::shared::engine_sharing;
use tidegate::StoreFailure;

/// A shared store, and servers over it with lines and memory of their own.
pub struct Fleet {
    pub remote: Remote<ManualClock>,
    pub servers: Vec<Bench>,
}

impl Fleet {
    /// So many servers with the same rules.
    pub fn of(servers: u32, file: &str) -> Self {
        let clock = ManualClock::default();
        Self::sharing(servers, file, &clock, Remote::new(clock.clone()))
    }

    pub fn sharing(servers: u32, file: &str, clock: &ManualClock, remote: Remote<ManualClock>) -> Self {
        remote.has_nodes(servers);
        let server = |_| Bench {
            setup: Setup::Shared,
            engine: engine_sharing(domains(file), clock.clone(), remote.clone()),
            clock: clock.clone(),
        };
        Self { servers: (0..servers).map(server).collect(), remote }
    }

    /// The store does not answer any more.
    pub fn cut_off(&self) {
        self.remote.is(Mood::Fails(StoreFailure::TimedOut));
    }

    /// It does again.
    pub fn mend(&self) {
        self.remote.is(Mood::Answers);
    }

    pub fn first(&self) -> &Bench {
        &self.servers[0]
    }
}
