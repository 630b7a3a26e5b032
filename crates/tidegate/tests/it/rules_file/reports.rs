//! Compares every report with the expected text beside its file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::rules::{self, Report, Severity};

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/rules_file").join(name)
}

/// The files of a directory with this extension, by name.
pub fn cases(name: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().map_or(extension.is_empty(), |found| found == extension));
    paths.sort();
    assert!(!paths.is_empty(), "no {extension} files in {name}");
    paths
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8")
}

fn read(path: &Path) -> Result<rules::LoadedRules, Report> {
    let text = fs::read_to_string(path).expect("a file in UTF-8");
    rules::parse(name_of(path), &text)
}

/// Compares with the expected text, or writes it if the environment variable is set.
fn compare(path: &Path, report: &str) {
    let expected_path = path.with_extension("txt");
    if std::env::var_os("TIDEGATE_WRITE_REPORTS").is_some_and(|value| value == "1") {
        fs::write(&expected_path, report).expect("the report can be written");
    }
    let expected = fs::read_to_string(&expected_path)
        .unwrap_or_else(|error| panic!("{}: {error}", expected_path.display()));
    assert_eq!(
        report,
        expected,
        "the report for {} differs from {}",
        path.display(),
        expected_path.display()
    );
}

#[test]
fn errors_match_the_expected_text() {
    for path in cases("errors", "yaml") {
        let report = read(&path).expect_err(name_of(&path));
        assert!(report.errors() > 0);
        compare(&path, &report.to_string());
    }
}

#[test]
fn warnings_match_the_expected_text() {
    for path in cases("warnings", "yaml") {
        // Without this feature, nothing normalizes paths.
        if name_of(&path) == "path-not-normal.yaml" && !cfg!(feature = "identity") {
            continue;
        }
        let loaded = read(&path).unwrap_or_else(|report| panic!("{}", report));
        assert!(loaded.report.warnings() > 0, "{}", path.display());
        compare(&path, &loaded.report.to_string());
    }
}

#[test]
fn directories_match_the_expected_text() {
    for path in cases("directories", "") {
        let relative = |report: &Report| {
            report.to_string().replace(&format!("{}/", directory("directories").display()), "")
        };
        let report = match rules::load(std::slice::from_ref(&path)) {
            Ok(loaded) => format!("{}{:#?}\n", relative(&loaded.report), summary(&loaded)),
            Err(report) => relative(&report),
        };
        compare(&path, &report);
    }
}

/// A short summary of what several files contain.
fn summary(loaded: &rules::LoadedRules) -> Vec<String> {
    let names = |domain: &tidegate::rules::Domain| {
        let rules: Vec<&str> = domain.rules.iter().map(|rule| &*rule.name).collect();
        let pools: Vec<&str> = domain.pools.iter().map(|pool| &*pool.name).collect();
        format!("{} apply {:?}, rules {rules:?}, pools {pools:?}", domain.name, domain.apply)
    };
    loaded.domains.iter().map(names).collect()
}

/// Every message must be in an expected report, so that a person has read it.
#[test]
fn every_code_is_in_a_report() {
    let mut codes_shown = BTreeSet::new();
    for kind in ["errors", "warnings", "directories"] {
        for path in cases(kind, "txt") {
            let text = fs::read_to_string(path).expect("a report");
            let codes = text.lines().filter_map(|line| {
                let rest = line.strip_prefix("error[").or_else(|| line.strip_prefix("warning["))?;
                Some(rest.split(']').next()?.to_owned())
            });
            codes_shown.extend(codes);
        }
    }
    let mut codes_used = BTreeSet::new();
    for module in ["join", "lint", "load", "native", "paths", "yaml"] {
        codes_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules").join(module), &mut codes_used);
    }
    assert!(codes_used.len() > 50, "the codes are not found any more: {codes_used:?}");
    // These have tests in hostile.rs, files.rs and rules_envoy: their files would be large, or not text, or not native.
    for elsewhere in [
        "duplicate-descriptor",
        "file-too-large",
        "no-files",
        "no-such-file",
        "not-a-file",
        "not-utf-8",
        "tests-file",
        "too-deep",
        "too-many-files",
        "too-many-pools",
        "too-many-values",
        "unreadable",
    ] {
        assert!(codes_used.remove(elsewhere), "{elsewhere} is not a code any more");
    }
    let missing: Vec<&String> = codes_used.difference(&codes_shown).collect();
    assert!(missing.is_empty(), "no report shows these: {missing:?}");
}

