//! Every algorithm on a trace that is short enough to compute by hand.

use super::runner::{Run, assert_decisions, step, tidegate, trace_args};

const SECOND: u64 = 1_000;
const DECADE_MS: u64 = 3_650 * 86_400 * SECOND;

#[test]
fn gcra() {
    // One unit comes back every 100 ms.
    let steps = [
        step(0, 20, "1 0 0 0"),
        step(0, 1, "0 0 100000000 0"),
        step(50, 1, "0 0 50000000 0"),
        step(100, 1, "1 0 0 0"),
        // Ten units came back, five are taken.
        step(1_100, 5, "1 5 0 0"),
        // 5 are available; the missing 7 take 700 ms.
        step(1_100, 12, "0 5 700000000 0"),
        step(1_100, 21, "0 5 -1 0"),
        // Full again, and never more than full.
        step(60 * SECOND, 0, "1 20 0 0"),
    ];
    assert_decisions(&["10/s burst 20"], &steps);
    assert_decisions(&["{algorithm: gcra, limit: 10, per: 1s, burst: 20}"], &steps);
    assert_decisions(&["{algorithm: token_bucket, limit: 10, per: 1s, burst: 20}"], &steps);
}

#[test]
fn sliding_window() {
    let steps = [
        step(30 * SECOND, 100, "1 0 0 0"),
        // Admitted when 100*(60-e) + 1*60 <= 100*60, so e = 0.6 s into the next window: at 60.6 s.
        step(30 * SECOND, 1, "0 0 30600000000 0"),
        // e = 15: 100*45/60 = 75 of the previous window still count.
        step(75 * SECOND, 25, "1 0 0 0"),
        // 100*(60-e) + 26*60 <= 6000 at e = 15.6.
        step(75 * SECOND, 1, "0 0 600000000 0"),
        // A whole window was skipped.
        step(180 * SECOND, 40, "1 60 0 0"),
        step(180 * SECOND, 101, "0 60 -1 0"),
    ];
    assert_decisions(&["{algorithm: sliding_window, limit: 100, per: 60s}"], &steps);
}

#[test]
fn sub_windows() {
    // A sub-window is one second. If not strict, the sub-window of the first request counts until 60 s.
    let steps = [
        step(500, 20, "1 0 0 0"),
        step(59_900, 1, "0 0 100000000 0"),
        step(60 * SECOND, 3, "1 17 0 0"),
        // 3 + 18 is one too many; the 3 no longer count at 120 s.
        step(60 * SECOND, 18, "0 17 60000000000 0"),
    ];
    let limit = "{algorithm: sub_windows, limit: 20, per: 60000000000ns, sub_windows: 60, strict: false}";
    assert_decisions(&[limit], &steps);

    // If strict, it counts for one second more.
    let steps = [
        step(500, 20, "1 0 0 0"),
        step(60 * SECOND, 3, "0 0 1000000000 0"),
        step(61 * SECOND, 3, "1 17 0 0"),
    ];
    assert_decisions(&["{algorithm: sub_windows, limit: 20, per: 60s}"], &steps);
}

#[test]
fn leaky_bucket() {
    // Units leave 100 ms apart: one immediately, nine wait.
    let steps = [
        step(0, 1, "1 9 0 0"),
        step(0, 1, "1 8 0 100000000"),
        // The last of these units is the tenth: it leaves at 900 ms.
        step(0, 8, "1 0 0 900000000"),
        step(0, 1, "0 0 100000000 0"),
        // Leaves at 1 s, after the ten before it.
        step(100, 1, "1 0 0 900000000"),
        step(100, 0, "1 0 0 0"),
        step(100, 11, "0 0 -1 0"),
    ];
    assert_decisions(&["{algorithm: leaky_bucket, limit: 10, per: 1s, queue: 9}"], &steps);
}

