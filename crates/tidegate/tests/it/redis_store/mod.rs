//! The store on Redis, with real servers that the tests start and stop: limits shared by many nodes, a Redis
//! that does not reply, and plans whose keys are on several servers.

mod cluster;
mod coalescing;
#[cfg(feature = "rules")]
mod config_store;
mod deny_cache;
#[cfg(feature = "rules")]
mod engine;
mod exact_limits;
mod failures;
mod heartbeats;
#[cfg(feature = "tower")]
mod layer;
mod lazy_connect;
mod leases;
mod limiters;
mod locks;
mod mixed;
mod modes;
mod replicas;
mod ring;
mod runtime;
mod server;
mod setup;
mod split;
mod watch;
mod without_runtime;
