//! Files and directories as they are found on a disk.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::rules::{self, FILE_BYTES_MAX, FILES_MAX, Report};

/// A directory of its own, gone when the test is over.
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

    /// What is said, with the directory left out.
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
    let scratch = TestDirectory::new("directory");
    scratch.write("b.yml", rule("one", "second"));
    scratch.write("a.yaml", rule("one", "first"));
    scratch.write("c.yaml", rule("two", "third"));
    scratch.write("README.md", "not YAML: [");
    scratch.write(".hidden.yaml", "not YAML: [");
    scratch.write("below/d.yaml", "not YAML: [");
    fs::create_dir_all(scratch.0.join("directory.yaml")).expect("a directory");
    assert_eq!(names(std::slice::from_ref(&scratch.0)), ["one first", "one second", "two third"]);
}

/// As Kubernetes mounts a ConfigMap: links into a directory that is a link itself.
#[cfg(unix)]
#[test]
fn the_links_of_a_config_map_are_files() {
    use std::os::unix::fs::symlink;
    let scratch = TestDirectory::new("config-map");
    scratch.write("..2026_11_16/rules.yaml", rule("api", "linked"));
    symlink("..2026_11_16", scratch.0.join("..data")).expect("a link");
    symlink("..data/rules.yaml", scratch.0.join("rules.yaml")).expect("a link");
    assert_eq!(names(std::slice::from_ref(&scratch.0)), ["api linked"]);
    symlink("..data/gone.yaml", scratch.0.join("gone.yaml")).expect("a link");
    assert!(
        scratch
            .load_errors(std::slice::from_ref(&scratch.0))
            .contains("error[unreadable]: it cannot be looked at: ")
    );
}

#[test]
fn all_bad_paths_are_reported_together() {
    let scratch = TestDirectory::new("no-files");
    fs::create_dir_all(scratch.0.join("empty")).expect("a directory");
    let paths = [scratch.0.join("gone.yaml"), scratch.0.join("empty"), PathBuf::from("/dev/null")];
    let expected = "\
error[no-such-file]: there is no such file or directory
--> gone.yaml
 = help: check the path

error[empty-directory]: the directory has no rules files
--> empty
 = help: rules files are named *.yaml or *.yml

error[not-a-file]: it is neither a file nor a directory
--> /dev/null
 = help: name a file or a directory of them

3 errors, 0 warnings
";
    assert_eq!(scratch.load_errors(&paths), expected);
    let nothing = rules::load(&[]).expect_err("nothing to read");
    assert!(nothing.to_string().starts_with("error[no-files]: there are no files to read"), "{nothing}");
}

#[test]
fn invalid_utf_8_is_refused_with_its_offset() {
    let scratch = TestDirectory::new("bytes");
    let path = scratch.write("latin.yaml", b"domain: caf\xe9\n");
    let expected = "\
error[not-utf-8]: the file is not UTF-8: byte 11 (0xe9) is not
--> latin.yaml
 = help: save it as UTF-8

1 error, 0 warnings
";
    assert_eq!(scratch.load_errors(&[path]), expected);
    let path = scratch.write("large.yaml", vec![b' '; FILE_BYTES_MAX + 1]);
    let said = scratch.load_errors(&[path]);
    assert!(
        said.starts_with("error[file-too-large]: the file has more than 16777216 bytes\n--> large.yaml\n"),
        "{said}"
    );
}

#[test]
fn files_are_bounded_in_number() {
    let scratch = TestDirectory::new("many");
    for number in 0..FILES_MAX {
        scratch.write(&format!("{number:05}.yaml"), rule(&format!("domain{number}"), "all"));
    }
    assert_eq!(names(std::slice::from_ref(&scratch.0)).len(), FILES_MAX);
    scratch.write("one-more.yaml", rule("more", "all"));
    let said = scratch.load_errors(std::slice::from_ref(&scratch.0));
    assert!(said.starts_with("error[too-many-files]: there are more than 4096 files"), "{said}");
}

#[test]
fn a_byte_order_mark_and_crlf_are_accepted() {
    let loaded =
        rules::parse("bom.yaml", &format!("\u{feff}{}", rule("api", "all"))).expect("a byte order mark");
    assert_eq!(&*loaded.domains[0].name, "api");
    let windows = rule("api", "all").replace('\n', "\r\n");
    assert_eq!(&*rules::parse("crlf.yaml", &windows).expect("CRLF").domains[0].name, "api");
}
