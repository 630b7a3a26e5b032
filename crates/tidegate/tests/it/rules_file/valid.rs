//! What is read from valid files, to the last field.

use std::fs;
use std::path::Path;

use tidegate::rules::{self, Domain};

use crate::rules_file::reports::cases;

/// Compares the domains, with every field, with the expected text beside the file.
#[test]
fn valid_files_match_the_expected_text() {
    for path in cases("valid", "yaml") {
        let text = fs::read_to_string(&path).expect("a file");
        let loaded =
            rules::parse("valid.yaml", &text).unwrap_or_else(|report| panic!("{}: {report}", path.display()));
        assert_eq!(loaded.report.warnings(), 0, "{}: {}", path.display(), loaded.report);
        let expected_path = path.with_extension("txt");
        let actual = domains_text(&loaded.domains);
        if std::env::var_os("TIDEGATE_WRITE_REPORTS").is_some_and(|value| value == "1") {
            fs::write(&expected_path, &actual).expect("the domains can be written");
        }
        let expected = fs::read_to_string(&expected_path)
            .unwrap_or_else(|error| panic!("{}: {error}", expected_path.display()));
        assert_eq!(actual, expected, "{}", path.display());
    }
}

/// Every part of every rule on its own line.
fn domains_text(domains: &[Domain]) -> String {
    let mut lines = Vec::new();
    for domain in domains {
        lines.push(format!("domain {:?} apply {:?} lookup {:?}", domain.name, domain.apply, domain.lookup));
        lines.extend(domain.pools.iter().map(|pool| format!("  pool {:?} {}", pool.name, pool.limit)));
        for rule in &domain.rules {
            lines.push(format!("  rule {:?} was {:?}", rule.name, rule.was));
            for condition in &rule.conditions {
                lines.push(format!("    {} is {:?}", condition.attribute, condition.pattern));
            }
            lines.extend(rule.entries.iter().map(|entries| format!("    {entries:?}")));
            match &rule.limits {
                rules::RuleLimits::Same(limits) => {
                    lines.extend(limits.iter().map(|limit| limit_text("limit", limit)));
                }
                rules::RuleLimits::Tiers(tiers) => {
                    lines.push(format!("    tiers by {}", tiers.attribute));
                    for (plan, limits) in &tiers.plans {
                        lines.push(format!("    plan {plan:?}"));
                        lines.extend(limits.iter().map(|limit| limit_text("limit", limit)));
                    }
                    lines.push("    default".to_owned());
                    lines.extend(tiers.default.iter().map(|limit| limit_text("limit", limit)));
                }
            }
            lines.extend(rule.is_exemption.then(|| "    exempts".to_owned()));
            lines.extend(rule.candidate.iter().map(|limit| limit_text("candidate", limit)));
            if !rule.replaces.is_empty() || !rule.metadata.is_empty() {
                lines.push(format!("    replaces {:?} metadata {:?}", rule.replaces, rule.metadata));
            }
            if rule.mode != rules::RuleMode::Strict {
                lines.push(format!("    mode {:?}", rule.mode));
            }
            if rule.on_store_failure.is_some() || rule.deny_cache == rules::DenyCache::Off {
                lines.push(format!(
                    "    on_store_failure {:?} deny_cache {:?}",
                    rule.on_store_failure.unwrap_or_default(),
                    rule.deny_cache
                ));
            }
        }
    }
    lines.join("\n") + "\n"
}

fn limit_text(what: &str, limit: &rules::RuleLimit) -> String {
    format!(
        "    {what} {} was {:?}\n      key {:?} missing {:?}\n      cost {:?} action {:?}",
        limit.limit,
        limit.was,
        limit.key.parts(),
        limit.missing,
        limit.cost,
        limit.action
    )
}

/// The first example in the documentation is a file that loads.
#[test]
fn the_example_in_the_reference_loads() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md"))
        .expect("the page");
    let block: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("    "))
        .take_while(|line| line.starts_with("    "))
        .collect();
    let loaded = rules::parse("docs/rules.md", &block.join("\n")).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.domains[0].rules.len(), 2);
    assert_eq!(loaded.report.warnings(), 0, "{}", loaded.report);
}

/// The operator examples load without warnings.
#[test]
fn the_examples_are_read_without_a_warning() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rules");
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).expect("the examples") {
        let path = entry.expect("an entry").path();
        // Tests of rules are not rules.
        if path.is_dir() {
            continue;
        }
        let loaded = rules::load(std::slice::from_ref(&path)).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(loaded.report.warnings(), 0, "{}", loaded.report);
        names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    for needed in ["api.yaml", "candidate.yaml", "elastic.yaml", "login.yaml", "tiers.yaml"] {
        assert!(names.iter().any(|name| name == needed), "{needed}");
    }
}
