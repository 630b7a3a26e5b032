//! What the tests of several crates share.

#![allow(missing_docs, reason = "only tests read it")]
#![allow(clippy::new_without_default, clippy::must_use_candidate, reason = "only tests call it")]

pub mod cases;
pub mod golden_file;
pub mod redis_server;
#[cfg(feature = "remote")]
pub mod remote;

pub use cases::proptest_config;