#[test]
fn fixed_window() {
    let steps = [
        step(5 * SECOND, 6, "1 4 0 0"),
        // Denied requests are not charged, so 4 are still left. Requests at equal times keep their order.
        step(6 * SECOND, 5, "0 4 54000000000 0"),
        step(6 * SECOND, 4, "1 0 0 0"),
        step(60 * SECOND, 1, "1 9 0 0"),
    ];
    assert_decisions(&["{algorithm: fixed_window, limit: 10, per: 60s}"], &steps);

    // The window starts at the first hit and lasts until 65 s.
    let steps = [
        step(5 * SECOND, 10, "1 0 0 0"),
        step(60 * SECOND, 1, "0 0 5000000000 0"),
        step(65 * SECOND, 1, "1 9 0 0"),
    ];
    assert_decisions(&["{algorithm: fixed_window, limit: 10, per: 60s, align: first_hit}"], &steps);
}

/// October 26th 2025 has 25 hours in Paris, and is the first day of a week that starts on Sunday.
#[test]
fn fixed_window_of_a_calendar() {
    const MIDNIGHT: u64 = 1_761_429_600_000;
    const HOUR: u64 = 3_600_000;
    let steps = [
        step(MIDNIGHT - 1, 10, "1 0 0 0"),
        step(MIDNIGHT, 4, "1 6 0 0"),
        step(MIDNIGHT, 7, "0 6 90000000000000 0"),
        step(MIDNIGHT + 24 * HOUR, 6, "1 0 0 0"),
        step(MIDNIGHT + 24 * HOUR, 1, "0 0 3600000000000 0"),
        step(MIDNIGHT + 25 * HOUR, 1, "1 9 0 0"),
    ];
    assert_decisions(&["{algorithm: fixed_window, limit: 10, per: day, align: {tz: Europe/Paris}}"], &steps);

    let steps = [
        step(MIDNIGHT - 1, 10, "1 0 0 0"),
        step(MIDNIGHT, 10, "1 0 0 0"),
        step(MIDNIGHT, 1, "0 0 608400000000000 0"),
        step(MIDNIGHT + 169 * HOUR, 1, "1 9 0 0"),
    ];
    let limit =
        "{algorithm: fixed_window, limit: 10, per: week, align: {tz: Europe/Paris, week_starts: sunday}}";
    assert_decisions(&[limit], &steps);
}

#[test]
fn fixed_window_that_counts_denied_attempts() {
    let steps = [
        step(5 * SECOND, 8, "1 2 0 0"),
        // 8 + 5 = 13 are counted, so none is left until the window ends.
        step(6 * SECOND, 5, "0 0 54000000000 0"),
        step(7 * SECOND, 1, "0 0 53000000000 0"),
        // Even a cost of zero is denied while the limit is exceeded.
        step(7 * SECOND, 0, "0 0 53000000000 0"),
        // A cost above the limit is counted too, and fills the new window.
        step(60 * SECOND, 11, "0 0 -1 0"),
        step(60 * SECOND, 1, "0 0 60000000000 0"),
    ];
    assert_decisions(&["{algorithm: fixed_window, limit: 10, per: 60s, count_denied: true}"], &steps);
}

#[test]
fn sliding_log() {
    let steps = [
        step(0, 4, "1 6 0 0"),
        step(10 * SECOND, 6, "1 0 0 0"),
        // The 4 of 0 s are out of the window at 60 s; a cost of 5 also needs the 6 of 10 s to be out.
        step(20 * SECOND, 4, "0 0 40000000000 0"),
        step(20 * SECOND, 5, "0 0 50000000000 0"),
        // An entry that is exactly one window old is out.
        step(60 * SECOND, 4, "1 0 0 0"),
    ];
    assert_decisions(&["{algorithm: sliding_log, limit: 10, per: 60s}"], &steps);
}

