//! Rules over a shared store: what only a shared store does. It answers later or not at all, and other processes use it
//! too.
//!
//! The store is a fake, with a memory store inside. What applies to any store is tested in `engine`.

mod concurrent_requests;
mod fleet;
mod leases;
mod modes;
mod queues;
mod slow_store;
mod store_calls;
mod store_failure;
