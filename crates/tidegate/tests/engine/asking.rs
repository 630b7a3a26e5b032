//! How these tests ask: an engine over its own store, at once.

use std::sync::Arc;

use tidegate::rules::{Answer, Domain, Request};
use tidegate::{
    Engine, Explanation, Lease, LeaseToken, MemoryStore, Nanos, PlanFull, Release, Renewal, Timer,
};

pub type TestEngine<C> = Engine<C>;

pub fn engine<C: Timer>(domains: Vec<Domain>, clock: C) -> TestEngine<C> {
    Engine::over(domains, Arc::new(MemoryStore::bounded(1 << 20)), clock).unwrap()
}

pub fn check<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    told: impl FnOnce(&Answer) -> R,
) -> Result<R, PlanFull> {
    engine.check(request).map(|answer| told(&answer))
}

pub fn peek<C: Timer, R>(engine: &Engine<C>, request: &Request<'_>, told: impl FnOnce(&Answer) -> R) -> R {
    told(&engine.peek(request).unwrap())
}

pub fn explain<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    explained: impl FnOnce(&Explanation) -> R,
) -> R {
    explained(&engine.explain(request).unwrap())
}

pub fn refund<C: Timer>(engine: &Engine<C>, request: &Request<'_>) {
    engine.refund(request).unwrap();
}

pub fn reset<C: Timer>(engine: &Engine<C>, request: &Request<'_>) {
    engine.reset(request).unwrap();
}

pub fn acquire<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    ttl: Option<Nanos>,
    told: impl FnOnce(&Answer) -> R,
) -> (R, Option<Lease>) {
    let (answer, lease) = engine.try_acquire(request, ttl).unwrap();
    (told(&answer), lease)
}

pub fn renew<C: Timer>(engine: &Engine<C>, request: &Request<'_>, token: &LeaseToken) -> Renewal {
    engine.renew(request, token, None).unwrap()
}

pub fn release<C: Timer>(engine: &Engine<C>, request: &Request<'_>, token: &LeaseToken) -> Release {
    engine.release(request, token).unwrap()
}
