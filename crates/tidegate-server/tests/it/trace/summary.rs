//! The exact text of the summary.

use super::runner::{tidegate, trace_args};

fn summary(limits: &[&str], trace: &str) -> String {
    let run = tidegate(&trace_args(limits, &["-"]), trace);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    run.out
}

#[test]
fn one_limit() {
    // `a` gets 2 in the first window and 2 in the second, all 4 of them in (0 s, 1 s], and is denied twice. The log
    // denies the 2 at 1 s and admits the last, because the 2 at 0.9 s are out of its window by then.
    let trace = "900000000 a 1\n900000000 a 1\n1000000000 a 1\n1000000000 a 1\n1000000000 a 1\n1500000000 b 1\n\
                 1950000000 a 1\n";
    let expected = "\
Limits
  1  {algorithm: fixed_window, limit: 2, per: 1s}

Trace
  keys                     2
  time span            1.05s  from 1970-01-01T00:00:00.900Z to 1970-01-01T00:00:01.950Z
  requests                 7
    allowed                5   71.43%
    denied                 2   28.57%

Busiest keys      requests       allowed        denied  █ allowed ░ denied
  a                      6             4             2  █████████████░░░░░░░
  b                      1             1             0  ███

Worst overshoot of any key in any window
  1  2 over: 4 admitted, the limit is 2 in 1s, 2.00 times as much
     key a, in the window that ends at 1970-01-01T00:00:01Z

Comparison with the exact sliding log
  decided differently                              3   42.86%
    admitted here, denied by the log               2   28.57%
    denied here, admitted by the log               1   14.29%
";
    assert_eq!(summary(&["{algorithm: fixed_window, limit: 2, per: 1s}"], trace), expected);
}

#[test]
fn several_limits_costs_and_backward_times() {
    // The bucket of 4 gives `x` 3 units at 61 s. Then 2 do not fit, 1 does. A second earlier the bucket is still empty,
    // and 1000 never fit. A log of 3 per minute denies the 1.
    let trace = "61000000000 x\u{7} 3\n61000000000 x\u{7} 2\n61000000000 x\u{7} 1\n60000000000 x\u{7} 1\n\
                 121000000000 x\u{7} 1000\n121000000000 longer-than-the-forty-characters-that-are-shown 0\n";
    let expected = "\
Limits
  1  {algorithm: gcra, limit: 3, per: 1m, burst: 4}
  2  {algorithm: sliding_log, limit: 100, per: 1h, name: hourly}

Trace
  keys                     2
  time span            1m 1s  from 1970-01-01T00:01:00Z to 1970-01-01T00:02:01Z
  steps back               1
  requests                 6
    allowed                3   50.00%
    denied                 3   50.00%
  cost                 1,007
    allowed                4    0.40%
    denied             1,003   99.60%

Busiest keys                                     requests       allowed        denied  █ allowed ░ denied
  x\\u{7}                                                5             2             3  ████████░░░░░░░░░░░░
  longer-than-the-forty-characters-that-ar…             1             1             0  ████

Worst overshoot of any key in any window
  1  1 over: 4 admitted, the limit is 3 in 1m, 1.33 times as much
     key x\\u{7}, in the window that ends at 1970-01-01T00:01:01Z
  2  none

Comparison with the exact sliding log
  decided differently                              1   16.67%
    admitted here, denied by the log               1   16.67%
    denied here, admitted by the log               0    0.00%
";
    let limits = ["3 per minute burst 4", "{algorithm: sliding_log, limit: 100, per: 1h, name: hourly}"];
    assert_eq!(summary(&limits, trace), expected);
}

/// One unit in February and one in March, 28 days apart. The nominal month has 30 days.
#[test]
fn calendar_windows() {
    let limit = "{algorithm: fixed_window, limit: 1, per: month, align: {tz: Europe/Paris}}";
    let out = summary(&[limit], "1738364400000000000 a 1\n1740783600000000000 a 1\n");
    assert!(out.starts_with(&format!("Limits\n  1  {limit}\n")), "{out}");
    assert!(out.contains("    allowed                2  100.00%\n"), "{out}");
    assert!(out.contains("\n  1  1 over: 2 admitted, the limit is 1 in 30d, 2.00 times as much\n"), "{out}");
    assert!(out.contains("admitted here, denied by the log               1   50.00%\n"), "{out}");
}

#[test]
fn empty_trace() {
    let expected = "\
Limits
  1  {algorithm: gcra, limit: 1, per: 1s}

Trace
  keys                     0
  time span                -
  requests                 0
    allowed                0        -
    denied                 0        -

Worst overshoot of any key in any window
  1  none

Comparison with the exact sliding log
  decided differently                              0        -
    admitted here, denied by the log               0        -
    denied here, admitted by the log               0        -
";
    assert_eq!(summary(&["1/s"], ""), expected);
}

#[test]
fn the_ten_busiest_keys_in_order() {
    // Key 1 has one request, key 12 has twelve. `extra` is as busy as key 12 and sorts after it.
    let requests = |(key, count): (String, usize)| format!("0 {key} 1\n").repeat(count);
    let keys = (1..=12).map(|count| (format!("{count:02}"), count));
    let trace: String = keys.chain([("extra".to_owned(), 12)]).map(requests).collect();
    let out = summary(&["5/s"], &trace);
    let busiest = out.lines().skip_while(|line| !line.starts_with("Busiest")).skip(1);
    let columns: Vec<&str> =
        busiest.take_while(|line| !line.is_empty()).map(|line| &line[2..line.len().min(8)]).collect();
    let names: Vec<&str> = columns.iter().map(|name| name.trim()).collect();
    assert_eq!(names, ["12", "extra", "11", "10", "09", "08", "07", "06", "05", "04"]);
}

#[test]
fn exact_algorithms_never_overshoot() {
    let trace = include_str!("../../data/sample.txt");
    let log = summary(&["{algorithm: sliding_log, limit: 3, per: 1s}"], trace);
    assert!(log.contains("in any window\n  1  none\n"), "{log}");
    assert!(log.contains("decided differently                              0    0.00%\n"), "{log}");
    assert!(!log.contains("denied                 0"), "the trace must be busy enough for denials: {log}");
    let strict = summary(&["{algorithm: sub_windows, limit: 3, per: 1s, sub_windows: 7}"], trace);
    assert!(strict.contains("in any window\n  1  none\n"), "{strict}");
}
