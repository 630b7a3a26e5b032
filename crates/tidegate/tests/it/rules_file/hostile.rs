//! Files that are large, deep or full of errors. None takes long, none overflows the stack, and all get a
//! report.

use std::fmt::Write as _;

use tidegate::rules::{self, DIAGNOSTICS_MAX, Report};

fn parse_errors(text: &str) -> Report {
    rules::parse("hostile.yaml", text).expect_err("an error")
}

/// Asserts that a report is bounded, whatever the file is.
fn assert_bounded(report: &Report) -> String {
    let text = report.to_string();
    assert!(text.len() < 200_000, "{} bytes", text.len());
    assert!(report.to_json().len() < 200_000);
    assert!(text.lines().all(|line| line.chars().count() < 700), "a long line");
    text
}

#[test]
fn aliases_that_multiply_are_counted() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..60 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        let _ = writeln!(text, "a{level}: &a{level} [{below}]");
    }
    let report_text = assert_bounded(&parse_errors(&text));
    assert!(
        report_text.starts_with("error[too-many-values]: the file has more than 2000000 values"),
        "{report_text}"
    );
    assert!(report_text.contains("each alias (`*name`) counts as a full copy"), "{report_text}");
}

#[test]
fn a_megabyte_of_aliases_is_read() {
    let mut text =
        "x: &x {a: b}\ndomain: many\nrules:\n- name: all\n  limit: 5 per second\n  metadata:\n".to_owned();
    let mut number = 0;
    while text.len() < 1 << 20 {
        number += 1;
        let _ = writeln!(text, "    k{number}: *x");
    }
    let report = parse_errors(&text);
    let report_text = assert_bounded(&report);
    assert!(report_text.contains("values of metadata are too many"), "{report_text}");
}

#[test]
fn nesting_through_aliases_is_bounded() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..200 {
        let _ = writeln!(text, "a{level}: &a{level} [*a{}]", level - 1);
    }
    let report_text = assert_bounded(&parse_errors(&text));
    assert!(
        report_text.starts_with("error[too-deep]: lists and mappings are nested more than 64 deep"),
        "{report_text}"
    );
}

#[test]
fn nesting_is_bounded() {
    const LEVELS: usize = 100_000;
    let flow = format!("{}{}", "[".repeat(LEVELS), "]".repeat(LEVELS));
    let open = "{a: ".repeat(LEVELS);
    let mut block = String::new();
    for level in 0..1_000 {
        let _ = writeln!(block, "{}a:", " ".repeat(level));
    }
    let list = "- ".repeat(LEVELS);
    for text in [flow, open, block, list] {
        let report_text = assert_bounded(&parse_errors(&text));
        assert!(report_text.starts_with("error[too-deep]"), "{report_text}");
    }
    let just = format!("domain: d\nrules: []\nx: {}{}\n", "[".repeat(63), "]".repeat(63));
    assert!(assert_bounded(&parse_errors(&just)).starts_with("error[unknown-field]"));
    let over = format!("domain: d\nrules: []\nx: {}{}\n", "[".repeat(64), "]".repeat(64));
    assert!(assert_bounded(&parse_errors(&over)).starts_with("error[too-deep]"));
}

#[test]
fn a_hundred_thousand_rules_are_read() {
    let mut text = "domain: many\napply: first\nrules:\n".to_owned();
    for number in 0..100_000 {
        let _ = writeln!(text, "- {{ name: r{number}, match: {{ user: u{number} }}, limit: 5 per second }}");
    }
    let loaded = rules::parse("many.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.domains[0].rules.len(), 100_000);
    assert_eq!(loaded.report.warnings(), 0);
    // The same, behind a rule that matches everything.
    let behind = text.replace("rules:\n", "rules:\n- { name: all, limit: 5 per second }\n");
    let loaded = rules::parse("behind.yaml", &behind).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.report.warnings(), 100_000);
    assert_eq!(loaded.report.diagnostics().len(), DIAGNOSTICS_MAX);
    assert_bounded(&loaded.report);
}

#[test]
fn a_set_of_ten_thousand_values_is_read() {
    let values: Vec<String> = (0..10_000).map(|number| format!("user{number}")).collect();
    let text = format!(
        "domain: set\nrules:\n- name: some\n  match: {{ user: [{}] }}\n  limit: 5 per second\n",
        values.join(", ")
    );
    assert_eq!(rules::parse("set.yaml", &text).expect("a set").domains[0].rules.len(), 1);
}

