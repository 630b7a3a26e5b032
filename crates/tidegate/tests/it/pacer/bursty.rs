//! `SmoothBursty`: unused permits are stored for some seconds, and then come without a wait.

use std::time::Duration;

use tidegate::Pacer;

use crate::pacer::table::check;

#[test]
fn five_a_second_are_200_ms_apart() {
    check(
        Pacer::builder().rate("5/s"),
        "
        next | acquire 1                | waits 0
        next | acquire 1                | waits 200_000
        next | acquire 1                | waits 200_000
        next | acquire 1                | waits 200_000
        ",
    );
}

#[test]
fn callers_at_the_same_instant_queue_up() {
    check(
        Pacer::builder().rate("5/s"),
        "
           0 | acquire 1                | waits 0
           0 | acquire 1                | waits 200_000
           0 | acquire 1                | waits 400_000
           0 | acquire 1                | waits 600_000
        ",
    );
}

#[test]
fn a_large_request_goes_immediately_and_the_next_pays() {
    check(
        Pacer::builder().rate("5/s"),
        "
           0 | acquire 10               | waits 0
        next | acquire 1                | waits 2_000_000
        next | acquire 3                | waits 200_000
        next | acquire 1                | waits 600_000
        next | acquire 1                | waits 200_000
        ",
    );
    check(
        Pacer::builder().rate("1/s"),
        "
           0 | acquire 100              | waits 0
           0 | acquire 1                | waits 100_000_000
        next | acquire 1                | waits 1_000_000
        ",
    );
}

/// After ten seconds ten are stored. Taking three leaves seven. Ten more are those seven and three new ones.
#[test]
fn stored_permits_are_used_first() {
    check(
        Pacer::builder().rate("1/s").max_burst_seconds(10),
        "
        10_000_000 | acquire 3          | waits 0
              next | acquire 10         | waits 0
              next | acquire 1          | waits 3_000_000
              next | acquire 1          | waits 1_000_000
        ",
    );
}

#[test]
fn one_second_of_permits_is_stored_by_default() {
    check(
        Pacer::builder().rate("5/s"),
        "
               next | acquire 1         | waits 0
        +10_200_000 | acquire 1         | waits 0
               next | acquire 1         | waits 0
               next | acquire 1         | waits 0
               next | acquire 1         | waits 0
               next | acquire 1         | waits 0
               next | acquire 1         | waits 0
               next | acquire 1         | waits 200_000
               next | acquire 1         | waits 200_000
        ",
    );
}

#[test]
fn ten_seconds_of_permits_can_be_stored() {
    check(
        Pacer::builder().rate("2/s").max_burst_seconds(10),
        "
        60_000_000 | acquire 15         | waits 0
              next | acquire 5          | waits 0
              next | acquire 1          | waits 0
              next | acquire 1          | waits 500_000
        +3_500_000 | acquire 7          | waits 0
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
        ",
    );
}

#[test]
fn fractions_of_permits_are_stored() {
    check(
        Pacer::builder().rate("5/s"),
        "
               0 | acquire 1            | waits 0
        +500_000 | acquire 1            | waits 0
            next | acquire 1            | waits 0
            next | acquire 1            | waits 100_000
            next | acquire 1            | waits 200_000
        ",
    );
}

#[test]
fn storing_starts_when_the_pacer_is_built() {
    check(
        Pacer::builder().rate("4/s"),
        "
        500_000 | acquire 2             | waits 0
           next | acquire 1             | waits 0
           next | acquire 1             | waits 250_000
        ",
    );
}

#[test]
fn a_burst_of_zero_stores_no_permits() {
    check(
        Pacer::builder().rate("5/s").max_burst_seconds(0),
        "
        10_000_000 | acquire 1          | waits 0
              next | acquire 1          | waits 200_000
              next | acquire 1          | waits 200_000
        +5_000_000 | acquire 1          | waits 0
              next | acquire 1          | waits 200_000
        ",
    );
}

#[test]
fn a_burst_may_be_any_span() {
    check(
        Pacer::builder().rate("4/s").max_burst(Duration::from_millis(2_500)),
        "
        60_000_000 | acquire 10         | waits 0
              next | acquire 1          | waits 0
              next | acquire 1          | waits 250_000
        ",
    );
}

#[test]
fn a_later_caller_waits_for_the_remainder() {
    check(
        Pacer::builder().rate("5/s"),
        "
                0 | acquire 5           | waits 0
          250_000 | acquire 1           | waits 750_000
          900_000 | acquire 1           | waits 300_000
        2_500_000 | acquire 1           | waits 0
        2_500_000 | acquire 7           | waits 0
        2_500_000 | acquire 1           | waits 600_000
        ",
    );
}

/// They affect no other call, whenever they are made.
#[test]
fn zero_permits_neither_wait_nor_take() {
    check(
        Pacer::builder().rate("5/s"),
        "
           0 | acquire 0                | waits 0
           0 | acquire 2                | waits 0
           0 | acquire 0                | waits 0
           0 | try 0 within 0           | waits 0
        next | acquire 1                | waits 400_000
        next | acquire 0                | waits 0
        next | acquire 1                | waits 200_000
        ",
    );
}
