//! `--memory-max`.

use super::runner::{Run, tidegate, trace_args};

/// One request for each of `count` keys.
fn keys(count: u64) -> String {
    (0..count).map(|key| format!("{key} user:{key} 1\n")).collect()
}

#[test]
fn evicted_counters_are_reported() {
    // A counter takes more than 16 bytes, so a MiB cannot hold 100,000 of them.
    let trace = keys(100_000);
    let run = tidegate(&trace_args(&["1 per day"], &["--memory-max", "1MiB", "--decisions", "-"]), &trace);
    assert_eq!((run.code, run.out.as_str()), (Some(1), "1 0 0 0\n".repeat(100_000).as_str()));
    let count = run
        .err
        .strip_prefix("error: the memory of 1MiB was full and ")
        .and_then(|rest| {
            rest.strip_suffix(
                " live counters were evicted, so later decisions may allow too much (hint: raise --memory-max, \
                 or omit it)\n",
            )
        })
        .unwrap_or_else(|| panic!("{}", run.err));
    let count: u64 = count.replace(',', "").parse().expect("a number");
    assert!((34_464..100_000).contains(&count), "{count} of 100,000 evicted, but at most 65,536 fit");

    let run = tidegate(&trace_args(&["1 per day"], &["--memory-max", "1MiB", "-"]), &trace);
    assert_eq!(run.code, Some(1));
    assert!(
        run.out.contains("100,000") && run.out.contains("Comparison with the exact sliding log"),
        "{}",
        run.out
    );
    assert!(run.err.starts_with("error: the memory of 1MiB was full and "), "{}", run.err);
}

#[test]
fn evicted_usage_logs_are_reported() {
    let limit = "{algorithm: sliding_log, limit: 1, per: 1d}";
    let run = tidegate(&trace_args(&[limit], &["--memory-max", "1MiB", "--decisions", "-"]), keys(100_000));
    assert_eq!((run.code, run.out.lines().count()), (Some(1), 100_000));
    assert!(run.err.starts_with("error: the memory of 1MiB was full and "), "{}", run.err);
}

#[test]
fn enough_memory_matches_unbounded_memory() {
    let trace = keys(100_000) + "99999 user:5 1\n";
    let expected = "1 0 0 0\n".repeat(100_000) + "0 0 86399999900006 0\n";
    for memory in [vec![], vec!["--memory-max", "64MiB"], vec!["--memory-max", "50000000"]] {
        let run = tidegate(&trace_args(&["1 per day"], &[memory, vec!["--decisions", "-"]].concat()), &trace);
        assert_eq!(run, Run { code: Some(0), out: expected.clone(), err: String::new() });
    }
}

#[test]
fn idle_counters_are_evicted_first() {
    // The requests are a second apart and the limit resets after a millisecond, so at most one counter is live.
    let trace: String =
        (0..100_000u64).map(|key| format!("{} user:{key} 1\n", key * 1_000_000_000)).collect();
    let run = tidegate(&trace_args(&["1 per 1ms"], &["--memory-max", "1MiB", "--decisions", "-"]), trace);
    assert_eq!(run, Run { code: Some(0), out: "1 0 0 0\n".repeat(100_000), err: String::new() });
}
