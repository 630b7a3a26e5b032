//! Every bad input gets an error that explains it.

use std::process::{Command, Stdio};

use crate::check::{Directory, json, tidegate};

#[test]
fn files_that_are_not_there() {
    let directory = Directory::new();
    let empty = directory.path();
    let fine = directory.write("fine/a.yaml", "domain: api\nrules: [ { name: a, limit: 5 per second } ]\n");
    for (paths, message) in [
        (vec!["/no/such/file.yaml"], "there is no such file or directory"),
        (vec![fine.as_str(), "/no/such/file.yaml"], "there is no such file or directory"),
        (vec![empty], "the directory has no rules files"),
        (vec!["/dev/null"], "it is neither a file nor a directory"),
    ] {
        let run = tidegate(&[&["check"], paths.as_slice()].concat(), "");
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{message}");
        assert!(run.err.contains(message) && run.err.contains("help: "), "{message}: {}", run.err);
        let run = tidegate(&[&["check", "--format", "json"], paths.as_slice()].concat(), "");
        assert_eq!((run.code, &json(&run)["ok"]), (Some(2), &false.into()), "{message}");
    }
}

#[test]
fn files_that_are_not_rules() {
    let directory = Directory::new();
    let garbage: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let cases = [
        (garbage, "the file is not UTF-8: invalid byte "),
        (vec![0; 1000], "error["),
        (vec![], "the file is empty"),
        (b"domain".to_vec(), "expected "),
        (b"{ a: [ }".to_vec(), "invalid YAML"),
        (b"[".repeat(100_000), "error["),
        (b"a: &a [*a, *a]".to_vec(), "error["),
        (vec![b'#'; 20 << 20], "the file has more than 16777216 bytes"),
        (b"PK\x03\x04".to_vec(), "error["),
    ];
    for (content, message) in cases {
        let path = directory.write("file.yaml", &content);
        let run = tidegate(&["check", &path], "");
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{message}: {}", run.err);
        assert!(run.err.contains(message) && run.err.contains("file.yaml"), "{message}: {}", run.err);
        assert!(run.err.len() < 100_000, "the message is too long to read");
    }
}

#[test]
fn standard_input_that_is_closed() {
    let directory = Directory::new();
    let path = directory.write("a.yaml", "domain: api\nrules: [ { name: a, limit: 5 per second } ]\n");
    let run = tidegate(&["check", &path, "--request", "-"], "");
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.err.starts_with("error: cannot read the request: "), "{}", run.err);
    let null = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["check", &path, "--request", "-"])
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    assert_eq!(null.status.code(), Some(2));
    let run = tidegate(&["check", &path, "--request", "-"], vec![b' '; 5 << 20]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("the request is larger than 4096 KiB"), "{}", run.err);
}

#[test]
fn a_closed_stdout_is_not_a_failure() {
    let directory = Directory::new();
    let rule = |n: u32| format!("  - {{ name: rule-{n}, match: {{ a: b{n} }}, limit: 1 per second }}\n");
    let rules: String = (0..2000).map(rule).collect();
    let path = directory.write("a.yaml", format!("domain: api\nrules:\n{rules}"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["check", &path, "--request", r#"{"attributes": {"a": "b"}}"#])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let run = child.wait_with_output().expect("it ends");
    assert_eq!((run.status.code(), run.stderr), (Some(0), Vec::new()));
}

#[test]
fn usage() {
    for (args, message) in [
        (vec!["check"], "error: the following required arguments were not provided:"),
        (vec!["check", "--format", "xml", "a"], "error: invalid value 'xml' for '--format <FORMAT>'"),
        (
            vec!["check", "a", "--request", "{}", "--tests", "b"],
            "error: the argument '--request <JSON>' cannot be",
        ),
        (vec!["convert"], "error: the following required arguments were not provided:"),
        (vec!["schema", "a"], "error: unexpected argument 'a' found"),
    ] {
        let run = tidegate(&args, "");
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(run.err.starts_with(message), "{args:?}: {}", run.err);
    }
}