#[test]
fn sliding_log_that_counts_denied_attempts_and_spaces_requests() {
    let steps = [
        step(0, 1, "1 9 0 0"),
        // Too soon, but counted: the next request must come 600 ms after this one.
        step(500, 1, "0 8 600000000 0"),
        step(1_000, 1, "0 7 600000000 0"),
        step(1_600, 1, "1 6 0 0"),
        // 4 + 7 = 11. The attempt itself is counted, so a retry must wait until it is out of the window.
        step(3_000, 7, "0 0 60000000000 0"),
        // (2 s, 62 s] contains those 7.
        step(62_000, 1, "1 2 0 0"),
    ];
    let limit = "{algorithm: sliding_log, limit: 10, per: 60s, count_denied: true, min_interval: 600ms}";
    assert_decisions(&[limit], &steps);
}

#[test]
fn cost_zero_changes_nothing() {
    let steps = [
        step(0, 0, "1 2 0 0"),
        step(0, 2, "1 0 0 0"),
        // At the limit is not over the limit.
        step(0, 0, "1 0 0 0"),
        step(0, 1, "0 0 500000000 0"),
    ];
    assert_decisions(&["2/s"], &steps);
    assert_decisions(&["0/s"], &[step(0, 0, "1 0 0 0"), step(0, 1, "0 0 -1 0")]);
}

#[test]
fn numbers_past_64_bits() {
    // 1000 units of ten years each are 3.1536e20 ns.
    let steps = [step(0, 1_000, "1 0 0 0"), step(0, 1_000, "0 0 315360000000000000000 0")];
    assert_decisions(&["{algorithm: gcra, limit: 1, per: 3650d, burst: 1000}"], &steps);

    // One unit leaves immediately. The last of the thousand that wait leaves after a thousand decades.
    let steps =
        [step(0, 1_001, "1 0 0 315360000000000000000"), step(DECADE_MS, 1, "1 0 0 315360000000000000000")];
    assert_decisions(&["{algorithm: leaky_bucket, limit: 1, per: 3650d, queue: 1000}"], &steps);

    let trace = "18446744073709551615 k 18446744073709551615\n18446744073709551615 k 10\n";
    let run = tidegate(&trace_args(&["10/s"], &["--decisions", "-"]), trace);
    assert_eq!(run, Run { code: Some(0), out: "0 10 -1 0\n1 0 0 0\n".into(), err: String::new() });
}

#[test]
fn time_that_steps_back() {
    // The next unit comes at 6 s, even if the clock goes back.
    let steps = [step(5 * SECOND, 1, "1 0 0 0"), step(SECOND, 1, "0 0 5000000000 0")];
    assert_decisions(&["1/s"], &steps);

    // Counted in the window of 61 s, which ends at 120 s.
    let steps = [step(61 * SECOND, 1, "1 0 0 0"), step(59 * SECOND, 1, "0 0 61000000000 0")];
    assert_decisions(&["{algorithm: fixed_window, limit: 1, per: 60s}"], &steps);

    // A state that is idle at the latest time is live again at an earlier time.
    let trace = "0 a 1\n99000000000 b 1\n500000000 a 1\n";
    let run = tidegate(&trace_args(&["1/s"], &["--decisions", "-"]), trace);
    assert_eq!(run.out, "1 0 0 0\n1 0 0 0\n0 0 500000000 0\n");
}

#[test]
fn every_key_has_its_own_limit_and_is_any_bytes() {
    let trace = b"0 a 1\n0 \xff\xfe 1\r\n0 a 1\n0\t\xff\xfe  1\n0 \xc3\xa4 1";
    let run = tidegate(&trace_args(&["1/s"], &["--decisions", "-"]), trace);
    let expected = "1 0 0 0\n1 0 0 0\n0 0 1000000000 0\n0 0 1000000000 0\n1 0 0 0\n";
    assert_eq!(run, Run { code: Some(0), out: expected.into(), err: String::new() });
}

#[test]
fn no_requests_no_decisions() {
    for trace in ["", "\n", "\r\n \n"] {
        let run = tidegate(&trace_args(&["1/s"], &["--decisions", "-"]), trace);
        assert_eq!(run, Run { code: Some(0), out: String::new(), err: String::new() });
    }
}
