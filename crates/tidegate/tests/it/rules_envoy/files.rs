//! Directories of files for envoyproxy/ratelimit, and files of one domain.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tidegate::rules::{LoadOptions, LoadedRules, Report, load_with};

use super::{matching_rule_name, rule};

/// A directory for one test, removed when it is dropped.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let name = format!("envoy-files-{name}-{}", std::process::id());
        let directory = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        let _ = fs::remove_dir_all(&directory.0);
        fs::create_dir_all(&directory.0).unwrap();
        files.iter().for_each(|(name, text)| directory.write(name, text));
        directory
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn load(&self, options: LoadOptions) -> Result<LoadedRules, Report> {
        load_with(std::slice::from_ref(&self.0), options)
    }

    /// The names of the domains, and what was skipped, without the directory.
    fn names(&self, options: LoadOptions) -> (Vec<String>, Vec<String>) {
        let loaded = self.load(options).unwrap_or_else(|report| panic!("{report}"));
        let prefix = format!("{}/", self.0.display());
        let skipped = loaded.report.skipped().iter().map(|file| file.path.replace(&prefix, ""));
        (loaded.domains.iter().map(|domain| domain.name.to_string()).collect(), skipped.collect())
    }

    /// The codes of the errors.
    fn error_codes(&self, options: LoadOptions) -> Vec<&'static str> {
        let report = self.load(options).expect_err("an error");
        report.diagnostics().iter().map(|diagnostic| diagnostic.code).collect()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn domain_text(domain: &str) -> String {
    format!("domain: {domain}\ndescriptors:\n  - key: k\n")
}

fn merged() -> LoadOptions {
    let mut options = LoadOptions::default();
    options.merge_domains = true;
    options
}

fn without_dotfiles() -> LoadOptions {
    let mut options = LoadOptions::default();
    options.ignore_dotfiles = true;
    options
}

