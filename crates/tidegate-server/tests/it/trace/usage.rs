//! The command line: help with examples, and errors with hints.

use std::io::Read;
use std::process::{Command, Stdio};

use tidegate::AlgorithmName;

use super::runner::{tidegate, trace_args};

#[test]
fn help_shows_every_algorithm_with_its_options() {
    let run = tidegate(&["trace", "--help"], "");
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    for algorithm in AlgorithmName::ALL {
        let name = algorithm.as_str();
        assert!(run.out.contains(&format!("\n  {name}  ")), "{name}");
        for option in algorithm.options() {
            assert!(run.out.contains(option), "{option} of {name}");
        }
    }
    let texts =
        ["<timestamp in ns> <key> <cost>", "Exit codes:", "Examples:", "printf", "--memory-max", "64 KiB"];
    for text in texts.into_iter().chain(["xz, gzip or zstd", "bounded only by the memory"]) {
        assert!(run.out.contains(text), "{text}");
    }
    let widest = run.out.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns");
}

#[test]
fn help_lists_the_commands() {
    let run = tidegate(&["-h"], "");
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert!(
        run.out.contains("Usage: tidegate") && run.out.contains("Without a command it serves"),
        "{}",
        run.out
    );
}

#[test]
fn version() {
    let run = tidegate(&["--version"], "");
    assert_eq!((run.code, run.out), (Some(0), format!("tidegate {}\n", env!("CARGO_PKG_VERSION"))));
}

/// The first line on standard error of a run that must exit with code 2 and print nothing.
#[track_caller]
fn usage_error(args: &[&str]) -> String {
    let run = tidegate(args, "0 k 1\n");
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    run.err.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn invalid_limits() {
    let refused = |limit| usage_error(&trace_args(&[limit], &["-"]));
    let unit = refused("10 per fortnght");
    let problem = "error: invalid value '10 per fortnght' for '--limit <SPEC>': unknown unit of time `fortnght` (hint: ";
    assert!(unit.starts_with(problem), "{unit}");
    assert_eq!(
        refused("{algorithm: sliding_windw, limit: 1, per: 1s}"),
        "error: invalid value '{algorithm: sliding_windw, limit: 1, per: 1s}' for '--limit <SPEC>': unknown \
         algorithm `sliding_windw` (hint: did you mean `sliding_window`?)"
    );
    assert_eq!(
        refused("{algorithm: sliding_log, limit: 1, per: 1s, burst: 2}"),
        "error: invalid value '{algorithm: sliding_log, limit: 1, per: 1s, burst: 2}' for '--limit <SPEC>': `burst` \
         does not go with algorithm sliding_log (hint: leave it out, or use algorithm: gcra or token_bucket)"
    );
    assert_eq!(
        refused("{algorithm: fixed_window, limit: 1, per: day, align: {tz: Europe/Pari}}"),
        "error: invalid value '{algorithm: fixed_window, limit: 1, per: day, align: {tz: Europe/Pari}}' for \
         '--limit <SPEC>': unknown time zone `Europe/Pari` (hint: did you mean `Europe/Paris`?)"
    );
}

#[test]
fn invalid_sizes() {
    let refused = |size| usage_error(&trace_args(&["1/s"], &["--memory-max", size, "-"]));
    assert_eq!(
        refused("64M"),
        "error: invalid value '64M' for '--memory-max <SIZE>': unknown unit of size `M` (hint: write for example \
         64MiB, 1GiB, 500MB or a plain number of bytes)"
    );
    assert_eq!(
        refused("1000"),
        "error: invalid value '1000' for '--memory-max <SIZE>': 1KB is too small (hint: the minimum is 1MiB)"
    );
}

#[test]
fn missing_arguments() {
    assert_eq!(usage_error(&["trace", "-"]), "error: the following required arguments were not provided:");
    assert_eq!(
        usage_error(&["trace", "--limit", "1/s"]),
        "error: the following required arguments were not provided:"
    );
    assert_eq!(usage_error(&["trce"]), "error: unrecognized subcommand 'trce'");
    assert_eq!(
        usage_error(&trace_args(&["1/s"], &["/no/such/trace"])),
        "error: cannot open `/no/such/trace`: No such file or directory (os error 2) (hint: give a file, or - for \
         standard input)"
    );
    let directory = env!("CARGO_MANIFEST_DIR");
    assert_eq!(
        usage_error(&trace_args(&["1/s"], &[directory])),
        format!("error: cannot read `{directory}`: Is a directory (os error 21) (hint: give a file)")
    );
}

#[test]
fn a_closed_stdout_is_not_a_failure() {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/long-trace.txt");
    std::fs::write(path, "0 k 0\n".repeat(200_000)).expect("the directory is there");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(trace_args(&["1/s"], &["--decisions", path]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut start = [0; 8];
    child.stdout.take().expect("it is a pipe").read_exact(&mut start).expect("there is output");
    assert_eq!(&start, b"1 1 0 0\n");
    let run = child.wait_with_output().expect("it ends");
    assert_eq!((run.status.code(), run.stderr), (Some(0), Vec::new()));
}
