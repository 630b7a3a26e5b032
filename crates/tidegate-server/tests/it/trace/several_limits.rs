//! Several limits: a request must pass all of them, or none is charged.

use super::runner::{assert_decisions, step, tidegate, trace_args};

const MINUTE: u64 = 60_000;

#[test]
fn all_or_nothing() {
    let window = "{algorithm: fixed_window, limit: 2, per: 1m}";
    let gcra = "1 per minute burst 3";
    let steps = [
        // The window has 1 left and the bucket has 2. After the second request they have 0 and 1.
        step(0, 1, "1 1 0 0"),
        step(0, 1, "1 0 0 0"),
        // The window denies, so the bucket keeps its 1.
        step(0, 1, "0 0 60000000000 0"),
        // If the bucket had been charged, it would have 1 now, not 2.
        step(MINUTE, 2, "1 0 0 0"),
        // A new window, but the bucket has only 1: it denies, and the window is not charged.
        step(2 * MINUTE, 2, "0 1 60000000000 0"),
        // If the window had been charged, this would be denied.
        step(2 * MINUTE, 1, "1 0 0 0"),
    ];
    assert_decisions(&[window, gcra], &steps);
    assert_decisions(&[gcra, window], &steps);
}

#[test]
fn denied_attempts_count_across_limits() {
    let window = "{algorithm: fixed_window, limit: 3, per: 1m, count_denied: true}";
    let steps = [
        step(0, 1, "1 0 0 0"),
        // The bucket denies for a second. The window counts 2, so one more would fit.
        step(0, 1, "0 0 1000000000 0"),
        // The window counts 3, so only the next window admits this request.
        step(0, 1, "0 0 60000000000 0"),
        // The bucket has 1 again, but the window denies.
        step(1_000, 1, "0 0 59000000000 0"),
        step(MINUTE, 1, "1 0 0 0"),
    ];
    assert_decisions(&[window, "1/s"], &steps);
    assert_decisions(&["1/s", window], &steps);
}

#[test]
fn never_outranks_any_retry_after() {
    let steps = [step(0, 3, "1 0 0 0"), step(0, 4, "0 0 -1 0"), step(0, 3, "0 0 180000000000 0")];
    assert_decisions(&["1 per minute burst 3", "1/s burst 9"], &steps);
}

#[test]
fn equal_limits_count_separately() {
    assert_decisions(&["2/s", "2/s"], &[step(0, 1, "1 1 0 0"), step(0, 1, "1 0 0 0")]);
}

#[test]
fn many_limits() {
    let limits = vec!["1/s"; 32];
    assert_decisions(&limits, &[step(0, 1, "1 0 0 0"), step(0, 1, "0 0 1000000000 0")]);

    let run = tidegate(&trace_args(&[limits, vec!["1/s"]].concat(), &["-"]), "");
    assert_eq!(run.code, Some(2));
    assert_eq!(run.err, "error: 33 limits are too many (hint: 32 are the most for one limiter)\n");
}

#[test]
fn limit_names_are_unique() {
    let limits = ["{limit: 1, per: 1s, name: api}", "{limit: 2, per: 1s, name: api}"];
    let run = tidegate(&trace_args(&limits, &["-"]), "");
    assert_eq!(run.code, Some(2));
    assert_eq!(
        run.err,
        "error: two limits are named `api` (hint: names tell limits apart; choose another)\n"
    );
}
