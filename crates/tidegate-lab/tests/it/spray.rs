//! Small runs of `tidegate-lab spray`: the bounds of the memory store under a flood of keys.

use tidegate::AlgorithmName;
use tidegate_lab::Bytes;
use tidegate_lab::spray::{HotKey, Spray, SprayReport};

const MEMORY_MAX: Bytes = Bytes(8 << 20);
/// Three times the keys that fit.
const KEYS: u64 = 1_000_000;
/// A usage log takes more memory and time than a state of 16 bytes.
const LOG_KEYS: u64 = 200_000;

/// Sprays for 100 simulated seconds, with 10,000 requests of the hot key.
fn spray(keys: u64, algorithm: AlgorithmName) -> SprayReport {
    let mut spray = Spray::new(keys, MEMORY_MAX, algorithm);
    spray.hot_every_keys = keys / 10_000;
    spray.step_ns = 100_000_000_000 / keys;
    spray.run(|_| {}).expect("the limits are valid")
}

fn bounds_hold(report: &SprayReport) {
    assert!(report.store_bytes <= MEMORY_MAX.0, "{report}");
    assert_eq!(report.admitted + report.lease_refusals, report.spray.keys, "a new key was denied\n{report}");
    // 1,000 per day in one burst, and one more every 86.4 seconds.
    assert_eq!(report.hot, HotKey { requests: 10_000, admitted: 1_001, allowed: 1_001 }, "{report}");
}

fn evicts_in_bounds(report: &SprayReport) {
    bounds_hold(report);
    assert!(report.live_evictions > 0 && report.lease_refusals == 0, "{report}");
}

#[test]
fn a_flood_of_gcra_keys_stays_in_bounds() {
    evicts_in_bounds(&spray(KEYS, AlgorithmName::Gcra));
}

#[test]
fn a_flood_of_fixed_window_keys_stays_in_bounds() {
    evicts_in_bounds(&spray(KEYS, AlgorithmName::FixedWindow));
}

#[test]
fn a_flood_of_sliding_window_keys_stays_in_bounds() {
    evicts_in_bounds(&spray(KEYS, AlgorithmName::SlidingWindow));
}

#[test]
fn a_flood_of_sliding_logs_stays_in_bounds() {
    evicts_in_bounds(&spray(LOG_KEYS, AlgorithmName::SlidingLog));
}

#[test]
fn a_flood_of_sub_windows_stays_in_bounds() {
    evicts_in_bounds(&spray(LOG_KEYS, AlgorithmName::SubWindows));
}

/// Leases are refused, not evicted.
#[test]
fn a_flood_of_leases_stays_in_bounds() {
    let report = spray(LOG_KEYS, AlgorithmName::Concurrency);
    bounds_hold(&report);
    assert!(report.lease_refusals > 0 && report.live_evictions == 0, "{report}");
}

/// The worst case: every distinct key resets later than the hot key.
#[test]
fn a_flood_of_daily_keys_does_not_reset_a_counter_of_a_minute() {
    let mut spray = Spray::new(KEYS, MEMORY_MAX, AlgorithmName::Gcra);
    spray.limit = "1 per day".to_owned();
    spray.hot_limit = "10 per minute".to_owned();
    // Eight simulated seconds.
    spray.step_ns = 8_000_000_000 / KEYS;
    let report = spray.run(|_| {}).expect("the limits are valid");
    assert!(report.live_evictions > 0, "{report}");
    assert_eq!(report.hot, HotKey { requests: 1_000, admitted: 11, allowed: 11 }, "{report}");
}

/// Sprays 2.5 million keys into 48 MiB, in a process of its own, because this one also runs other tests. All bounds
/// must hold in each of `runs`.
#[cfg(target_os = "linux")]
fn spray_in_a_process(options: &[&str], runs: usize) {
    let lab = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate-lab"))
        .args(["spray", "--memory-max", "48MiB", "--keys", "2500000"])
        .args(options)
        .output()
        .expect("the program was built");
    let stdout = String::from_utf8_lossy(&lab.stdout);
    assert!(lab.status.success(), "{stdout}{}", String::from_utf8_lossy(&lab.stderr));
    assert_eq!(stdout.matches("every bound held").count(), runs, "{stdout}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_stays_within_a_quarter_above_the_bound() {
    spray_in_a_process(&["--algorithm", "gcra,sliding_log"], 2);
}

/// The command of BENCHMARKS.md, at a smaller size and within the same simulated time.
#[cfg(target_os = "linux")]
#[test]
fn a_process_is_sprayed_with_keys_that_reset_later_than_the_hot_key() {
    spray_in_a_process(&["--limit", "1 per day", "--hot-limit", "10 per minute", "--step-ns", "3200"], 1);
}

#[test]
fn an_invalid_limit_is_named() {
    let spray = Spray { limit: "ten per hour".to_owned(), ..Spray::new(1, MEMORY_MAX, AlgorithmName::Gcra) };
    let error = spray.run(|_| {}).expect_err("the limit is invalid");
    assert!(error.to_string().contains("ten per hour"), "{error}");
}
