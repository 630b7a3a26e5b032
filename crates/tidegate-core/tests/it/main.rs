//! All integration tests of the core, in one binary: each further binary would be linked by itself.
//!
//! `models` has the plainest model of each algorithm; `subject` drives the algorithm that is compared with it.

mod edges;
mod golden;
mod ledger;
mod levels;
mod limit_text;
mod matching;
mod models;
mod plan_and_decision;
mod properties;
mod states;
mod subject;
mod succession;
