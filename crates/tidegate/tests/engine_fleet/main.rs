//! Rules over a store that a fleet shares: what requests are told, whether that store answers or not.
//!
//! All that is tested of an engine over its own store is tested here again, over a store that stands for the shared one
//! and that is a memory store itself; what differs is how it is asked, `asking.rs`. The rest is what only a shared store
//! has: it answers later, or not at all, and others ask it too.
#![cfg(feature = "rules")]

#[path = "../engine/actions.rs"]
mod actions;
#[path = "../engine/answers.rs"]
mod answers;
mod asked;
mod asking;
#[path = "../engine/bench.rs"]
mod bench;
#[path = "../engine/changes.rs"]
mod changes;
#[path = "../engine/delay/mod.rs"]
mod delay;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../waiting/executor.rs"]
mod executor;
#[path = "../engine/explaining.rs"]
mod explaining;
mod fleet;
#[path = "../engine/holding/mod.rs"]
mod holding;
#[path = "../engine/keys.rs"]
mod keys;
mod later;
mod leases;
mod lines;
#[path = "../engine/model.rs"]
mod model;
#[path = "../engine/overrides.rs"]
mod overrides;
mod remote;
mod together;
mod without;
