//! The text of every error and warning: the report for each `reports/NAME.yaml` must equal
//! `reports/NAME.txt`.
//!
//! `TIDEGATE_WRITE=1 cargo test -p tidegate --features rules --test it rules_envoy` writes the expected
//! reports.

use std::fs;
use std::path::{Path, PathBuf};

use super::load;

#[test]
fn every_report_matches_the_expected_text() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/rules_envoy/reports");
    let write = std::env::var_os("TIDEGATE_WRITE").is_some();
    let mut files: Vec<PathBuf> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(files.len() >= 29, "only {} files", files.len());
    let mut different = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let report = match load(&text) {
            Ok(loaded) => loaded.report.to_string(),
            Err(report) => report.to_string(),
        };
        let expected_path = file.with_extension("txt");
        if write {
            fs::write(&expected_path, &report).unwrap();
        } else if fs::read_to_string(&expected_path).unwrap_or_default() != report {
            different.push(format!("{}:\n{report}", file.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
