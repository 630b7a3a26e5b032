//! Every report against the text beside its file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::rules::{self, Report, Severity};

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/rules_file").join(name)
}

/// What is in a directory and ends so, by name.
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

/// Compares with the text beside the file, or writes it if that was asked for.
fn compare(path: &Path, report: &str) {
    let beside = path.with_extension("txt");
    if std::env::var_os("TIDEGATE_WRITE_REPORTS").is_some_and(|value| value == "1") {
        fs::write(&beside, report).expect("the report can be written");
    }
    let expected =
        fs::read_to_string(&beside).unwrap_or_else(|error| panic!("{}: {error}", beside.display()));
    assert_eq!(report, expected, "what is said of {} is not what {} has", path.display(), beside.display());
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
        let loaded = read(&path).unwrap_or_else(|report| panic!("{}", report));
        assert!(loaded.report.warnings() > 0, "{}", path.display());
        compare(&path, &loaded.report.to_string());
    }
}

#[test]
fn directories_match_the_expected_text() {
    for path in cases("directories", "") {
        let shown = |report: &Report| {
            report.to_string().replace(&format!("{}/", directory("directories").display()), "")
        };
        let report = match rules::load(std::slice::from_ref(&path)) {
            Ok(loaded) => format!("{}{:#?}\n", shown(&loaded.report), summary(&loaded)),
            Err(report) => shown(&report),
        };
        compare(&path, &report);
    }
}

/// What came of several files, without all the detail.
fn summary(loaded: &rules::LoadedRules) -> Vec<String> {
    let names = |domain: &tidegate::rules::Domain| {
        let rules: Vec<&str> = domain.rules.iter().map(|rule| &*rule.name).collect();
        let pools: Vec<&str> = domain.pools.iter().map(|pool| &*pool.name).collect();
        format!("{} apply {:?}, rules {rules:?}, pools {pools:?}", domain.name, domain.apply)
    };
    loaded.domains.iter().map(names).collect()
}

/// A message that no case shows is a message that nobody has read.
#[test]
fn every_code_is_in_a_report() {
    let mut shown = BTreeSet::new();
    for kind in ["errors", "warnings", "directories"] {
        for path in cases(kind, "txt") {
            let text = fs::read_to_string(path).expect("a report");
            let codes = text.lines().filter_map(|line| {
                let rest = line.strip_prefix("error[").or_else(|| line.strip_prefix("warning["))?;
                Some(rest.split(']').next()?.to_owned())
            });
            shown.extend(codes);
        }
    }
    let mut written = BTreeSet::new();
    for part in ["join", "lint", "load", "native", "reader", "yaml"] {
        codes_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules").join(part), &mut written);
    }
    assert!(written.len() > 50, "the codes are not found any more: {written:?}");
    // These have tests of their own, in hostile.rs and files.rs: their files would be large, or not text.
    for elsewhere in [
        "file-too-large",
        "no-files",
        "no-such-file",
        "not-a-file",
        "not-utf-8",
        "too-deep",
        "too-many-files",
        "too-many-pools",
        "too-many-values",
        "unreadable",
    ] {
        assert!(written.remove(elsewhere), "{elsewhere} is no code any more");
    }
    let missing: Vec<&String> = written.difference(&shown).collect();
    assert!(missing.is_empty(), "no report shows these: {missing:?}");
}

const DIAGNOSTIC_CALLS: [&str; 7] = [
    "Diagnostic::error(\"",
    "Diagnostic::warning(\"",
    "Diagnostic::of_file(\"",
    ".refused(\"",
    ".refuse(path,\"",
    "=>Some((\"",
    "TOO_MANY:&str=\"",
];

/// The first argument of whatever makes a diagnostic.
fn codes_in(module: &Path, codes: &mut BTreeSet<String>) {
    let below = fs::read_dir(module).into_iter().flatten().map(|entry| entry.expect("an entry").path());
    let own = Some(module.with_extension("rs")).filter(|path| path.is_file());
    for path in below.chain(own) {
        if path.is_dir() {
            codes_in(&path, codes);
            continue;
        }
        let source: String = fs::read_to_string(&path).expect("a source").split_whitespace().collect();
        for maker in DIAGNOSTIC_CALLS {
            for found in source.split(maker).skip(1) {
                codes.extend(found.split('"').next().map(str::to_owned));
            }
        }
    }
}

/// The same that people read, for machines.
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
        let shown = report.to_string();
        for (found, json) in report.diagnostics().iter().zip(json["diagnostics"].as_array().expect("a list"))
        {
            assert_eq!(json["message"], found.message);
            assert_eq!(json["code"], found.code);
            assert_eq!(json["field"], found.field);
            assert_eq!(json["hint"], found.hint.clone().map_or(serde_json::Value::Null, Into::into));
            let severity = if found.severity == Severity::Error { "error" } else { "warning" };
            assert_eq!(json["severity"], severity);
            let place = format!("{}:{}:{}", name_of(&path), json["line"], json["column"]);
            assert!(shown.contains(&place), "{place} in\n{shown}");
            assert!(json["end_line"].as_u64() >= json["line"].as_u64());
        }
    }
}

/// Columns count characters, from 1, and spans end after their last.
#[test]
fn positions_count_from_one_in_characters() {
    let text = "domain: \"grüße\"\nrules:\n  - { name: \"日本\", limit: 5 per fortnight }\n";
    let report = rules::parse("u.yaml", text).expect_err("no such unit");
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let found = &json["diagnostics"][0];
    assert_eq!((found["line"].as_u64(), found["column"].as_u64()), (Some(3), Some(26)));
    assert_eq!((found["end_line"].as_u64(), found["end_column"].as_u64()), (Some(3), Some(41)));
    assert_eq!(found["field"], "rules[0].limit");
    let span = report.diagnostics()[0].span.expect("a place");
    assert_eq!(&text[span.bytes()], "5 per fortnight");
}

/// Colours on request, and otherwise none.
#[test]
fn colours_are_for_terminals() {
    let report = rules::parse("c.yaml", "domain: c").expect_err("no rules");
    assert!(!report.to_string().contains('\u{1b}'));
    assert!(report.render(rules::Colour::Always).contains('\u{1b}'));
}
