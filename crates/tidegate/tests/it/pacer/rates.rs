//! Slow, fast and odd rates, and the ends of all ranges.

use std::time::Duration;

use tidegate::pacer::COLD_FACTOR_TERM_MAX;
use tidegate::{Clock, ColdFactor, ManualClock, Pacer, Timestamp};

use crate::pacer::polling::{Task, nanos};
use crate::pacer::table::check;

use super::{PacerTestExt as _, PermitsRefused};

const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);

#[test]
fn one_a_year() {
    check(
        Pacer::builder().rate("1 per year"),
        "
           0 | acquire 1                | waits 0
           0 | acquire 1                | waits 31_536_000_000_000
           0 | acquire 2                | waits 63_072_000_000_000
           0 | acquire 1                | waits 126_144_000_000_000
        ",
    );
}

/// A twentieth of a permit is stored: the burst is a second, as in Guava, and not a permit.
#[test]
fn less_than_one_a_second() {
    check(
        Pacer::builder().rate("3 per minute"),
        "
                  0 | acquire 1         | waits 0
               next | acquire 1         | waits 20_000_000
        +30_000_000 | acquire 1         | waits 0
               next | acquire 1         | waits 19_000_000
               next | acquire 1         | waits 20_000_000
        ",
    );
}

#[test]
fn ten_million_a_second() {
    check(
        Pacer::builder().rate("10_000_000/s"),
        "
               0 | acquire 10           | waits 0
               0 | acquire 20_000_000   | waits 1
               0 | acquire 1            | waits 2_000_001
               0 | acquire 3_000_005    | waits 2_000_001+
               0 | acquire 1            | waits 2_300_001+
        +500_000 | acquire 4_000_000    | waits 0
            next | acquire 2_000_000    | waits 0
            next | acquire 1            | waits 100_000+
        ",
    );
}

#[test]
fn three_and_seven_a_second() {
    check(
        Pacer::builder().rate("3/s"),
        "
            next | acquire 1            | waits 0
            next | acquire 1            | waits 333_333+
            next | acquire 2            | waits 333_333+
            next | acquire 1            | waits 666_666+
        ",
    );
    check(
        Pacer::builder().rate("7/s"),
        "
            next | acquire 1            | waits 0
            next | acquire 1            | waits 142_857+
            next | acquire 1            | waits 142_857+
            next | acquire 7            | waits 142_857+
            next | acquire 1            | waits 1_000_000
        ",
    );
}

/// The thousandth permit is at exactly 999/L seconds, rounded up to the nanosecond once and not a thousand times. This
/// applies to callers that come at the same time, and to one that comes again as soon as it may. (Guava drops a
/// fraction of a microsecond each time, and would admit the fourth of three a second at 999,999 us.)
#[test]
fn odd_rates_do_not_drift() {
    for limit in [3, 7, 11, 13, 997, 7_777_777] {
        let rate = format!("{limit}/s");
        let clock = ManualClock::default();
        let pacer = Pacer::builder().rate(&rate).clock(clock.clone()).build().unwrap();
        let due = |number: u64| (number * 1_000_000_000).div_ceil(limit);
        let tasks: Vec<_> = (0..1_000).map(|_| Task::new(pacer.wait_for(1)).polled_once()).collect();
        for (number, task) in (0..).zip(tasks) {
            assert_eq!(task.finish(&clock), Duration::from_nanos(due(number)), "permit {number} at {rate}");
        }

        let clock = ManualClock::default();
        let pacer = Pacer::builder().rate(&rate).clock(clock.clone()).build().unwrap();
        for number in 0..1_000 {
            Task::new(pacer.wait_for(1)).finish(&clock);
            assert_eq!(nanos(&clock), due(number), "permit {number} at {rate}");
        }
    }
}

/// All stored permits take one and a half warm-ups, if they are a whole number. Otherwise they take less, by the
/// fraction of a permit.
#[test]
fn the_longest_warm_up_at_the_oddest_rates() {
    for rate in
        ["1 per year", "1 per 3650d", "10_000_000/s", "10_000_000_019/s", "1_099_511_627_775 per 3650d"]
    {
        for cold_factor in [
            ColdFactor::from(1),
            ColdFactor::from(3),
            ColdFactor::from(COLD_FACTOR_TERM_MAX),
            ColdFactor { numerator: COLD_FACTOR_TERM_MAX, denominator: COLD_FACTOR_TERM_MAX - 1 },
        ] {
            let clock = ManualClock::default();
            let builder = Pacer::builder().rate(rate).warm_up(TEN_YEARS).cold_factor(cold_factor);
            let pacer = builder.clock(clock.clone()).build().unwrap();
            let (a, b) = (u128::from(cold_factor.numerator), u128::from(cold_factor.denominator));
            let (limit, window) = (u128::from(pacer.rate().limit()), u128::from(pacer.rate().window_ns()));
            // P/2 + 2P/(1+c).
            let stored = TEN_YEARS.as_nanos() * (a + 5 * b) * limit / (2 * (a + b) * window);
            let stored = u64::try_from(stored).unwrap();
            if stored == 0 {
                continue;
            }
            assert_eq!(Task::new(pacer.wait_for(stored)).finish(&clock), Duration::ZERO);
            let cost = Task::new(pacer.wait_for(1)).finish(&clock);
            let whole = TEN_YEARS * 3 / 2;
            let one = Duration::from_nanos(u64::try_from(window.div_ceil(limit)).unwrap());
            assert!(cost <= whole, "{rate} {cold_factor:?}");
            assert!(cost + one >= whole - Duration::from_nanos(1), "{rate} {cold_factor:?}: {cost:?}");
        }
    }
}

#[test]
fn the_largest_values_do_not_overflow() {
    for rate in ["1 per 3650d", "1_099_511_627_775 per 1ms"] {
        let shapes = [
            Pacer::builder().rate(rate),
            Pacer::builder().rate(rate).max_burst(TEN_YEARS),
            Pacer::builder().rate(rate).warm_up(TEN_YEARS).cold_factor(COLD_FACTOR_TERM_MAX),
            Pacer::builder().rate(rate).warm_up(Duration::from_nanos(1)),
        ];
        for builder in shapes {
            let clock = ManualClock::default();
            let pacer = builder.clock(clock.clone()).build().unwrap();
            clock.set(Timestamp::from_nanos(u64::MAX));
            let _waiting = [(); 3].map(|()| Task::new(pacer.wait_for(u64::MAX)).polled_once());
            pacer.set_rate("7 per 1ms").unwrap();
            let _ = Task::new(pacer.wait_within(1, Duration::MAX)).poll();
            pacer.set_rate(rate).unwrap();
            // All that was handed out is at or after the end of time.
            clock.set(Timestamp::from_nanos(0));
            assert!(Task::new(pacer.wait_for(1)).is_pending());
            let refused =
                Task::new(pacer.wait_within(1, Duration::from_secs(500 * 365 * 86_400))).finish(&clock);
            assert!(matches!(refused, Err(PermitsRefused { .. })), "{rate}: {refused:?}");
            assert_eq!(clock.now(), Timestamp::from_nanos(0));
        }
    }
}
