//! Leases and locks: who holds what, until when, and what they hear who hold it no more.

mod operations;
mod as_log;
mod guards;
mod locks;
mod memory;
mod model;
mod several_limits;
