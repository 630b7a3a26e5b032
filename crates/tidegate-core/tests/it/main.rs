//! All integration tests of the core, in one binary: each further binary would be linked by itself.
//!
//! `models` has the plainest model of each algorithm; `subject` drives the algorithm that is compared with it.

mod edges;
mod golden;
mod headers;
mod key_bytes;
mod ledger;
#[cfg(feature = "rules")]
mod levels;
mod limit_text;
#[cfg(feature = "rules")]
mod matching;
mod models;
mod plan_and_decision;
mod properties;
mod states;
mod subject;
mod succession;
