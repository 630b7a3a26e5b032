//! Limiters and locks over a shared store. The store is a fake: it answers immediately, later, or not at all.

mod locks;
mod reservations;
mod same_as_memory;
mod send_futures;
mod store_failure;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate::store::Fallback;
use tidegate::{Limiter, LimiterBuilder, ManualClock, MemoryStore, Timestamp};
use tidegate_testing::fake_store::FakeStore;

const KEY: &str = "key";

type TestStore = Fallback<FakeStore<ManualClock>>;

/// The start of all tests, in the middle of every window.
fn start() -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_123_456_789)
}

/// A node of a fleet that shares a store.
fn node(remote: &FakeStore<ManualClock>) -> TestStore {
    Fallback::new(remote.clone(), Arc::new(MemoryStore::bounded(1 << 20)))
}

fn builder(
    limits: &[&str],
    remote: &FakeStore<ManualClock>,
    clock: &ManualClock,
) -> LimiterBuilder<ManualClock, TestStore> {
    let builder = Limiter::builder().store(node(remote)).clock(clock.clone());
    limits.iter().fold(builder, |builder, limit| builder.limit(*limit))
}

fn limiter(
    limits: &[&str],
    remote: &FakeStore<ManualClock>,
    clock: &ManualClock,
) -> Limiter<ManualClock, TestStore> {
    builder(limits, remote, clock).build().unwrap()
}

/// The output of a future that need not wait.
fn expect_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store answers immediately"),
    }
}
