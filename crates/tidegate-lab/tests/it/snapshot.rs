//! A small run of `tidegate-lab snapshot`.

use std::path::{Path, PathBuf};

use tidegate::AlgorithmName;
use tidegate::snapshot::RestoreStatus;
use tidegate_lab::snapshot::{Measurement, MeasurementError, MeasurementReport};

const KEYS: u64 = 20_000;

fn measure(algorithm: AlgorithmName, directory: PathBuf) -> Result<MeasurementReport, MeasurementError> {
    Measurement { keys: KEYS, algorithm, directory }.run(|_| {})
}

#[test]
fn every_key_is_written_and_restored_and_the_file_is_removed() {
    for algorithm in AlgorithmName::ALL {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("snapshot-of-{algorithm}"));
        std::fs::create_dir_all(&directory).expect("the target directory can be written to");
        let report = measure(algorithm, directory.clone()).expect("the snapshot is written");
        let RestoreStatus::Restored { restored, expired, .. } = report.found else {
            panic!("{}", report.found)
        };
        assert!(restored >= KEYS && restored <= report.written.entries, "{report}");
        assert_eq!(expired, 0, "{report}");
        assert_eq!(report.alone.latencies.count, report.during.latencies.count);
        assert_eq!(std::fs::read_dir(&directory).expect("the directory exists").count(), 0);
        std::fs::remove_dir(&directory).expect("it is empty");
    }
}

#[test]
fn a_missing_directory_is_an_error() {
    let error = measure(AlgorithmName::Gcra, PathBuf::from("no/such/directory"))
        .expect_err("the directory is missing");
    assert!(error.to_string().contains("its directory does not exist"), "{error}");
}
