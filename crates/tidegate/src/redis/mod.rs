//! Counters in Redis or Valkey, shared by many nodes (feature `redis`), and config data beside them (with `rules`).
//!
//! ```text
//! Plan -> RedisPlan -> Batcher of its server -> Call -> topology -> connection -> Redis
//!      -> states -> replayed by the core -> Reply
//! ```
//!
//! - `plan` is a plan with owned data, so it can wait in a queue. `key_name` builds the names of its keys.
//! - `batcher` groups the plans that wait for one Redis server into calls of the script.
//! - `script` writes those calls and reads the replies. `lua/` is the script itself.
//! - `topology` knows which server has which keys, and `connection` talks to one server.
//! - `split` decides plans whose keys are in several slots or servers, `leases` handles leases, `lease_seal`
//!   seals their tokens, and `refunds` gives charges back.
//! - `deny_cache` repeats a denial without a call. `watch` receives messages about released units.
//! - `config_store` keeps config data on the same servers (feature `rules`).
//! - `store` puts these parts together. `connect` builds a store, `runtime` chooses where its tasks run,
//!   `tick` does periodic work, and `deadline` ends calls that take too long.
//!
//! Lua decides which plans are admitted and writes the new states. It does not compute what remains or when
//! to retry: the core's own algorithms do that from the states that the script returns (`script`). So each
//! algorithm reports in one place only, and a script that decides differently from the core is detected at
//! once.
//!
//! While Redis does not reply, [`Fallback`](crate::store::Fallback) decides: each charge has a policy for
//! that.

mod batcher;
#[cfg(feature = "rules")]
mod config_store;
mod connect;
mod connection;
mod deadline;
mod deny_cache;
mod heartbeat;
mod key_name;
mod lease_seal;
mod leases;
mod plan;
mod refunds;
mod runtime;
mod script;
mod settings;
mod split;
mod stats;
mod store;
#[cfg(test)]
mod testing;
mod tick;
mod topology;
mod url;
mod watch;

#[cfg(feature = "rules")]
pub use config_store::RedisConfigStore;
pub use connection::{
    BreakerState, ConnectError, ConnectErrorKind, EventHook, ServerCounts, ServerStats, ServersStats,
    StoreEvent, WriteState,
};
pub use runtime::StoreRuntime;
pub use settings::RedisSettings;
pub use stats::{FailureCounts, StoreStats};
pub use store::RedisStore;
pub use tick::StoreTicks;
pub use url::{StoreUrl, UrlError};

pub use crate::tls::ClientCertificate;

/// A [`Limiter`](crate::Limiter) whose counters are in Redis.
pub type RedisLimiter<C = crate::SystemClock> = crate::Limiter<C, crate::store::Fallback<RedisStore>>;
/// [`Locks`](crate::Locks) that are in Redis.
pub type RedisLocks<C = crate::SystemClock> = crate::Locks<C, crate::store::Fallback<RedisStore>>;
/// A lock that is held in Redis.
pub type RedisLockGuard<C = crate::SystemClock> = crate::LockGuard<C, crate::store::Fallback<RedisStore>>;
