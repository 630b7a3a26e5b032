//! A small run of `tidegate-lab config-store`.

use std::path::{Path, PathBuf};

use tidegate_lab::Bytes;
use tidegate_lab::config_store::{ConfigStoreMeasurement, EngineName};

fn measurement(entries: u64, directory: PathBuf) -> ConfigStoreMeasurement {
    let (cache, filter) = (Bytes(4 << 20), Bytes(1 << 20));
    ConfigStoreMeasurement { entries, engine: EngineName::Redb, cache, filter, directory }
}

#[test]
fn a_small_store_is_measured_and_removed() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("config-store-small");
    std::fs::create_dir_all(&directory).expect("the target directory can be written to");
    let mut loaded = 0;
    let report = measurement(25_000, directory.clone()).run(|entries| loaded = entries);
    let report = report.unwrap_or_else(|error| panic!("{error}")).to_string();
    assert_eq!(loaded, 25_000);
    for text in
        ["bytes per entry", "present, cold", "absent, warm", "filter of keys built in", "posix_fadvise"]
    {
        assert!(report.contains(text), "{report}");
    }
    assert_eq!(std::fs::read_dir(&directory).expect("the directory exists").count(), 0);
    std::fs::remove_dir(&directory).expect("it is empty");
}

#[test]
fn too_little_disk_is_an_error_before_anything_is_written() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let error = measurement(u64::MAX, directory.clone()).check_disk().expect_err("no disk is that large");
    assert!(error.contains("are free (hint: "), "{error}");
    let space = measurement(1, directory).check_disk().expect("there is some space");
    assert!(space.contains("are free"), "{space}");
    let error = measurement(1, PathBuf::from("no/such/directory")).check_disk().expect_err("it is missing");
    assert!(error.contains("(hint: "), "{error}");
}
