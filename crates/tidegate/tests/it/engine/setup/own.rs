//! How these tests ask: an engine over its own store, at once.

use std::sync::Arc;

use tidegate::rules::{Answer, Domain, Request};
use tidegate::{
    Engine, Explanation, Lease, LeaseToken, MemoryStore, Nanos, PlanFull, Release, Renewal, Timer,
};

pub fn engine<C: Timer>(domains: Vec<Domain>, clock: C) -> Engine<C> {
    Engine::over(domains, Arc::new(MemoryStore::bounded(1 << 20)), clock).unwrap()
}

pub fn check<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    told: impl FnOnce(&Answer<'_>) -> R,
) -> Result<R, PlanFull> {
    engine.in_force().check(request).map(|answer| told(&answer))
}

pub fn peek<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    told: impl FnOnce(&Answer<'_>) -> R,
) -> R {
    told(&engine.in_force().peek(request).unwrap())
}

pub fn explain<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    explained: impl FnOnce(&Explanation<'_>) -> R,
) -> R {
    explained(&engine.in_force().explain(request).unwrap())
}

pub fn refund<C: Timer>(engine: &Engine<C>, request: &Request<'_>) {
    engine.in_force().refund(request).unwrap();
}

pub fn reset<C: Timer>(engine: &Engine<C>, request: &Request<'_>) {
    engine.in_force().reset(request).unwrap();
}

pub fn acquire<C: Timer, R>(
    engine: &Engine<C>,
    request: &Request<'_>,
    ttl: Option<Nanos>,
    told: impl FnOnce(&Answer<'_>) -> R,
) -> (R, Option<Lease>) {
    let rules = engine.in_force();
    let (answer, lease) = rules.acquire(request, ttl).unwrap();
    (told(&answer), lease)
}

pub fn renew<C: Timer>(engine: &Engine<C>, request: &Request<'_>, token: &LeaseToken) -> Renewal {
    engine.in_force().renew(request, token, None).unwrap()
}

pub fn release<C: Timer>(engine: &Engine<C>, request: &Request<'_>, token: &LeaseToken) -> Release {
    engine.in_force().release(request, token).unwrap()
}