#[test]
fn every_file_with_descriptors_is_loaded_at_any_depth() {
    let directory = TestDirectory::new(
        "depth",
        &[
            ("a.yaml", &domain_text("a")),
            ("b.json", r#"{"domain": "b", "descriptors": [{"key": "k"}]}"#),
            ("below/c.yaml", &domain_text("c")),
            ("below/more/no-extension", &domain_text("d")),
            ("directory.yaml/e.conf", &domain_text("e")),
            (".hidden.yaml", &domain_text("f")),
            (".dots/g.yaml", &domain_text("g")),
            ("README.md", "# About descriptors: how they work"),
            ("below/native.yaml", "domain: h\nrules: []\n"),
            (".git/config", &domain_text("i")),
        ],
    );
    fs::write(directory.0.join("picture.png"), b"\x89PNG\r\n\x1a\ndescriptors: ").unwrap();
    symlink("below", directory.0.join("link")).unwrap();
    let (mut domains, skipped) = directory.names(LoadOptions::default());
    domains.sort();
    assert_eq!(domains, ["a", "b", "c", "d", "e", "f", "g"]);
    assert_eq!(skipped, [".git", "README.md", "below/native.yaml", "link", "picture.png"]);
    let (mut domains, skipped) = directory.names(without_dotfiles());
    domains.sort();
    assert_eq!(domains, ["a", "b", "c", "d", "e"]);
    let dotfiles = [".dots", ".git", ".hidden.yaml"];
    assert_eq!(skipped, [&dotfiles[..], &["README.md", "below/native.yaml", "link", "picture.png"]].concat());
}

#[test]
fn a_directory_without_yaml_files_has_its_subdirectories() {
    let directory = TestDirectory::new("only-below", &[("team/limits.json", &domain_text("a"))]);
    assert_eq!(directory.names(LoadOptions::default()), (vec!["a".to_owned()], vec![]));
    let empty = TestDirectory::new("nothing", &[("notes.txt", "nothing"), ("x/native.yaml", "rules: []\n")]);
    let report = empty.load(LoadOptions::default()).unwrap_err();
    assert_eq!(report.diagnostics()[0].code, "empty-directory");
    assert_eq!(report.skipped_count(), 2, "the user sees what is there");
}

/// Links into a directory that is a link itself. envoyproxy/ratelimit needs `RUNTIME_IGNOREDOTFILES` for it.
#[test]
fn a_config_map_is_read_once_with_and_without_dotfiles() {
    let directory = TestDirectory::new("config-map", &[("..2026/a.yaml", &domain_text("a"))]);
    symlink("..2026", directory.0.join("..data")).unwrap();
    symlink("..data/a.yaml", directory.0.join("a.yaml")).unwrap();
    for options in [LoadOptions::default(), without_dotfiles()] {
        assert_eq!(directory.names(options), (vec!["a".to_owned()], vec![]));
    }
}

#[test]
fn a_file_with_errors_is_never_skipped() {
    for name in ["a.yaml", "below/a.yml", ".a.yaml", "below/a.json", "below/a"] {
        let broken = TestDirectory::new("broken", &[("ok.yaml", &domain_text("ok"))]);
        broken.write(name, "domain: a\ndescriptors: [ { key: \"unclosed } ]\n");
        assert!(broken.load(LoadOptions::default()).is_err(), "{name}");
    }
    for name in ["a.yaml", "below/a.yml"] {
        let unreadable =
            TestDirectory::new("broken", &[("ok.yaml", &domain_text("ok")), ("below/x.txt", "")]);
        symlink("nowhere", unreadable.0.join(name)).unwrap();
        assert_eq!(unreadable.error_codes(LoadOptions::default()), ["unreadable"], "{name}");
    }
    let not_rules = TestDirectory::new("broken", &[("ok.yaml", &domain_text("ok"))]);
    not_rules.write("below/a.yaml", "what: is this\n");
    assert!(not_rules.load(LoadOptions::default()).is_err(), "a name of a rules file");
}

#[test]
fn files_of_a_domain_are_merged_on_request() {
    let one = "domain: d\ndescriptors:\n  - key: a\n    rate_limit: { unit: hour, requests_per_unit: 1, name: one }\n";
    let two = "\
domain: d
descriptors:
  - key: b
    value: x*
    rate_limit: { unit: hour, requests_per_unit: 2, replaces: [ { name: one } ] }
";
    let directory = TestDirectory::new("merge", &[("1.yaml", one), ("2.yaml", two)]);
    assert_eq!(directory.error_codes(LoadOptions::default()), ["duplicate-domain"]);
    let loaded = directory.load(merged()).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.report.warnings(), 0, "a name in another file is known: {}", loaded.report);
    let [domain] = &loaded.domains[..] else { panic!("one domain") };
    assert_eq!(matching_rule_name(domain, &[("a", "1")]), "a");
    assert_eq!(matching_rule_name(domain, &[("b", "xy")]), "b_x*");
    assert_eq!(rule(domain, "b_x*").replaces, [Box::from("a")]);

    let below = "domain: d\ndescriptors:\n  - key: a\n    descriptors: [ { key: c } ]\n";
    directory.write("3.yaml", below);
    assert_eq!(directory.error_codes(merged()), ["duplicate-descriptor"], "as in envoyproxy/ratelimit");
}

#[test]
fn native_rules_keep_a_directory_flat() {
    let directory = TestDirectory::new(
        "native",
        &[
            ("a.yaml", "domain: a\nrules: [ { name: all, limit: 5 per second } ]\n"),
            ("b.yaml", &domain_text("b")),
            ("c.json", &domain_text("c")),
            (".d.yaml", &domain_text("d")),
            ("below/e.yaml", &domain_text("e")),
        ],
    );
    let (domains, skipped) = directory.names(LoadOptions::default());
    assert_eq!(domains, ["a", "b"]);
    assert_eq!(skipped, [".d.yaml", "below", "c.json"]);
}
