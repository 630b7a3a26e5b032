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
    for command in ["serve", "check", "convert", "schema", "trace"] {
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
