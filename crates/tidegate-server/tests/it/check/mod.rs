//! `tidegate check`, `convert` and `schema`, run as a user runs them.

mod bad_input;
mod convert;
mod examples;
mod expectations;
mod explain;
mod help;
mod rules;

use crate::support::{Directory, Run, tidegate};

/// Exit code 0, with nothing on standard error.
#[track_caller]
fn assert_success(run: &Run) {
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
}

/// The JSON document on standard output.
#[track_caller]
fn json(run: &Run) -> serde_json::Value {
    assert_eq!(run.out.lines().count(), 1, "one document: {run:?}");
    run.out.parse().unwrap_or_else(|error| panic!("{error}: {run:?}"))
}
