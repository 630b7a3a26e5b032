//! Rules over a store: the answers to requests.
//!
//! Tests that apply to an engine over its own store and over a shared one run over both, see `setup`. `local_store` and
//! `stats` have the tests for its own store only, `engine_fleet` those for a shared one.

mod acquire;
mod actions;
mod answers;
pub mod delay;
mod explain;
pub mod fixture;
mod keys;
mod leases;
mod local_store;
mod model;
mod overrides;
mod request_limits;
mod rule_changes;
pub mod setup;
pub mod shared_engine;
mod stats;
