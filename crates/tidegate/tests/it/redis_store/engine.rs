//! An engine over a store on Redis: five requests per day and user.

use std::sync::Arc;

use tidegate::redis::RedisStore;
use tidegate::rules::{self, Descriptor, Entry, Request};
use tidegate::store::Fallback;
use tidegate::{Engine, MemoryStore, SystemClock};

const RULES: &str = "domain: api\nrules:\n  - name: one\n    key: [user]\n    limits: [5 per day]\n";

pub struct RedisEngine(Engine<SystemClock, Fallback<RedisStore>>);

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineDecision {
    pub passes: bool,
    pub degraded: bool,
}

impl RedisEngine {
    pub fn new(store: RedisStore) -> Self {
        let domains = rules::parse("rules.yaml", RULES).unwrap_or_else(|report| panic!("{report}")).domains;
        let memory = Arc::new(MemoryStore::bounded(1 << 20));
        let store = Fallback::new(store, memory);
        Self(Engine::with_store(domains, store, SystemClock::default()).unwrap())
    }

    /// Decides one request of one user, without a runtime.
    pub fn decide_blocking(&self) -> EngineDecision {
        let entries = [Entry { key: "user", value: "ann" }];
        let descriptors = [Descriptor::new(&entries, 1)];
        let request = Request { domain: "api", descriptors: &descriptors };
        let answer = self.0.decide_blocking(&request).unwrap().answer;
        EngineDecision { passes: answer.kind.passes(), degraded: answer.degraded }
    }
}
