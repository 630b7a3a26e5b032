//! Rules over a store that a fleet shares: what only a shared store can do. It answers later, or not at all, and other
//! processes use it too.
//!
//! The store is a memory store that stands for the shared one. What holds over any store is tested in `engine`.

mod store_calls;
mod fleet;
mod later;
mod leases;
mod queues;
mod concurrent_requests;
mod store_failure;
