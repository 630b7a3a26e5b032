//! Engines over one store.

use std::sync::Arc;

use tidegate::store::NodeStore;
use tidegate::{Engine, ManualClock, MemoryStore};

use crate::engine::bench::{domains, with_request};
use crate::engine::delay::{SLOW, decide, done_ms, rules};
use crate::engine::setup::shared::done;
use crate::executor::Executor;

#[test]
fn what_is_given_back_to_another_engine_over_the_same_store_counts_too() {
    let clock = ManualClock::default();
    let store = Arc::new(MemoryStore::bounded(1 << 20));
    let engine = || {
        let store = NodeStore::Local(store.clone());
        Engine::over(domains(&rules(SLOW)), store, clock.clone()).unwrap()
    };
    let (one, other) = (engine(), engine());
    let mut tasks = Executor::new(&clock);
    let all = [(); 2].map(|()| tasks.spawn(decide(&one, "user=1", 1)));
    tasks.run_woken();
    assert_eq!(done_ms(&tasks, &all), [Some(0), None]);
    with_request("user=1", 1, |request| done(other.refund(request, None)).unwrap());
    tasks.run_woken();
    assert_eq!(done_ms(&tasks, &all), [Some(0), Some(0)]);
}