/// How sources create diagnostics, without white space, up to the code.
const DIAGNOSTIC_CALLS: [&str; 7] = [
    "Diagnostic::error(\"",
    "Diagnostic::warning(\"",
    "Diagnostic::file_error(\"",
    ".limit_error(\"",
    ".add_error(path,\"",
    "=>Some((\"",
    "TOO_MANY_FILES:&str=\"",
];

/// Collects the first argument of every call that creates a diagnostic. It searches the text of the sources.
fn codes_in(module: &Path, codes: &mut BTreeSet<String>) {
    let files_below = fs::read_dir(module).into_iter().flatten().map(|entry| entry.expect("an entry").path());
    let own_file = Some(module.with_extension("rs")).filter(|path| path.is_file());
    for path in files_below.chain(own_file) {
        if path.is_dir() {
            codes_in(&path, codes);
            continue;
        }
        let source: String = fs::read_to_string(&path).expect("a source").split_whitespace().collect();
        for call in DIAGNOSTIC_CALLS {
            for arguments in source.split(call).skip(1) {
                codes.extend(arguments.split('"').next().map(str::to_owned));
            }
        }
    }
}

/// The JSON form has the same content as the text.
#[test]
fn json_has_the_same_diagnostics() {
    for path in cases("errors", "yaml").into_iter().chain(cases("warnings", "yaml")) {
        let report = match read(&path) {
            Ok(loaded) => loaded.report,
            Err(report) => report,
        };
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["errors"], report.errors());
        assert_eq!(json["warnings"], report.warnings());
        let text = report.to_string();
        for (diagnostic, json) in
            report.diagnostics().iter().zip(json["diagnostics"].as_array().expect("a list"))
        {
            assert_eq!(json["message"], diagnostic.message);
            assert_eq!(json["code"], diagnostic.code);
            assert_eq!(json["field"], diagnostic.field);
            assert_eq!(json["hint"], diagnostic.hint.clone().map_or(serde_json::Value::Null, Into::into));
            let severity = if diagnostic.severity == Severity::Error { "error" } else { "warning" };
            assert_eq!(json["severity"], severity);
            let position = format!("{}:{}:{}", name_of(&path), json["line"], json["column"]);
            assert!(text.contains(&position), "{position} in\n{text}");
            assert!(json["end_line"].as_u64() >= json["line"].as_u64());
        }
    }
}

/// Columns count characters from 1, and a span ends after its last character.
#[test]
fn positions_count_from_one_in_characters() {
    let text = "domain: \"grüße\"\nrules:\n  - { name: \"日本\", limit: 5 per fortnight }\n";
    let report = rules::parse("u.yaml", text).expect_err("no such unit");
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let diagnostic = &json["diagnostics"][0];
    assert_eq!((diagnostic["line"].as_u64(), diagnostic["column"].as_u64()), (Some(3), Some(26)));
    assert_eq!((diagnostic["end_line"].as_u64(), diagnostic["end_column"].as_u64()), (Some(3), Some(41)));
    assert_eq!(diagnostic["field"], "rules[0].limit");
    let span = report.diagnostics()[0].span.expect("a position");
    assert_eq!(&text[span.bytes()], "5 per fortnight");
}

/// Colours only on request.
#[test]
fn colours_are_for_terminals() {
    let report = rules::parse("c.yaml", "domain: c").expect_err("no rules");
    assert!(!report.to_string().contains('\u{1b}'));
    assert!(report.render(rules::Colour::Always).contains('\u{1b}'));
}
