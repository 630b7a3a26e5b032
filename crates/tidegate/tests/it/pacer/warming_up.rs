//! `SmoothWarmingUp`: after a pause, permits come slowly at first.

use std::time::Duration;

use tidegate::{ColdFactor, Pacer, PacerBuilder};

use crate::pacer::table::check;

/// Four permits warm, four cold. A permit takes 0.5 s, and 1.5 s at the coldest.
fn two_a_second() -> PacerBuilder {
    Pacer::builder().rate("2/s").warm_up(Duration::from_secs(4))
}

#[test]
fn from_cold_to_stable_and_again_when_cold_again() {
    check(
        two_a_second(),
        "
              next | acquire 1          | waits 0
              next | acquire 1          | waits 1_375_000
              next | acquire 1          | waits 1_125_000
              next | acquire 1          | waits 875_000
              next | acquire 1          | waits 625_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
        +4_500_000 | acquire 1          | waits 0
              next | acquire 1          | waits 1_375_000
              next | acquire 1          | waits 1_125_000
              next | acquire 1          | waits 875_000
              next | acquire 1          | waits 625_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
        ",
    );
}

#[test]
fn a_short_pause_cools_down_in_part() {
    check(
        two_a_second(),
        "
              next | acquire 1          | waits 0
              next | acquire 1          | waits 1_375_000
              next | acquire 1          | waits 1_125_000
              next | acquire 1          | waits 875_000
              next | acquire 1          | waits 625_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
        +2_500_000 | acquire 1          | waits 0
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
        +3_500_000 | acquire 1          | waits 0
              next | acquire 1          | waits 875_000
              next | acquire 1          | waits 625_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
        ",
    );
}

/// The warm-up period for the cold half, and half of it for the warm one.
#[test]
fn all_stored_permits_take_one_and_a_half_warm_ups() {
    check(
        two_a_second(),
        "
           0 | acquire 8                | waits 0
        next | acquire 1                | waits 6_000_000
        next | acquire 1                | waits 500_000
        ",
    );
}

#[test]
fn several_permits_cost_what_they_cost_one_by_one() {
    check(
        two_a_second(),
        "
           0 | acquire 2                | waits 0
        next | acquire 4                | waits 2_500_000
        next | acquire 5                | waits 2_500_000
        next | acquire 3                | waits 2_500_000
        next | acquire 1                | waits 1_500_000
        ",
    );
    check(
        two_a_second(),
        "
           0 | acquire 1                | waits 0
           0 | acquire 1                | waits 1_375_000
           0 | acquire 1                | waits 2_500_000
           0 | acquire 1                | waits 3_375_000
           0 | acquire 1                | waits 4_000_000
           0 | acquire 1                | waits 4_500_000
        ",
    );
}

/// 12.5 permits cold and 12.5 warm: requests that cross the threshold and the end of the stored permits.
#[test]
fn requests_across_the_threshold() {
    check(
        Pacer::builder().rate("5/s").warm_up(Duration::from_secs(5)),
        "
           0 | acquire 5                | waits 0
        next | acquire 15               | waits 2_600_000
        next | acquire 25               | waits 3_900_000
        next | acquire 1                | waits 5_000_000
        ",
    );
}

#[test]
fn waits_with_a_fraction_of_a_microsecond() {
    check(
        Pacer::builder().rate("3/s").warm_up(Duration::from_secs(2)),
        "
        next | acquire 1                | waits 0
        next | acquire 1                | waits 888_888+
        next | acquire 1                | waits 666_666+
        next | acquire 1                | waits 444_444+
        next | acquire 1                | waits 333_333+
        next | acquire 1                | waits 333_333+
        next | acquire 1                | waits 333_333+
        ",
    );
}

/// Stored are 3 warm and 4 cold permits, more than 3 seconds' worth: it cools down faster than it fills.
#[test]
fn a_cold_factor_of_two() {
    check(
        Pacer::builder().rate("2/s").warm_up(Duration::from_secs(3)).cold_factor(2),
        "
              next | acquire 1          | waits 0
              next | acquire 1          | waits 937_500
              next | acquire 1          | waits 812_500
              next | acquire 1          | waits 687_500
              next | acquire 1          | waits 562_500
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
        +2_000_000 | acquire 1          | waits 0
              next | acquire 1          | waits 515_625
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
        +9_000_000 | acquire 1          | waits 0
              next | acquire 1          | waits 937_500
              next | acquire 1          | waits 812_500
        ",
    );
}

#[test]
fn a_cold_factor_of_two_and_a_half() {
    check(
        Pacer::builder()
            .rate("2/s")
            .warm_up(Duration::from_millis(3_500))
            .cold_factor(ColdFactor { numerator: 5, denominator: 2 }),
        "
              next | acquire 1          | waits 0
              next | acquire 1          | waits 1_156_250
              next | acquire 1          | waits 968_750
              next | acquire 1          | waits 781_250
              next | acquire 1          | waits 593_750
              next | acquire 1          | waits 500_000
              next | acquire 1          | waits 500_000
        +7_000_000 | acquire 1          | waits 0
              next | acquire 1          | waits 1_156_250
              next | acquire 1          | waits 968_750
        ",
    );
}

#[test]
fn a_cold_factor_of_ten() {
    check(
        Pacer::builder().rate("5/s").warm_up(Duration::from_millis(5_500)).cold_factor(10),
        "
        next | acquire 1                | waits 0
        next | acquire 1                | waits 1_820_000
        next | acquire 1                | waits 1_460_000
        next | acquire 1                | waits 1_100_000
        next | acquire 1                | waits 740_000
        next | acquire 1                | waits 380_000
        next | acquire 1                | waits 200_000
        next | acquire 1                | waits 200_000
        ",
    );
}

#[test]
fn a_cold_factor_of_one_is_never_slower_and_never_bursts() {
    check(
        two_a_second().cold_factor(1),
        "
               next | acquire 1         | waits 0
               next | acquire 1         | waits 500_000
               next | acquire 1         | waits 500_000
               next | acquire 1         | waits 500_000
        +10_000_000 | acquire 1         | waits 0
               next | acquire 1         | waits 500_000
               next | acquire 1         | waits 500_000
        ",
    );
}
