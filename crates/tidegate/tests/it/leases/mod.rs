//! Leases and locks.

mod conformance;
mod guards;
mod locks;
mod memory;
mod model;
mod operations;
mod several_limits;
