//! `set_rate` in flight: permits are paid for at the rate at which they were handed out.

use std::time::Duration;

use tidegate::Pacer;

use crate::pacer::table::check;

#[test]
fn the_next_caller_pays_at_the_old_rate_and_those_after_it_at_the_new() {
    check(
        Pacer::builder().rate("5/s"),
        "
           0 | acquire 1                | waits 0
           0 | acquire 1                | waits 200_000
           0 | rate 10/s                |
           0 | acquire 1                | waits 400_000
           0 | acquire 1                | waits 500_000
        next | acquire 1                | waits 100_000
        next | rate 2/s                 |
        next | acquire 1                | waits 100_000
        next | acquire 1                | waits 500_000
        next | acquire 1                | waits 500_000
        ",
    );
}

#[test]
fn callers_that_wait_are_not_affected() {
    check(
        Pacer::builder().rate("1/s"),
        "
                0 | acquire 10          | waits 0
                0 | acquire 1           | waits 10_000_000
        5_000_000 | rate 10/s           |
        5_000_000 | acquire 1           | waits 6_000_000
        5_000_000 | acquire 1           | waits 6_100_000
        5_000_000 | acquire 1           | waits 6_200_000
        ",
    );
}

/// Eight of twenty become forty of a hundred, and later half of a hundred become ten of twenty.
#[test]
fn stored_permits_keep_their_share_after_a_rate_change() {
    check(
        Pacer::builder().rate("2/s").max_burst_seconds(10),
        "
         4_000_000 | rate 10/s          |
              next | acquire 40         | waits 0
              next | acquire 1          | waits 0
              next | acquire 1          | waits 100_000
        +5_100_000 | rate 2/s           |
              next | acquire 10         | waits 0
              next | acquire 1          | waits 0
              next | acquire 1          | waits 500_000
        ",
    );
}

#[test]
fn a_pacer_stays_as_warm_as_it_was() {
    check(
        Pacer::builder().rate("2/s").warm_up(Duration::from_secs(4)),
        "
               next | acquire 1         | waits 0
               next | acquire 1         | waits 1_375_000
               next | acquire 1         | waits 1_125_000
               next | rate 4/s          |
               next | acquire 1         | waits 875_000
               next | acquire 1         | waits 343_750
               next | acquire 1         | waits 281_250
               next | acquire 1         | waits 250_000
               next | acquire 1         | waits 250_000
               next | rate 1/s          |
               next | acquire 1         | waits 250_000
               next | acquire 1         | waits 1_000_000
               next | acquire 1         | waits 1_000_000
        +20_000_000 | rate 2/s          |
               next | acquire 1         | waits 0
               next | acquire 1         | waits 1_375_000
               next | acquire 1         | waits 1_125_000
        ",
    );
}

/// The pause counts at the rate that was active during it.
#[test]
fn a_change_after_a_pause_first_cools_down() {
    check(
        Pacer::builder().rate("2/s").warm_up(Duration::from_secs(4)),
        "
                 0 | acquire 8          | waits 0
              next | acquire 1          | waits 6_000_000
              next | acquire 1          | waits 500_000
        +3_500_000 | rate 5/s           |
              next | acquire 1          | waits 0
              next | acquire 1          | waits 380_000
              next | acquire 1          | waits 340_000
              next | acquire 1          | waits 300_000
              next | acquire 1          | waits 260_000
              next | acquire 1          | waits 220_000
              next | acquire 1          | waits 200_000
              next | acquire 1          | waits 200_000
        ",
    );
}

#[test]
fn rate_returns_the_current_rate() {
    let pacer = Pacer::new("5/s").unwrap();
    assert_eq!(pacer.rate(), "5/s".parse().unwrap());
    pacer.set_rate("100 per minute").unwrap();
    assert_eq!(pacer.rate().to_string(), "100 per 1m");
    assert!(pacer.set_rate("0/s").is_err());
    assert!(pacer.set_rate("fast").is_err());
    assert_eq!(pacer.rate().to_string(), "100 per 1m");
}
