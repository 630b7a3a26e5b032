//! How these tests call an engine over a fake of a shared store.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate::rules::{Answer, Domain, Request};
use tidegate::store::{NodeStore, PlanFull, Store};
use tidegate::{Engine, EngineError, Lease, MemoryStore, Nanos, Timer};
use tidegate_testing::fake_store::FakeStore;

use super::setup::TestEngine;

pub fn engine<C: Timer + Clone + Send + Sync + 'static>(domains: Vec<Domain>, clock: C) -> TestEngine<C> {
    engine_over(domains, clock.clone(), FakeStore::new(clock))
}

/// An engine over this shared store.
pub fn engine_over<C, D>(domains: Vec<Domain>, clock: C, remote: FakeStore<D>) -> TestEngine<C>
where
    C: Timer,
    D: Timer + Clone + Send + Sync + 'static,
{
    let memory = Arc::new(MemoryStore::bounded(1 << 20));
    let remote: Arc<dyn Store> = Arc::new(remote);
    Engine::with_store(domains, NodeStore::shared(remote, memory), clock).unwrap()
}

/// Decides a request. One that would wait is dropped immediately, and its answer is that of a peek.
pub fn check<C: Timer + Send + Sync + 'static, R>(
    engine: &TestEngine<C>,
    request: &Request<'_>,
    read_answer: impl FnOnce(&Answer) -> R,
) -> Result<R, PlanFull> {
    match poll_once(engine.decide(request)) {
        Some(Ok(decided)) => Ok(read_answer(&decided.answer)),
        Some(Err(EngineError::PlanFull)) => Err(PlanFull),
        Some(Err(error)) => panic!("{error}"),
        None => Ok(peek(engine, request, read_answer)),
    }
}

pub fn peek<C: Timer + Send + Sync + 'static, R>(
    engine: &TestEngine<C>,
    request: &Request<'_>,
    read_answer: impl FnOnce(&Answer) -> R,
) -> R {
    read_answer(&expect_ready(engine.peek(request)).unwrap().answer)
}

pub fn acquire<C: Timer + Send + Sync + 'static, R>(
    engine: &TestEngine<C>,
    request: &Request<'_>,
    ttl: Option<Nanos>,
    read_answer: impl FnOnce(&Answer) -> R,
) -> (R, Option<Lease>) {
    match poll_once(engine.lease(request, ttl)).map(Result::unwrap) {
        Some(decided) => (read_answer(&decided.answer), decided.lease),
        None => (peek(engine, request, read_answer), None),
    }
}

/// The output of a future that need not wait.
pub fn expect_ready<T>(future: impl Future<Output = T>) -> T {
    poll_once(future).expect("there is nothing to wait for")
}

/// The output of a future, if it need not wait.
pub fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
