//! All integration tests of the lab, in one binary: each further binary would be linked by itself.

mod pictures;
mod snapshot;
mod snapshot_kill;
mod spray;
