//! All integration tests of the lab, in one binary because every binary is linked separately.

mod config_store;
mod config_store_kill;
mod pictures;
mod simulate;
mod snapshot;
mod snapshot_kill;
mod spray;
