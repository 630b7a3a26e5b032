//! Single cases that were wrong once, or that a reader of the design would try first. Each has its arithmetic.

use tidegate_core::algorithm::{Align, CountDenied};
use tidegate_core::{AlgorithmName, LimitSpec, Nanos, OutcomeKind, Timestamp, UNITS_MAX, Wait};

use crate::subject::{Subject, timed_cost};

const SECOND: u64 = 1_000_000_000;
const YEAR: u64 = 365 * 86_400 * SECOND;

fn spec(algorithm: AlgorithmName, limit: u64, per_ns: u64) -> LimitSpec {
    let spec = LimitSpec { algorithm: Some(algorithm), ..LimitSpec::new(limit, per_ns) };
    match algorithm {
        AlgorithmName::Concurrency => LimitSpec { per_ns: 0, ttl_ns: Some(per_ns), ..spec },
        _ => spec,
    }
}

/// Windows of 2^20 ns: the second to last window matters exactly until the end of representable time, 2^64.
#[test]
fn a_sliding_window_that_ends_after_representable_time_is_read_in_the_next_window() {
    let window: u64 = 1 << 20;
    let mut subject = Subject::from_spec(&spec(AlgorithmName::SlidingWindow, 3, window));
    let last_window = u64::MAX - window + 1;
    assert_eq!(subject.decide(timed_cost(last_window - window, 1)).kind, OutcomeKind::Allowed);
    // prev = 1, e = 0: W + c*W <= 3*W for c <= 2.
    let outcome = subject.decide(timed_cost(last_window, 0));
    assert_eq!((outcome.kind, outcome.remaining), (OutcomeKind::Allowed, 2));
    assert_eq!(outcome.reset_after, Nanos::new(window.into()));
}

/// A store drops idle states. 0.3 ms before its reset, the previous window of a sliding window still weighs 10 *
/// 300_000 of 10 * 10^9, which leaves room for 9. A key that was never seen has room for 10.
#[test]
fn a_sliding_window_is_not_idle_before_its_reset() {
    let mut subject = Subject::from_spec(&spec(AlgorithmName::SlidingWindow, 10, SECOND));
    assert_eq!(subject.decide(timed_cost(0, 10)).reset_after, Nanos::new(2_000_000_000));
    let just_before = Timestamp::from_nanos(2 * SECOND - 300_000);
    assert_eq!(subject.remaining(just_before), 9);
    assert!(!subject.packed().is_idle_at(just_before));
}

/// A burst of 2^40 - 1 years is used up, and then the limit is raised to as many units per year. The arrival time
/// stays, and only the last year before it is within the new burst.
#[test]
fn gcra_waits_for_an_arrival_time_far_beyond_what_the_changed_limit_could_make() {
    let slow = LimitSpec { burst: Some(UNITS_MAX), ..spec(AlgorithmName::Gcra, 1, YEAR) };
    let mut subject = Subject::from_spec(&slow);
    assert_eq!(subject.decide(timed_cost(0, UNITS_MAX)).kind, OutcomeKind::Allowed);
    let ahead = u128::from(UNITS_MAX) * u128::from(YEAR);
    assert_eq!(subject.reset_after(Timestamp::from_nanos(0)), Nanos::new(ahead));

    subject.change_limit(&spec(AlgorithmName::Gcra, UNITS_MAX, YEAR));
    assert_eq!(subject.reset_after(Timestamp::from_nanos(0)), Nanos::new(ahead));
    // max(TAT, t) + 0 - B*W/L <= t, with B*W/L = one year.
    assert_eq!(subject.wait(timed_cost(0, 0)), Wait::of(Nanos::new(ahead - u128::from(YEAR))));
}

/// Under 3 per second the arrival time has a fraction of 2/3 ns, after the end of representable time. Under 1 per
/// second the fraction is still less than one nanosecond, and the whole burst fits at the reset.
#[test]
fn gcra_keeps_fractions_below_one_nanosecond_when_the_limit_is_lowered() {
    let mut subject = Subject::from_spec(&spec(AlgorithmName::Gcra, 3, SECOND));
    assert_eq!(subject.decide(timed_cost(u64::MAX, 2)).reset_after, Nanos::new(666_666_667));
    subject.change_limit(&spec(AlgorithmName::Gcra, 1, SECOND));
    let reset_after = subject.reset_after(Timestamp::from_nanos(u64::MAX));
    assert!((666_666_666..=666_666_667).contains(&reset_after.get()), "{reset_after}");
    assert_eq!(subject.wait(timed_cost(u64::MAX, 1)), Wait::of(reset_after));
}

