//! All integration tests of the core, in one binary: each further binary would be linked by itself.
//!
//! `models` has the plainest model of each algorithm; `subject` drives the algorithm that is compared with it.

mod edge_cases;
mod golden;
mod headers;
mod key_bytes;
mod usage_log;
#[cfg(feature = "rules")]
mod descriptor_tree;
mod limit_text;
#[cfg(feature = "rules")]
mod matching;
mod models;
mod plan_and_decision;
mod properties;
mod packed_states;
mod subject;
mod migration;