#[test]
fn too_many_values_without_aliases_are_refused() {
    let text = format!("domain: d\nrules: [{}]\n", "1,".repeat(2_000_001));
    let report_text = assert_bounded(&parse_errors(&text));
    assert!(report_text.starts_with("error[too-many-values]"), "{report_text}");
    assert!(report_text.contains("split it into several files"), "{report_text}");
}

#[test]
fn too_many_pools_are_refused() {
    let pools: Vec<String> = (0..1_001).map(|number| format!("p{number}: 5 per second")).collect();
    let text = format!("domain: d\nrules: []\npools: {{ {} }}\n", pools.join(", "));
    let report_text = assert_bounded(&parse_errors(&text));
    assert!(report_text.contains("1001 pools are too many"), "{report_text}");
}

/// A line of a megabyte is shown around the error, with its true column.
#[test]
fn a_long_line_is_cut() {
    let before = "x".repeat(1 << 20);
    let text = format!(
        "domain: long\nrules: [ {{ name: all, metadata: {{ a: \"{before}\" }}, limit: 5 per fortnight }} ]\n"
    );
    let report_text = assert_bounded(&parse_errors(&text));
    let column = text.lines().nth(1).expect("a line").find("5 per").expect("the limit") + 1;
    let expected = format!(
        "error[bad-limit]: unknown unit of time `fortnight`\n --> hostile.yaml:2:{column}\n  |\n2 | …{}\" }}, limit: 5 per fortnight }} ]\n",
        "x".repeat(28)
    );
    assert!(report_text.starts_with(&expected), "{report_text}");
    // The same if the whole line is wrong.
    let report_text = assert_bounded(&parse_errors(&format!("domain: long\nrules: \"{before}\"\n")));
    assert!(report_text.starts_with("error[wrong-type]: expected a list, found text"), "{report_text}");
}

#[test]
fn ten_thousand_errors_are_counted_and_a_hundred_shown() {
    let mut text = "domain: wrong\nrules:\n".to_owned();
    for number in 0..10_000 {
        let _ = writeln!(text, "- {{ name: r{number}, limit: 5 per second, replaces: gone{number} }}");
    }
    let report = parse_errors(&text);
    assert_eq!(report.errors(), 10_000);
    assert_eq!(report.diagnostics().len(), DIAGNOSTICS_MAX);
    let report_text = assert_bounded(&report);
    assert!(
        report_text.ends_with("\n... and 9900 more errors\n\n10000 errors, 0 warnings\n"),
        "{report_text}"
    );
    let duplicates = "domain: d\n".repeat(100_000);
    let report_text = assert_bounded(&parse_errors(&duplicates));
    assert!(report_text.contains("... and 99900 more errors\n"), "{report_text}");
}

#[test]
fn long_words_are_truncated_in_messages() {
    let long = "w".repeat(1 << 20);
    for text in [
        format!("domain: d\nrules: []\napply: {long}\n"),
        format!("domain: d\nrules: []\n\"{long}\": x\n"),
        format!("domain: \"{long}\"\nrules: []\n"),
        format!("domain: d\nrules: [ {{ name: all, limit: {long} }} ]\n"),
        format!("domain: d\nrules: [ {{ name: all, limit: {{ limit: 5, per: {long} }} }} ]\n"),
        format!("domain: d\nrules: [ {{ name: all, key: path.{long}, limit: 5 per second }} ]\n"),
        format!("domain: d\nrules: [ {{ name: all, match: {{ ip: {long} }}, limit: 5 per second }} ]\n"),
        format!(
            "domain: d\nrules: [ {{ name: all, match: {{ a: {{ regex: \"({long}\" }} }}, limit: 5 per second }} ]\n"
        ),
        format!("domain: d\nrules: [ {{ name: all, action: {long}, limit: 5 per second }} ]\n"),
        format!("domain: d\nrules: [ {{ name: all, cost: {long}, limit: 5 per second }} ]\n"),
        format!(
            "domain: d\nrules: [ {{ name: all, limit: {{ limit: 5, per: day, algorithm: fixed_window, align: {{ tz: {long} }} }} }} ]\n"
        ),
        format!("domain: d\nrules: [ {{ name: all, limit: {{ limit: 5 per second, name: {long} }} }} ]\n"),
        format!(
            "domain: d\nrules: [ {{ name: all, limit: {{ limit: 5 per second, algorithm: {long} }} }} ]\n"
        ),
        format!(
            "domain: d\nrules: [ {{ name: all, limit: {{ limit: 5 per second, burst: {} }} }} ]\n",
            "9".repeat(1 << 20)
        ),
    ] {
        assert_bounded(&parse_errors(&text));
    }
}
