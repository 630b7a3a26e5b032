//! Rules over a store: what requests are told.
#![cfg(feature = "rules")]

mod actions;
mod answers;
mod bench;
mod changes;
mod explaining;
mod keys;
mod model;
