//! The store on Redis, on real servers that the tests start and stop: what many processes share, what happens when Redis
//! does not answer, and where a plan's keys are in several places.

mod without_runtime;
mod cluster;
mod coalescing;
mod deny_cache;
#[cfg(feature = "rules")]
mod engine;
mod exact_limits;
mod failures;
mod heartbeats;
mod lazy_connect;
mod leases;
mod limiters;
mod locks;
mod mixed;
mod ring;
mod runtime;
mod server;
mod setup;
mod split;
mod watch;
