//! Runs `tidegate trace`.

pub use crate::support::{Run, tidegate};

/// The arguments of `trace` with these limits.
pub fn trace_args<'a>(limits: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    let limits = limits.iter().flat_map(|limit| ["--limit", limit]);
    std::iter::once("trace").chain(limits).chain(rest.iter().copied()).collect()
}

/// One request for the key `k` and the expected output line.
pub struct Step {
    pub at_ms: u64,
    pub cost: u64,
    pub answer: &'static str,
}

/// A request of `cost` units at `at_ms` must give `answer`.
pub fn step(at_ms: u64, cost: u64, answer: &'static str) -> Step {
    Step { at_ms, cost, answer }
}

/// Replays the steps and compares every decision.
#[track_caller]
pub fn assert_decisions(limits: &[&str], steps: &[Step]) {
    let line = |step: &Step| format!("{} k {}\n", step.at_ms * 1_000_000, step.cost);
    let trace: String = steps.iter().map(line).collect();
    let expected: String = steps.iter().map(|step| format!("{}\n", step.answer)).collect();
    let run = tidegate(&trace_args(limits, &["--decisions", "-"]), &trace);
    assert_eq!(run, Run { code: Some(0), out: expected, err: String::new() }, "{limits:?}\n{trace}");
}
