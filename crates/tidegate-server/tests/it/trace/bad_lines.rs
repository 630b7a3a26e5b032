//! Invalid lines: the error names the line, the problem and the fix, and the exit code is 2.

use super::runner::{Run, tidegate, trace_args};

const FORMAT: &str = "a line is `<timestamp in ns> <key> <cost>`, like `1700000000000000000 user:7 1`";
const TIMESTAMPS: &str = "timestamps are whole nanoseconds, 0 or more: multiply seconds by 1000000000";
const COSTS: &str = "costs are whole numbers, 0 or more; most requests cost 1";

/// The third line of the trace is `line`. The first two are decided.
#[track_caller]
fn assert_bad(line: impl AsRef<[u8]>, problem: &str) {
    let trace = [b"1 k 1\n2 k 1\r\n", line.as_ref(), b"\n4 k 1\n"].concat();
    let run = tidegate(&trace_args(&["9/s"], &["--decisions", "-"]), &trace);
    let err = format!("error: <stdin>:3: {problem}\n");
    assert_eq!(run, Run { code: Some(2), out: "1 8 0 0\n1 7 0 0\n".into(), err });

    let run = tidegate(&trace_args(&["9/s"], &["-"]), &trace);
    let err = format!("error: <stdin>:3: {problem}\n");
    assert_eq!(run, Run { code: Some(2), out: String::new(), err }, "no summary of half a trace");
}

#[test]
fn missing_fields() {
    assert_bad("5", &format!("the key and the cost are missing in `5` (hint: {FORMAT})"));
    assert_bad("5 k", &format!("the cost is missing in `5 k` (hint: {FORMAT})"));
}

#[test]
fn too_many_fields() {
    let hint = format!("{FORMAT}; a key cannot contain blanks");
    assert_bad("5 k 1 1", &format!("more than three fields in `5 k 1 1` (hint: {hint})"));
}

#[test]
fn not_a_number() {
    assert_bad("now k 1", &format!("timestamp `now` is not a whole number (hint: {TIMESTAMPS})"));
    assert_bad("1.5 k 1", &format!("timestamp `1.5` is not a whole number (hint: {TIMESTAMPS})"));
    assert_bad("5 k 1e3", &format!("cost `1e3` is not a whole number (hint: {COSTS})"));
    assert_bad("5 k 0x1", &format!("cost `0x1` is not a whole number (hint: {COSTS})"));
}

#[test]
fn negative() {
    assert_bad("-5 k 1", &format!("timestamp `-5` is negative (hint: {TIMESTAMPS})"));
    assert_bad("5 k -1", &format!("cost `-1` is negative (hint: {COSTS})"));
}

#[test]
fn out_of_range() {
    let problem = "`18446744073709551616` is out of range (hint: the maximum is 18446744073709551615)";
    assert_bad("18446744073709551616 k 1", &format!("timestamp {problem}"));
    assert_bad("5 k 18446744073709551616", &format!("cost {problem}"));
}

#[test]
fn blank_lines_and_comments_inside() {
    assert_bad("", "the line is blank (hint: blank lines are allowed only at the end)");
    assert_bad(" \t\r", "the line is blank (hint: blank lines are allowed only at the end)");
    let hint = "remove comments, for example with grep -v '^#'";
    assert_bad("# k 1", &format!("`# k 1` is a comment (hint: {hint})"));
}

#[test]
fn shown_lines_are_shortened_and_escaped() {
    let shortened = "x".repeat(60);
    let problem = format!("timestamp `{shortened}…` is not a whole number (hint: {TIMESTAMPS})");
    assert_bad("x".repeat(61), &problem);
    let problem = format!("timestamp `\\u{{1b}}[2J\u{fffd}` is not a whole number (hint: {TIMESTAMPS})");
    assert_bad(b"\x1b[2J\xff k 1", &problem);
}

#[test]
fn lines_are_bounded() {
    let shortened = format!("1 {}", "k".repeat(58));
    let problem = format!("`{shortened}…` is longer than 65536 bytes (hint: {FORMAT})");
    assert_bad(format!("1 {} 1", "k".repeat(65_533)), &problem);
    // A very long line is not read into memory.
    assert_bad(format!("1 {} 1", "k".repeat(20_000_000)), &problem);

    let longest = format!("1 {} 1\r\n", "k".repeat(65_532));
    let run = tidegate(&trace_args(&["9/s"], &["--decisions", "-"]), longest);
    assert_eq!(run, Run { code: Some(0), out: "1 8 0 0\n".into(), err: String::new() });
}

#[test]
fn a_file_is_called_by_its_name() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let run = tidegate(&trace_args(&["9/s"], &[path]), "");
    assert_eq!(run.code, Some(2));
    let problem = format!("timestamp `[package]` is not a whole number (hint: {TIMESTAMPS})");
    assert_eq!(run.err, format!("error: {path}:1: {problem}\n"));
}
