//! All integration tests of the lab, in one binary because every binary is linked separately.

mod pictures;
mod snapshot;
mod snapshot_kill;
mod spray;
