//! The store on Redis, on real servers that the tests start and stop: what many processes share, what happens when Redis
//! does not answer, and where a plan's keys are in several places.

mod anywhere;
mod cluster;
mod coalescing;
mod deny_cache;
#[cfg(feature = "rules")]
mod engine;
mod exact;
mod failures;
mod heartbeats;
mod lazy;
mod leases;
mod limiters;
mod locks;
mod mixed;
mod ring;
mod runtime;
mod server;
mod setup;
mod split;
mod watching;
