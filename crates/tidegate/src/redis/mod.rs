//! Counters in Redis or Valkey, shared by a fleet (feature `redis`).
//!
//! ```text
//! Plan -> Order -> desk of its server -> Call -> servers -> Redis -> reply, played by the core's algorithms -> Settled
//! ```
//!
//! [`order`] is a plan that can wait. `script` is what is said to Redis and what its reply means. `servers` knows which
//! server has which keys, and talks to them. A `desk` for each server gathers orders into calls. `store` puts it together.

#[allow(dead_code, reason = "the skeleton")]
mod key_name;
#[allow(dead_code, reason = "the skeleton")]
mod order;
#[allow(dead_code, unused_imports, reason = "the skeleton")]
mod script;
mod settings;
mod url;

pub use settings::RedisSettings;
pub use url::StoreUrl;
