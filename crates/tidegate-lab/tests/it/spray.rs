//! The bounds of the memory store under a flood of keys, sized down from `tidegate-lab spray`.

use tidegate::AlgorithmName;
use tidegate_lab::Bytes;
use tidegate_lab::spray::{HotKey, Report, Spray};

const MEMORY_MAX: Bytes = Bytes(8 << 20);
/// Three times as many as fit.
const KEYS: u64 = 1_000_000;
/// A ledger takes more memory and more time than a state of 16 bytes.
const LEDGER_KEYS: u64 = 200_000;

/// Sprays over 100 seconds, the hot key 10,000 times.
fn spray(keys: u64, algorithm: AlgorithmName) -> Report {
    let mut spray = Spray::new(keys, MEMORY_MAX, algorithm);
    spray.hot_every_keys = keys / 10_000;
    spray.step_ns = 100_000_000_000 / keys;
    spray.run(|_| {}).expect("the limits are limits")
}

fn bounds_hold(report: &Report) {
    assert!(report.store_bytes <= MEMORY_MAX.0, "{report}");
    assert!(report.live_evictions > 0, "{report}");
    assert_eq!(report.admitted, report.spray.keys, "a key never seen was denied\n{report}");
    // 1,000 a day at once, and one more after each 86.4 seconds.
    assert_eq!(report.hot, HotKey { asked: 10_000, admitted: 1_001, allowed: 1_001 }, "{report}");
}

#[test]
fn a_flood_of_gcra_keys_stays_in_bounds() {
    bounds_hold(&spray(KEYS, AlgorithmName::Gcra));
}

#[test]
fn a_flood_of_fixed_window_keys_stays_in_bounds() {
    bounds_hold(&spray(KEYS, AlgorithmName::FixedWindow));
}

#[test]
fn a_flood_of_sliding_window_keys_stays_in_bounds() {
    bounds_hold(&spray(KEYS, AlgorithmName::SlidingWindow));
}

#[test]
fn a_flood_of_sliding_logs_stays_in_bounds() {
    bounds_hold(&spray(LEDGER_KEYS, AlgorithmName::SlidingLog));
}

#[test]
fn a_flood_of_sub_windows_stays_in_bounds() {
    bounds_hold(&spray(LEDGER_KEYS, AlgorithmName::SubWindows));
}

#[test]
fn a_flood_of_leases_stays_in_bounds() {
    bounds_hold(&spray(LEDGER_KEYS, AlgorithmName::Concurrency));
}

/// Resident memory is the process's, and this one runs the other tests too.
#[cfg(target_os = "linux")]
#[test]
fn the_process_stays_within_a_quarter_above_the_bound() {
    let lab = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate-lab"))
        .args(["spray", "--algorithm", "gcra,sliding_log", "--memory-max", "48MiB", "--keys", "2500000"])
        .output()
        .expect("the program was built");
    let stdout = String::from_utf8_lossy(&lab.stdout);
    assert!(lab.status.success(), "{stdout}{}", String::from_utf8_lossy(&lab.stderr));
    assert_eq!(stdout.matches("every bound held").count(), 2, "{stdout}");
}

#[test]
fn a_limit_that_is_none_is_named() {
    let spray = Spray { limit: "ten per hour".to_owned(), ..Spray::new(1, MEMORY_MAX, AlgorithmName::Gcra) };
    let error = spray.run(|_| {}).expect_err("that is no limit");
    assert!(error.to_string().contains("ten per hour"), "{error}");
}
