//! The text of every error and warning: each `refused/NAME.yaml` is answered with `refused/NAME.txt`, to the letter.
//!
//! `TIDEGATE_WRITE=1 cargo test -p tidegate --features rules --test rules_envoy refused` writes the answers anew.

use std::fs;
use std::path::{Path, PathBuf};

use super::load;

#[test]
fn every_report_matches_the_expected_text() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/rules_envoy/refused");
    let write = std::env::var_os("TIDEGATE_WRITE").is_some();
    let mut files: Vec<PathBuf> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(files.len() >= 29, "only {} files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let answer = match load(&text) {
            Ok(loaded) => loaded.report.to_string(),
            Err(report) => report.to_string(),
        };
        let written = file.with_extension("txt");
        if write {
            fs::write(&written, &answer).unwrap();
        } else if fs::read_to_string(&written).unwrap_or_default() != answer {
            wrong.push(format!("{}:\n{answer}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
