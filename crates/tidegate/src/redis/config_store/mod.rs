//! The config store on the Redis or Valkey that also has the counters (features `redis` and `rules`).
//!
//! ```text
//! store.rs        RedisConfigStore, and its reads of single keys
//! shard.rs        which shard has a key, and the names of a shard's keys in Redis
//! write.rs        writes, in calls of bounded size                        ../lua/config_write.lua
//! changes.rs      changes after a version, from the logs of all shards    ../lua/config_changes.lua
//! scan.rs         pages of entries in byte order, from all shards         ../lua/config_scan.lua
//! call.rs         sends commands to shards, on the connections of the counters
//! error.rs        what an error of Redis means for the caller
//! persistence.rs  whether Redis keeps its data
//! ```
//!
//! # Layout
//!
//! There are always 16 shards, whatever the topology. A hash of the key chooses the shard. Each shard has four keys in
//! Redis, with one hash tag, so they are in one slot of a cluster and one script can change them together:
//!
//! ```text
//! tg:1config{3.8}values  hash        key -> "<version> <value>"
//! tg:1config{3.8}keys    sorted set  the same keys in byte order, for scans
//! tg:1config{3.8}log     stream      <version>-0 -> the key that changed; bounded
//! tg:1config{3.8}state   hash        clock, start
//! ```
//!
//! A value, its version, its place in the index and its log entry are written by one script, so they are always
//! consistent: a reader never sees a value that the log does not list, or the other way around.
//!
//! One hash tag for everything would be simpler: one counter would give the versions. But then one Redis server would
//! hold all entries and serve all reads, and a billion entries of 350 bytes do not fit one server. The number of shards is
//! fixed because a key must be found by nodes of every version. The tags are chosen so that the slots are spread evenly:
//! a cluster with up to 16 masters gets nearly the same number of shards on each.
//!
//! A ring places each shard by its own hashing, and never moves it: while a member is away, its shards are unavailable.
//! If the list of members changes, shards move and start empty: export first, and import afterwards.
//!
//! # One version for all shards
//!
//! A caller continues to read changes from one number. Shards give versions independently, so this number must have
//! the same meaning in all of them. Each shard has a clock, as Lamport described it: it is at least the greatest
//! version that the shard has given, and all later versions are greater. A reader
//!
//! 1. reads the log and the clock of each shard,
//! 2. raises the clocks of the shards that lag behind to the greatest clock, and reads their logs again,
//! 3. returns the least clock as the number to continue from.
//!
//! No shard can later list a change up to this number. So nothing is missed, nothing has to be read twice, and the
//! clocks of the servers do not have to agree. If nothing was written, all clocks are equal: a poll is one round trip
//! and writes nothing.
//!
//! Versions also contain the time of the server, for one reason only: a server that lost its data must not give the
//! same versions again. See `lua/config_version.lua`.
//!
//! # Lost data
//!
//! A reader that continues from V was told that every clock has reached V. If a clock is lower, or if the last log entry
//! that this handle has read is gone, then the shard lost data: `FLUSHALL`, a restart without persistence, or a failover to
//! a replica that lacked the last writes. The script then moves the shard's `start` above all versions, and every
//! reader that continues from less than `start` reports a gap. So all nodes notice a loss, not only the first. The same
//! happens if the log was trimmed beyond V.
//!
//! # What remains
//!
//! - Redis replicates asynchronously. A failover may lose writes that were reported as done; `wait_replicas` makes this
//!   rarer. Nodes report a gap and read everything again. They cannot notice the loss of a write that none of them has
//!   read from the log, but may have got with [`get`](crate::config::ConfigStore::get).
//! - Without persistence (`appendonly yes`), a restart of Redis loses everything: see
//!   [`RedisConfigStore::persistence_warning`].
//! - While a slot migrates, its shard is unavailable for moments, because scripts need all four keys (`TRYAGAIN`). The
//!   hash of a large shard moves in one step, which blocks both servers.

mod call;
mod changes;
mod error;
mod persistence;
mod scan;
mod shard;
mod store;
#[cfg(test)]
mod tests;
mod write;

pub use store::RedisConfigStore;

/// The scripts, in the order of [`ConfigScript`].
pub(super) const CONFIG_SCRIPTS: [&str; 3] = [
    concat!(include_str!("../lua/config_version.lua"), "\n", include_str!("../lua/config_write.lua")),
    concat!(include_str!("../lua/config_version.lua"), "\n", include_str!("../lua/config_changes.lua")),
    include_str!("../lua/config_scan.lua"),
];

/// A script of the config store.
#[derive(Clone, Copy, Debug)]
enum ConfigScript {
    Write = 0,
    Changes = 1,
    Scan = 2,
}
