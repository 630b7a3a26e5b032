//! The Redis servers of a store: which server has a key, and how to talk to it.
//!
//! The `redis` crate provides the protocol. Finding servers, circuit breakers and retries are written by hand,
//! because a charge must never be sent twice: only this code knows which errors say that nothing ran.
//!
//! ```text
//! Servers                     all servers of a store               servers.rs
//!   locate(tag)               which server and slot has a key      ring.rs, cluster/
//!   send(server, commands)    a pipeline, within the timeout       send.rs: reloads scripts, follows redirects
//! ```
//!
//! A single server, and the master that Sentinels know, have all keys. [`connection`](super::connection) talks
//! to one server and keeps it connected.
//!
//! A command without a reply may have run, so it is never sent again. There are two exceptions, in which
//! Redis says that nothing ran: the script was not loaded, or the key is on another server.

pub(crate) mod address_source;
mod cluster;
pub(crate) mod hash_slot;
pub(crate) mod location;
mod ring;
mod send;
mod sentinel;
mod servers;
#[cfg(test)]
mod tests;

pub(crate) use location::{KeyLocation, KeyMobility, ServerId};
pub(crate) use send::SentCommands;
pub(crate) use servers::Servers;
