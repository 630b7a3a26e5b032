//! Engines over one store.

use std::sync::Arc;

use tidegate::store::NodeStore;
use tidegate::{Engine, ManualClock, MemoryStore};

use crate::engine::bench::{domains, with_request};
use crate::engine::delay::{SLOW, decide, finished_ms, rules};
use crate::engine::setup::shared::expect_ready;
use crate::executor::Executor;

#[test]
fn a_refund_through_another_engine_wakes_the_waiter() {
    let clock = ManualClock::default();
    let store = Arc::new(MemoryStore::bounded(1 << 20));
    let engine = || {
        let store = NodeStore::Local(store.clone());
        Engine::with_store(domains(&rules(SLOW)), store, clock.clone()).unwrap()
    };
    let (one, other) = (engine(), engine());
    let mut tasks = Executor::new(&clock);
    let all = [(); 2].map(|()| tasks.spawn(decide(&one, "user=1", 1)));
    tasks.run_woken();
    assert_eq!(finished_ms(&tasks, &all), [Some(0), None]);
    with_request("user=1", 1, |request| expect_ready(other.refund(request, None)).unwrap());
    tasks.run_woken();
    assert_eq!(finished_ms(&tasks, &all), [Some(0), Some(0)]);
}
