//! Help that teaches.

use crate::check::{assert_success, tidegate};

#[test]
fn every_command_has_examples_and_exit_codes() {
    let said: [(&str, &[&str]); 3] = [
        (
            "check",
            &["docs/rules.md", "docs/rules-tests.md", "--deny-warnings", "\"descriptors\"", "Examples:"],
        ),
        ("convert", &["envoyproxy/ratelimit", "Examples:", "standard input"]),
        ("schema", &["yaml-language-server", "VS Code", "tidegate schema > "]),
    ];
    for (command, said) in said {
        let run = tidegate(&[command, "--help"], "");
        assert_success(&run);
        for text in said.iter().chain(&["Exit codes:"]) {
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
