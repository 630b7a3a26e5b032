//! Leases in etcd (feature `etcd`): locks that survive the loss of a server, because a majority of etcd's members has
//! every lease before it is granted.
//!
//! # One etcd key per lease
//!
//! A lease that holds units of a limit's key is one key in etcd, below the name of the limit's key, attached to an etcd
//! lease. With several concurrency limits, a lease has one such key per limit, all attached to the same etcd lease.
//!
//! ```text
//! tg:1{door}Zm9vYmFyMTI/8c1f00a1b2c3d4e5  ->  "1 1794811234567890123 30000000000"
//!    the limit's key    /  the owner          units, end (a hint for other nodes), ttl
//! ```
//!
//! # Why a limit is exact
//!
//! To acquire, a node reads all leases of the key. If `held + cost <= L`, it writes its own in a transaction, which etcd
//! applies only if *no key in the range was created after the revision that was read*. Leases may have ended in between,
//! which leaves more room, but none was added. So `held + cost <= L` still holds when the transaction is applied, by
//! consensus of the members. If the transaction fails, its reply has the leases as they are now, and the node decides
//! again. A release only deletes keys, so it never conflicts with anything. The plainer way, one value with all holders
//! and a compare-and-swap, would make every release and every renewal conflict with every acquisition, and would need a
//! clock to say which holders have expired.
//!
//! # Who decides that a lease has expired
//!
//! The leader of etcd, by its own monotonic clock, and by consensus: it revokes the etcd lease, which deletes the keys.
//! No clock of a node takes part. After an election, the new leader gives all etcd leases their whole ttl again, so a
//! lease never ends too early, only later. The holder itself counts the ttl from the moment when it sent the call, so it
//! stops before etcd gives the units to another holder. The ttl of an etcd lease is in whole seconds and has a minimum
//! (1.5 election timeouts, 2 s by default). A shorter ttl is rounded up in etcd, and ends in time for its holder.
//!
//! A renewal is a keep-alive of the etcd lease, which writes nothing. A leader that was replaced, and does not know it
//! yet, may answer a keep-alive that its successor never sees. So the holder's keys are read after it, which only the
//! present leader can answer. The renewal counts only if both replies are of the same term.
//!
//! # Fencing tokens
//!
//! The fencing token of a lease is the revision of the transaction that created it, plus a base. Revisions grow with
//! every write to etcd, by consensus, so a later lease of any key has a higher token. The base is the time in
//! microseconds when the namespace was first used, as one key in etcd. So tokens also grow over the loss of all data of
//! etcd, and when a fleet moves from Redis to etcd, whose tokens are times in microseconds.
//!
//! # Calls without a reply
//!
//! If the reply of a transaction is lost, its effect is unknown. It is sent again, to another member. If the first one was
//! applied, the second one fails, and its reply has the node's own key. If the node gives up, it revokes the etcd lease:
//! this deletes what was written, and makes a transaction fail that arrives later.
//!
//! ```text
//! store.rs      EtcdStore: the store interface, deadlines, bounds
//! operation.rs  acquire and peek; change.rs: renew, release and reset
//! plan.rs       a plan with owned data, and the names of its keys
//! snapshot.rs   the leases of a plan's keys at a revision, and what the limits say about them
//! granted.rs    an etcd lease that is revoked unless it is kept
//! client.rs     calls to the members; endpoint.rs: HTTP/1.1 to one of them
//! message.rs    the JSON of transactions
//! url.rs settings.rs stats.rs
//! ```

mod change;
mod client;
mod endpoint;
mod error;
mod granted;
mod message;
mod operation;
mod plan;
mod settings;
mod snapshot;
mod stats;
mod store;
mod url;

pub use error::EtcdError;
pub use settings::EtcdSettings;
pub use stats::EtcdStats;
pub use store::EtcdStore;
pub use url::{EtcdUrl, EtcdUrlError};

pub use crate::tls::ClientCertificate;

/// [`Locks`](crate::Locks) that are in etcd.
pub type EtcdLocks<C = crate::SystemClock> = crate::Locks<C, crate::store::Fallback<EtcdStore>>;
/// A lock that is held in etcd.
pub type EtcdLockGuard<C = crate::SystemClock> = crate::LockGuard<C, crate::store::Fallback<EtcdStore>>;
