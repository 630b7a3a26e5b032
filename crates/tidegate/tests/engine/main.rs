//! Rules over a store: what requests are told.
#![cfg(feature = "rules")]

mod actions;
mod answers;
mod asking;
mod bench;
mod census;
mod changes;
mod delay;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../waiting/executor.rs"]
mod executor;
mod explaining;
mod holding;
mod keys;
mod model;
mod overrides;
mod own_store;
