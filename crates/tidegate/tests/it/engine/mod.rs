//! Rules over a store: what requests are told.
//!
//! Tests that hold for an engine over its own store and over a shared one run over both, see `setup`. `own_store` and
//! `census` have those of its own store alone, `engine_fleet` those of a shared one.

mod acquire;
mod actions;
mod answers;
pub mod bench;
mod stats;
mod changes;
pub mod delay;
mod explain;
mod leases;
mod keys;
mod model;
mod request_limits;
mod own_store;
pub mod setup;
