//! Runs the binary.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// What a run left behind.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs `tidegate` with these arguments and this standard input.
pub fn tidegate(args: &[&str], input: impl AsRef<[u8]> + Send) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    // Written beside the reading, for neither pipe holds a whole trace.
    let Output { status, stdout, stderr } = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A run that ends at a bad line does not read the rest.
            let _ = stdin.write_all(input.as_ref());
        });
        child.wait_with_output().expect("it ends")
    });
    let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
    Run { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// The arguments of `trace` with these limits.
pub fn trace_args<'a>(limits: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    let limits = limits.iter().flat_map(|limit| ["--limit", limit]);
    std::iter::once("trace").chain(limits).chain(rest.iter().copied()).collect()
}

/// One request of the key `k` and the line that it is answered with.
pub struct Step {
    pub at_ms: u64,
    pub cost: u64,
    pub answer: &'static str,
}

/// `at_ms` milliseconds, `cost` units: `answer`.
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
