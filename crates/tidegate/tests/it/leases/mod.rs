//! Leases and locks: who holds what, until when, and what they hear who hold it no more.

mod answers;
mod as_log;
mod holding;
mod locks;
mod memory;
mod model;
mod together;