/// Only a request that changes the state starts a window: not a denied one, and not one with cost 0.
#[test]
fn only_a_counted_request_starts_a_first_hit_window() {
    let first_hit = LimitSpec { align: Some(Align::FirstHit), ..spec(AlgorithmName::FixedWindow, 5, SECOND) };
    let mut subject = Subject::from_spec(&first_hit);
    assert_eq!(subject.decide(timed_cost(100, 0)).reset_after, Nanos::ZERO);
    assert_eq!(subject.decide(timed_cost(200, 6)).retry_after, Wait::NEVER);
    assert_eq!(subject.decide(timed_cost(300, 5)).reset_after, Nanos::new(SECOND.into()));
    assert_eq!(
        subject.decide(timed_cost(400, 1)).retry_after,
        Wait::of(Nanos::new(u128::from(SECOND) - 100))
    );
    // The window of 300 ends at 300 + W, and the next begins with the first request after it.
    assert_eq!(subject.decide(timed_cost(300 + SECOND, 1)).remaining, 4);
}

/// An entry that is exactly W old does not count. One that is a nanosecond younger does.
#[test]
fn a_log_entry_leaves_after_exactly_the_window() {
    let mut subject = Subject::from_spec(&spec(AlgorithmName::SlidingLog, 1, SECOND));
    assert_eq!(subject.decide(timed_cost(7, 1)).kind, OutcomeKind::Allowed);
    let denied = subject.decide(timed_cost(7 + SECOND - 1, 1));
    assert_eq!((denied.kind, denied.retry_after), (OutcomeKind::Denied, Wait::of(Nanos::new(1))));
    assert_eq!(subject.decide(timed_cost(7 + SECOND, 1)).kind, OutcomeKind::Allowed);
}

/// A client that keeps trying is denied for as long as it tries, and for W after that.
#[test]
fn counted_denials_extend_the_retry_time() {
    let counting =
        LimitSpec { count_denied: Some(CountDenied::Always), ..spec(AlgorithmName::SlidingLog, 1, SECOND) };
    let mut subject = Subject::from_spec(&counting);
    assert_eq!(subject.decide(timed_cost(0, 1)).kind, OutcomeKind::Allowed);
    for step in 1..20 {
        let outcome = subject.decide(timed_cost(step * SECOND / 2, 1));
        assert_eq!(outcome.kind, OutcomeKind::Denied);
        assert_eq!(outcome.retry_after, Wait::of(Nanos::new(SECOND.into())));
    }
}

/// A limit of 0 never admits a cost above 0, for every algorithm and its options.
#[test]
fn limit_zero_denies_every_cost() {
    for algorithm in AlgorithmName::ALL {
        let mut subject = Subject::from_spec(&spec(algorithm, 0, SECOND));
        for cost in [1, 2, u64::MAX] {
            let outcome = subject.decide(timed_cost(5, cost));
            assert_eq!(
                (outcome.kind, outcome.retry_after),
                (OutcomeKind::Denied, Wait::NEVER),
                "{algorithm}"
            );
            assert_eq!((outcome.remaining, outcome.reset_after), (0, Nanos::ZERO), "{algorithm}");
        }
        let free = subject.decide(timed_cost(5, 0));
        assert_eq!((free.kind, free.retry_after), (OutcomeKind::Allowed, Wait::NONE), "{algorithm}");
    }
}

/// 1 per year with a burst of 1000: these spans do not fit 64-bit nanoseconds.
#[test]
fn a_wait_may_be_longer_than_representable_time() {
    let yearly = LimitSpec { burst: Some(1_000), ..spec(AlgorithmName::Gcra, 1, YEAR) };
    let mut subject = Subject::from_spec(&yearly);
    assert_eq!(subject.decide(timed_cost(0, 1_000)).reset_after, Nanos::new(1_000 * u128::from(YEAR)));
    let denied = subject.decide(timed_cost(0, 1_000));
    assert_eq!(denied.retry_after, Wait::of(Nanos::new(1_000 * u128::from(YEAR))));
    assert!(denied.retry_after.span().is_some_and(|span| span.get() > u128::from(u64::MAX)));
}

/// One unit leaves immediately, the others one interval apart: 333333333 1/3 ns, rounded up.
#[test]
fn a_queue_holds_a_request_until_its_last_unit_leaves() {
    let thirds = LimitSpec { queue: Some(4), ..spec(AlgorithmName::LeakyBucket, 3, SECOND) };
    let mut subject = Subject::from_spec(&thirds);
    assert_eq!(subject.decide(timed_cost(0, 1)).delay, Nanos::ZERO);
    assert_eq!(subject.decide(timed_cost(0, 2)).delay, Nanos::new(666_666_667));
    assert_eq!(subject.decide(timed_cost(0, 0)).delay, Nanos::ZERO);
    let last = subject.decide(timed_cost(0, 2));
    assert_eq!((last.delay, last.remaining), (Nanos::new(1_333_333_334), 0));
    assert_eq!(subject.decide(timed_cost(0, 1)).retry_after, Wait::of(Nanos::new(333_333_334)));
}
