//! Files and directories on a disk.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::rules::{self, FILE_BYTES_MAX, FILES_MAX, Report};

/// A directory for one test, removed when it is dropped.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rules-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, bytes).expect("a file");
        path
    }

    /// The report, with the directory left out.
    fn report_text(&self, report: &Report) -> String {
        report
            .to_string()
            .replace(&format!("{}/", self.0.display()), "")
            .replace(&*self.0.to_string_lossy(), ".")
    }

    fn load_errors(&self, paths: &[PathBuf]) -> String {
        self.report_text(&rules::load(paths).expect_err("an error"))
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn rule(domain: &str, name: &str) -> String {
    format!("domain: {domain}\nrules: [ {{ name: {name}, limit: 5 per second }} ]\n")
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    let loaded = rules::load(paths).unwrap_or_else(|report| panic!("{report}"));
    let domains = loaded.domains.iter();
    domains
        .flat_map(|domain| domain.rules.iter().map(|rule| format!("{} {}", domain.name, rule.name)))
        .collect()
}

#[test]
fn files_of_a_directory_are_loaded_by_name() {
    let directory = TestDirectory::new("directory");
    directory.write("b.yml", rule("one", "second"));
    directory.write("a.yaml", rule("one", "first"));
    directory.write("c.yaml", rule("two", "third"));
    directory.write("README.md", "not YAML: [");
    directory.write(".hidden.yaml", "not YAML: [");
    directory.write("below/d.yaml", "not YAML: [");
    fs::create_dir_all(directory.0.join("directory.yaml")).expect("a directory");
    assert_eq!(names(std::slice::from_ref(&directory.0)), ["one first", "one second", "two third"]);
}

/// Tests beside the rules do not keep the rules from loading.
#[test]
fn tests_of_rules_are_skipped() {
    let tests = "tests:\n  - name: t\n    steps: [ { request: {}, expect: allowed } ]\n";
    let directory = TestDirectory::new("tests");
    directory.write("a.yaml", rule("one", "first"));
    let path = directory.write("a-tests.yaml", tests);
    assert_eq!(names(std::slice::from_ref(&directory.0)), ["one first"]);
    let loaded = rules::load(std::slice::from_ref(&directory.0)).expect("rules");
    let skipped: Vec<_> = loaded.report.skipped().iter().map(|file| (&*file.path, &*file.reason)).collect();
    assert_eq!(
        skipped,
        [(&*path.to_string_lossy(), "it has tests of rules, which `tidegate check --tests` runs")]
    );
    assert_eq!(rules::RuleTests::load(std::slice::from_ref(&path)).expect("tests").count(), 1);
    let report = directory.load_errors(&[path]);
    assert!(report.starts_with("error[tests-file]: the file has tests of rules, and no rules\n"), "{report}");
    assert!(report.contains("= help: run the tests with `tidegate check RULES --tests FILE`"), "{report}");
}

/// Rules beside the tests do not keep the tests from running.
#[test]
fn rules_beside_tests_are_skipped() {
    let tests = "tests:\n  - name: t\n    steps: [ { request: {}, expect: allowed } ]\n";
    let directory = TestDirectory::new("rules-beside-tests");
    directory.write("a.yaml", rule("one", "first"));
    directory.write("envoy.yaml", "domain: edge\ndescriptors: []\n");
    directory.write("a-tests.yaml", tests);
    let loaded = rules::RuleTests::load(std::slice::from_ref(&directory.0)).expect("tests");
    assert_eq!(loaded.count(), 1);
    let only_rules = TestDirectory::new("only-rules");
    only_rules.write("a.yaml", rule("one", "first"));
    let report =
        rules::RuleTests::load(std::slice::from_ref(&only_rules.0)).expect_err("no tests").to_string();
    assert!(report.starts_with("error[empty-directory]: the directory has no files of tests\n"), "{report}");
    let file = only_rules.0.join("a.yaml");
    assert!(rules::RuleTests::load(&[file]).is_err(), "a file that is named must have tests");
}

/// Reading from it would block.
#[cfg(unix)]
#[test]
fn a_pipe_with_the_name_of_a_rules_file_is_an_error() {
    for (name, content) in
        [("native", rule("one", "first")), ("envoy", "domain: edge\ndescriptors: []\n".to_owned())]
    {
        let directory = TestDirectory::new(&format!("pipe-{name}"));
        directory.write("a.yaml", content);
        let made = std::process::Command::new("mkfifo").arg(directory.0.join("b.yaml")).status();
        assert!(made.expect("mkfifo runs").success());
        let report = directory.load_errors(std::slice::from_ref(&directory.0));
        assert!(report.starts_with("error[not-a-file]: it is not a regular file\n--> "), "{report}");
    }
}

/// Directories with two dots belong to a ConfigMap. Files do not.
#[test]
fn files_with_two_dots_are_listed() {
    for content in [rule("one", "first"), "domain: edge\ndescriptors: []\n".to_owned()] {
        let directory = TestDirectory::new("two-dots");
        directory.write("a.yaml", content.clone());
        directory.write("..2026_11_16/b.yaml", content);
        let path = directory.write("..b.yaml", "not YAML: [");
        let loaded = rules::load(std::slice::from_ref(&directory.0)).expect("rules");
        let skipped: Vec<&str> = loaded.report.skipped().iter().map(|file| &*file.path).collect();
        assert_eq!(skipped, [&*path.to_string_lossy()]);
    }
}

/// A ConfigMap as Kubernetes mounts it: links into a directory that is a link itself.
#[cfg(unix)]
#[test]
fn the_links_of_a_config_map_are_files() {
    use std::os::unix::fs::symlink;
    let directory = TestDirectory::new("config-map");
    directory.write("..2026_11_16/rules.yaml", rule("api", "linked"));
    symlink("..2026_11_16", directory.0.join("..data")).expect("a link");
    symlink("..data/rules.yaml", directory.0.join("rules.yaml")).expect("a link");
    assert_eq!(names(std::slice::from_ref(&directory.0)), ["api linked"]);
    symlink("..data/gone.yaml", directory.0.join("gone.yaml")).expect("a link");
    assert!(
        directory
            .load_errors(std::slice::from_ref(&directory.0))
            .contains("error[unreadable]: it cannot be accessed: ")
    );
}

#[test]
fn all_bad_paths_are_reported_together() {
    let directory = TestDirectory::new("no-files");
    fs::create_dir_all(directory.0.join("empty")).expect("a directory");
    let paths = [directory.0.join("gone.yaml"), directory.0.join("empty"), PathBuf::from("/dev/null")];
    let expected = "\
error[no-such-file]: there is no such file or directory
--> gone.yaml
 = help: check the path

error[empty-directory]: the directory has no rules files
--> empty
 = help: rules files are named *.yaml or *.yml, or have `descriptors`

error[not-a-file]: it is neither a file nor a directory
--> /dev/null
 = help: use a regular file or a directory

3 errors, 0 warnings
";
    assert_eq!(directory.load_errors(&paths), expected);
    let report = rules::load(&[]).expect_err("nothing to read");
    assert!(report.to_string().starts_with("error[no-files]: there are no files to read"), "{report}");
}

#[test]
fn invalid_utf_8_is_refused_with_its_offset() {
    let directory = TestDirectory::new("bytes");
    let path = directory.write("latin.yaml", b"domain: caf\xe9\n");
    let expected = "\
error[not-utf-8]: the file is not UTF-8: invalid byte 0xe9 at offset 11
--> latin.yaml
 = help: save it as UTF-8

1 error, 0 warnings
";
    assert_eq!(directory.load_errors(&[path]), expected);
    let path = directory.write("large.yaml", vec![b' '; FILE_BYTES_MAX + 1]);
    let report = directory.load_errors(&[path]);
    assert!(
        report.starts_with("error[file-too-large]: the file has more than 16777216 bytes\n--> large.yaml\n"),
        "{report}"
    );
}

#[test]
fn files_are_bounded_in_number() {
    let directory = TestDirectory::new("many");
    for number in 0..FILES_MAX {
        directory.write(&format!("{number:05}.yaml"), rule(&format!("domain{number}"), "all"));
    }
    assert_eq!(names(std::slice::from_ref(&directory.0)).len(), FILES_MAX);
    directory.write("one-more.yaml", rule("more", "all"));
    let report = directory.load_errors(std::slice::from_ref(&directory.0));
    assert!(report.starts_with("error[too-many-files]: there are more than 4096 files"), "{report}");
}

#[test]
fn a_byte_order_mark_and_crlf_are_accepted() {
    let loaded =
        rules::parse("bom.yaml", &format!("\u{feff}{}", rule("api", "all"))).expect("a byte order mark");
    assert_eq!(&*loaded.domains[0].name, "api");
    let windows = rule("api", "all").replace('\n', "\r\n");
    assert_eq!(&*rules::parse("crlf.yaml", &windows).expect("CRLF").domains[0].name, "api");
}
