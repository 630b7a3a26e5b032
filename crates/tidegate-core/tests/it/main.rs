//! All integration tests of the core. They are one binary, because each further binary would be linked separately.
//!
//! `models` has the simplest possible model of each algorithm. `subject` drives the algorithm that is compared with it.

#[cfg(feature = "rules")]
mod descriptor_tree;
mod edge_cases;
mod golden;
mod headers;
mod key_bytes;
mod limit_text;
#[cfg(feature = "rules")]
mod matching;
mod migration;
mod models;
mod packed_states;
mod plan_and_decision;
mod properties;
mod subject;
mod usage_log;
