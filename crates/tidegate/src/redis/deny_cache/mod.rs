//! Denials without a call, as long as Redis would certainly deny.
//!
//! After a denial the cache keeps the states that Redis decided by, and the server's time at that moment.
//! Unless units are refunded, usage only grows. And on an unchanged state every algorithm denies the same
//! cost until some instant and not after it. (The exceptions are limits that count denied attempts and limits
//! that hold leases.) So the cache computes the latest possible time of Redis now: the time of the reply plus
//! everything that passed since the call was sent. If the kept states deny a cost at that time, Redis would
//! deny it too.
//!
//! This node does not see refunds and resets by other nodes, so entries live for at most
//! [`ENTRY_AGE_NS_MAX`](cache::ENTRY_AGE_NS_MAX).

mod cache;
mod shard;
#[cfg(test)]
mod tests;

pub(crate) use cache::{DenialCaching, DenyCache, ReplyTime, STATE_HEAP_BYTES_MAX, StatesBefore};
