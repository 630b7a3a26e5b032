//! Rules files that change between polls, on a real file system and without waiting.

mod changes;
mod directory;
mod invalid;
mod reloading;

use std::path::PathBuf;

use tidegate::rules::{LoadedRules, Report, Source, SourceUpdate};

use directory::RulesDirectory;

/// A file with one rule of this limit.
fn rules(domain: &str, limit: &str) -> String {
    format!("domain: {domain}\nrules: [ {{ name: all, limit: {limit} }} ]\n")
}

fn source(paths: impl IntoIterator<Item = PathBuf>) -> Source {
    Source::new(paths)
}

/// The limits of all rules, as in `api 5 per second`.
fn limits(loaded: &LoadedRules) -> Vec<String> {
    let mut texts = Vec::new();
    for domain in &loaded.domains {
        for rule in &domain.rules {
            let tidegate::rules::RuleLimits::Same(limits) = &rule.limits else { panic!("no tiers here") };
            texts
                .extend(limits.iter().map(|limit| format!("{} {}", domain.name, limit.limit.rate().limit())));
        }
    }
    texts
}

#[track_caller]
fn assert_changed(source: &mut Source, expected: &[&str]) {
    match source.poll() {
        SourceUpdate::Changed(loaded) => assert_eq!(limits(&loaded), expected),
        other => panic!("expected a change, not {other:?}"),
    }
    assert_unchanged(source);
}

#[track_caller]
fn assert_unchanged(source: &mut Source) {
    let polled = source.poll();
    assert!(matches!(polled, SourceUpdate::Unchanged), "{polled:?}");
}

/// The files are invalid, which is reported once.
#[track_caller]
fn assert_invalid(source: &mut Source, code: &str) -> Report {
    match source.poll() {
        SourceUpdate::Invalid(report) => {
            assert!(report.diagnostics().iter().any(|diagnostic| diagnostic.code == code), "{report}");
            assert_unchanged(source);
            report
        }
        other => panic!("expected invalid files, not {other:?}"),
    }
}
