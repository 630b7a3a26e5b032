//! Help texts, and the schema of rules files.

use crate::check::{assert_success, tidegate};

#[test]
fn every_command_has_examples_and_exit_codes() {
    let expected: [(&str, &[&str]); 3] = [
        (
            "check",
            &["docs/rules.md", "docs/rules-tests.md", "--deny-warnings", "\"descriptors\"", "Examples:"],
        ),
        ("convert", &["envoyproxy/ratelimit", "Examples:", "standard input"]),
        ("schema", &["yaml-language-server", "VS Code", "tidegate schema > "]),
    ];
    for (command, texts) in expected {
        let run = tidegate(&[command, "--help"], "");
        assert_success(&run);
        for text in texts.iter().chain(&["Exit codes:"]) {
            assert!(run.out.contains(text), "{command}: {text}");
        }
        let widest = run.out.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(110), "{command}: {widest:?} columns");
    }
}

#[test]
fn the_commands_are_listed() {
    let run = tidegate(&["--help"], "");
    assert_success(&run);
    for command in ["serve", "check", "convert", "schema", "trace", "override", "ban", "unban"] {
        assert!(run.out.contains(&format!("\n  {command} ")), "{command}: {}", run.out);
    }
}

#[test]
fn the_schema_is_json() {
    let run = tidegate(&["schema"], "");
    assert_success(&run);
    let schema: serde_json::Value = run.out.parse().expect("it is JSON");
    assert!(schema["$schema"].is_string());
    assert!(schema["properties"]["domain"].is_object(), "{schema}");
    assert!(run.out.ends_with('\n'));
}

/// clap wraps each line to the terminal. A paragraph that is wrapped in the source too would be wrapped twice.
#[test]
fn paragraphs_are_wrapped_once() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/help");
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        // Not the rows of a table, and not a command or an example, which are indented more.
        let is_prose =
            |line: &str| line.starts_with("  ") && !line[2..].starts_with(' ') && !line[2..].contains("  ");
        for (line, next) in text.lines().zip(text.lines().skip(1)) {
            let is_wrapped = is_prose(line) && is_prose(next) && !line.ends_with(['.', ':']);
            assert!(!is_wrapped, "{}: {line}", path.display());
        }
        files += 1;
    }
    assert_eq!(files, 11);
}

/// clap would break longer ones on a terminal of 80 columns, so that they can no longer be copied.
#[test]
fn examples_and_tables_fit_80_columns() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/help");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        // The list of exit codes is prose.
        let (text, _) = text.split_once("Exit codes:").unwrap();
        let is_example = |line: &&str| {
            line.starts_with("      ") || (line.starts_with("  ") && line.trim_start().contains("  "))
        };
        for line in text.lines().filter(is_example) {
            assert!(line.chars().count() <= 80, "{}: {line}", path.display());
        }
    }
}
