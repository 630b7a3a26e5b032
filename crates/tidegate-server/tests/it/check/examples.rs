//! The example rules have no warnings and pass their tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::check::{assert_success, tidegate};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rules")
}

/// The files directly in a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn every_example_is_valid() {
    let files = files(&examples());
    assert!(files.iter().any(|path| path.ends_with("login.yaml")), "{files:?}");
    for path in files {
        let run = tidegate(&["check", path.to_str().unwrap(), "--deny-warnings"], "");
        assert_success(&run);
        assert!(run.out.contains("\nok: 1 file, 1 domain, "), "{}", run.out);
    }
}

#[test]
fn every_test_of_an_example_passes() {
    let tests = files(&examples().join("tests"));
    assert!(!tests.is_empty());
    for path in tests {
        let rules = examples().join(path.file_name().unwrap());
        let run = tidegate(&["check", rules.to_str().unwrap(), "--tests", path.to_str().unwrap()], "");
        assert_success(&run);
        assert!(run.out.ends_with(" passed, 0 failed\n"), "{}", run.out);
    }
}

/// The tests of the login example depend on its limit of 5 per minute.
#[test]
fn login_tests_fail_without_the_hard_limit() {
    let rules = fs::read_to_string(examples().join("login.yaml")).unwrap();
    let weak = rules.replace("limit: 5 per minute", "limit: 500 per minute");
    assert_ne!(weak, rules);
    let directory = crate::check::Directory::new();
    let weak = directory.write("login.yaml", weak);
    let tests = examples().join("tests/login.yaml");
    let run = tidegate(&["check", &weak, "--tests", tests.to_str().unwrap()], "");
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("expected decision denied, got allowed"), "{}", run.err);
}
