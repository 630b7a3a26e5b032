//! Counters in Redis or Valkey, shared by a fleet (feature `redis`).
//!
//! ```text
//! Plan -> Order -> desk of its server -> Call -> servers -> Redis -> reply, played by the core's algorithms -> Settled
//! ```
//!
//! `order` is a plan that can wait. `script` is what is said to Redis and what its reply means. `servers` knows which
//! server has which keys, and talks to them. A `desk` for each server gathers orders into calls. `store` puts it together.
//! `connect` makes a store, `runtime` is where its tasks run, `ticking` does periodic work, and `deadline` ends what takes too
//! long.

mod batch;
mod connect;
mod deadline;
mod deny_cache;
mod desk;
mod refunds;
mod heartbeat;
mod key_name;
mod leasing;
mod plan;
mod runtime;
mod script;
mod servers;
mod settings;
mod split;
mod stats;
mod store;
#[cfg(test)]
mod testing;
mod tick;
mod url;
mod watch;

pub use runtime::StoreRuntime;
pub use servers::{
    BreakerState, ConnectError, ConnectErrorKind, EventHook, ServerCounts, ServerStats, ServersStats,
    StoreEvent,
};
pub use settings::{ClientCertificate, RedisSettings};
pub use stats::{FailureCounts, StoreStats};
pub use store::RedisStore;
pub use tick::StoreTicks;
pub use url::{StoreUrl, UrlError};

/// A [`Limiter`](crate::Limiter) whose counters are in Redis.
pub type RedisLimiter<C = crate::SystemClock> = crate::Limiter<C, crate::store::Fallback<RedisStore>>;
/// [`Locks`](crate::Locks) that are in Redis.
pub type RedisLocks<C = crate::SystemClock> = crate::Locks<C, crate::store::Fallback<RedisStore>>;
/// A lock that is held in Redis.
pub type RedisLockGuard<C = crate::SystemClock> = crate::LockGuard<C, crate::store::Fallback<RedisStore>>;
