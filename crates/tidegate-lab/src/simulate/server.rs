//! A server of the shared store: the real memory store behind a clock of its own.

use std::sync::Arc;

use tidegate::MemoryStore;
use tidegate::store::{Reply, Response, Store};

use super::clocks::ServerClock;
use super::owned_ask::OwnedAsk;

/// The simulated keys are few. A page of the table has room for all of them.
const MEMORY_BYTES: u64 = 1 << 20;
/// Room for some million keys.
const MANY_KEYS_BYTES: u64 = 256 << 20;

pub(super) struct Server {
    memory: Arc<MemoryStore>,
    pub(super) clock: ServerClock,
    /// All writes with the server's time, if a failover will lose some of them.
    log: Option<Vec<(u64, OwnedAsk)>>,
}

impl Server {
    pub(super) fn new(clock: ServerClock, keeps_log: bool) -> Self {
        Self { memory: new_memory(), clock, log: keeps_log.then(Vec::new) }
    }

    pub(super) fn for_many_keys(clock: ServerClock) -> Self {
        Self { memory: Arc::new(MemoryStore::bounded(MANY_KEYS_BYTES)), clock, log: None }
    }

    pub(super) fn apply(&mut self, true_ns: u64, ask: &OwnedAsk) -> Reply {
        let now_ns = self.clock.at(true_ns);
        if let Some(log) = &mut self.log {
            log.push((now_ns, ask.clone()));
        }
        ask_memory(&self.memory, now_ns, ask)
    }

    /// A replica takes over that has not seen the last writes.
    pub(super) fn lose_writes(&mut self, number: usize) {
        let Some(log) = &mut self.log else { return };
        log.truncate(log.len().saturating_sub(number));
        self.memory = new_memory();
        for (now_ns, ask) in log {
            ask_memory(&self.memory, *now_ns, ask);
        }
    }
}

fn new_memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::bounded(MEMORY_BYTES))
}

fn ask_memory(memory: &Arc<MemoryStore>, now_ns: u64, ask: &OwnedAsk) -> Reply {
    match ask.with_ask(now_ns, |ask| memory.ask(ask)) {
        Response::Now(Ok(reply)) => reply,
        _ => panic!("the memory store answers at once"),
    }
}
