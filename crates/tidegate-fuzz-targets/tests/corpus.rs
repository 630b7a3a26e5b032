//! Replays every stored input on its target.

use std::path::{Path, PathBuf};
use std::{fs, str};

use tidegate_fuzz_targets::{http_request, identity, json_request, patterns, resp, rules_file};

/// The files of a directory of the project, by name.
fn files(directory: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    assert!(!paths.is_empty(), "{} has no files", directory.display());
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
}

fn replay(directory: &str, target: impl Fn(&[u8])) {
    for (path, bytes) in files(directory) {
        // The output of a failed test is shown, and its last line names the input.
        println!("{}", path.display());
        target(&bytes);
    }
}

/// Text targets skip bytes that are not UTF-8, as their fuzzers do.
fn replay_text(directory: &str, target: impl Fn(&str)) {
    replay(directory, |bytes| {
        if let Ok(text) = str::from_utf8(bytes) {
            target(text);
        }
    });
}

#[test]
fn the_resp_target_accepts_its_corpus() {
    replay("fuzz/corpus/resp", resp);
}

#[test]
fn the_identity_target_accepts_its_corpus() {
    replay("fuzz/corpus/identity", identity);
}

#[test]
fn the_http_request_target_accepts_its_corpus() {
    replay("fuzz/corpus/http_request", http_request);
}

#[test]
fn the_json_request_target_accepts_its_corpus() {
    replay("fuzz/corpus/json_request", json_request);
}

#[test]
fn the_patterns_target_accepts_its_corpus() {
    replay_text("fuzz/corpus/patterns", patterns);
}

/// Replays the examples too, because the fuzzer starts from them.
#[test]
fn the_rules_file_target_accepts_its_corpus_and_the_examples() {
    for directory in ["fuzz/corpus/rules_file", "examples/rules", "examples/rules/tests"] {
        replay_text(directory, rules_file);
    }
}
