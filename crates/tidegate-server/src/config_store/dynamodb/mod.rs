//! The config store on DynamoDB's API (feature `dynamodb`): one table, which all nodes of a fleet share.
//!
//! ```text
//! store.rs        DynamoConfigStore, and its reads of single keys
//! scan.rs         pages of entries in byte order, from all buckets
//! changes.rs      changes after a version, from the log
//! writer.rs       the task that writes: shares transactions, and follows the head
//! transaction.rs  the body of one transaction
//! item.rs         the items of the table, to and from JSON
//! table.rs        keys and attributes, and how the table is created
//! reads.rs        reads of items
//! client.rs       signed requests with deadlines and further attempts
//! backoff.rs      waits between attempts
//! signature.rs    AWS Signature Version 4
//! credentials.rs  keys from the environment, the container or the instance
//! error.rs        errors of DynamoDB, with hints
//! url.rs          dynamodb://TABLE?region=REGION
//! ```
//!
//! # Layout
//!
//! ```text
//! pk   sk                    other attributes
//! v0   the key               ver, val                the values, in 16 buckets by a hash of the key: v0 to vf
//! log  00001767225600000123  prev, keys, exp         the keys that one transaction changed
//! log  head                  ver                     the greatest version
//! ```
//!
//! A write is one transaction (`TransactWriteItems`). It moves the head, with the condition that no other transaction has
//! moved it; puts one log entry; and puts or deletes up to 98 values, each with its own condition. So versions grow over all
//! nodes, and the log has no branches. A transaction that is cancelled because the head has moved returns the new head, and
//! is tried again. A condition of a value that did not hold returns the version of the value, and the other writes are tried
//! again without it.
//!
//! One head for the whole store bounds the writes: one transaction at a time over all nodes, and the 1,000 write units per
//! second that DynamoDB gives the partition `log`. A transaction of 98 writes with keys of 60 bytes takes 14 of them, so at
//! most 7,000 overrides per second can be imported. With several logs, as in the store on Redis, the nodes together could
//! write more, but each poll of each node would read every log, and DynamoDB bills each read. Overrides are changed seldom,
//! and polls never stop.
//!
//! Nodes that write at the same time compete for the head. Each one pauses after a transaction, so that another can go first,
//! and tries with fewer writes after it has lost.
//!
//! # Why nothing is missed
//!
//! DynamoDB applies the items of a transaction one after the other. A read of several items, or two reads, may find some
//! of them and not yet others; only `TransactGetItems` waits for a transaction that is being applied. Therefore:
//!
//! - A log entry has the version of the entry before it (`prev`). A reader continues only with the entry that follows what
//!   it has read. If one is missing, it reads this entry with `TransactGetItems`: either it is there and the log is read again,
//!   or it was deleted, which is a gap.
//! - For 10 s after a node has read a change, [`get`](tidegate::config::ConfigStore::get) reads with `TransactGetItems`. So a
//!   node that gets a key after the log has listed it never gets the old value. At other times `GetItem` is enough, which is
//!   faster: a change that it does not see yet will be listed later.
//! - A scan cannot be a transaction. A reader that starts gets the last eight transactions of the log again, so it reads keys
//!   whose values the scan may have missed. One that scans again later remembers the keys that changed last.
//!
//! # Versions
//!
//! A version is the greater of the head plus one and the time in microseconds. The time is in it for one reason only: a table
//! that is restored from a backup must not give the same versions again. The versions of a transaction are consecutive,
//! and the version of a log entry is that of its last key. A reader whose version lies where no transaction was reports a gap.
//!
//! # Why it has no AWS SDK
//!
//! The store needs seven operations of one service. `aws-sdk-dynamodb` and `aws-config` are 180 crates. They took 74 s of wall
//! time and 133 s of CPU time to build (profile `dev`, two cores that other builds used too), and their TLS is aws-lc, which
//! `deny.toml` bans. This module is 2,000 lines, with its tests, and the feature adds one small crate, base64.

mod backoff;
mod changes;
mod client;
mod credentials;
mod error;
mod item;
mod reads;
mod scan;
mod signature;
mod store;
mod table;
mod transaction;
mod url;
mod writer;

pub use store::DynamoConfigStore;
pub use url::{DynamoSettings, MissingTable};
