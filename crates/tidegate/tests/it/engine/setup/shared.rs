//! How these tests ask: an engine over a store that stands for the one that a fleet shares.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate::rules::{Answer, Domain, Request};
use tidegate::{
    Engine, Explanation, Lease, LeaseToken, MemoryStore, Nanos, PlanFull, Release, Renewal, Timer,
};

use tidegate_testing::remote::Remote;

pub fn engine<C: Timer + Clone + Send + Sync + 'static>(domains: Vec<Domain>, clock: C) -> Engine<C> {
    engine_sharing(domains, clock.clone(), Remote::new(clock))
}

/// An engine over this shared store.
pub fn engine_sharing<C, D>(domains: Vec<Domain>, clock: C, remote: Remote<D>) -> Engine<C>
where
    C: Timer,
    D: Timer + Clone + Send + Sync + 'static,
{
    let own = Arc::new(MemoryStore::bounded(1 << 20));
    Engine::over(domains, own, clock).unwrap().sharing(Arc::new(remote))
}

/// Decides a request. One that would be held is dropped at once, and told what it would have to wait for.
pub fn check<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    told: impl FnOnce(&Answer<'_>) -> R,
) -> Result<R, PlanFull> {
    let told = std::cell::Cell::new(Some(told));
    let tell = |answer: &Answer<'_>| told.take().expect("told once")(answer);
    let decided = at_once(engine.decide(request, |decided| tell(&decided.answer)));
    decided.unwrap_or_else(|| Ok(peek(engine, request, tell)))
}

pub fn peek<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    told: impl FnOnce(&Answer<'_>) -> R,
) -> R {
    done(engine.peek(request, told)).unwrap()
}

pub fn explain<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    explained: impl FnOnce(&Explanation<'_>) -> R,
) -> R {
    done(engine.explain(request, explained)).unwrap()
}

pub fn refund<C: Timer>(engine: &Engine<C>, request: &Request<'_>) {
    done(engine.refund(request)).unwrap();
}

pub fn reset<C: Timer>(engine: &Engine<C>, request: &Request<'_>) {
    done(engine.reset(request)).unwrap();
}

pub fn acquire<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    ttl: Option<Nanos>,
    told: impl FnOnce(&Answer<'_>) -> R,
) -> (R, Option<Lease>) {
    let told = std::cell::Cell::new(Some(told));
    let tell = |answer: &Answer<'_>| told.take().expect("told once")(answer);
    let acquired = at_once(engine.acquire(request, ttl, |decided| (tell(&decided.answer), decided.lease)));
    acquired.map_or_else(|| (peek(engine, request, tell), None), Result::unwrap)
}

pub fn renew<C: Timer>(engine: &Engine<C>, request: &Request<'_>, token: &LeaseToken) -> Renewal {
    done(engine.renew(request, token, None)).unwrap()
}

pub fn release<C: Timer>(engine: &Engine<C>, request: &Request<'_>, token: &LeaseToken) -> Release {
    done(engine.release(request, token)).unwrap()
}

/// What a future comes to that has nothing to wait for.
pub fn done<T>(future: impl Future<Output = T>) -> T {
    at_once(future).expect("there is nothing to wait for")
}

/// What a future comes to, if it has nothing to wait for.
pub fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
