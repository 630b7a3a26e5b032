//! `acquire_within`: admitted if the wait fits the timeout. Otherwise refused immediately, and nothing is taken.

use std::task::Poll;
use std::time::Duration;

use tidegate::{ManualClock, Pacer};

use crate::pacer::polling::{Task, take_now};
use crate::pacer::table::check;

use super::{PacerTestExt as _, PermitsRefused};

#[test]
fn zero_sufficient_and_insufficient_timeouts() {
    check(
        Pacer::builder().rate("5/s"),
        "
                0 | try 1 within 0          | waits 0
                0 | try 1 within 0          | refused 200_000
                0 | try 1 within 199_999    | refused 200_000
                0 | try 1 within 200_000    | waits 200_000
                0 | try 1 within 200_000    | refused 400_000
                0 | try 9 within 400_000    | waits 400_000
                0 | try 1 within 2_000_000  | refused 2_200_000
        2_199_999 | try 1 within 0          | refused 1
        2_200_000 | try 1 within 0          | waits 0
        2_300_000 | acquire 1               | waits 100_000
        ",
    );
}

#[test]
fn a_refusal_takes_nothing() {
    check(
        Pacer::builder().rate("5/s"),
        "
              0 | acquire 5                 | waits 0
        100_000 | try 7 within 500_000      | refused 900_000
        100_000 | try 7 within 500_000      | refused 900_000
        100_000 | try 7 within 500_000      | refused 900_000
        100_000 | acquire 1                 | waits 900_000
           next | acquire 1                 | waits 200_000
        ",
    );
}

#[test]
fn stored_permits_need_no_wait() {
    check(
        Pacer::builder().rate("5/s"),
        "
        10_000_000 | try 6 within 0         | waits 0
        10_000_000 | try 1 within 100_000   | refused 200_000
        10_000_000 | try 1 within 200_000   | waits 200_000
        +1_000_000 | try 1 within 0         | waits 0
              next | try 4 within 0         | waits 0
              next | try 1 within 0         | refused 200_000
        ",
    );
}

#[test]
fn a_pacer_that_warms_up() {
    check(
        Pacer::builder().rate("2/s").warm_up(Duration::from_secs(4)),
        "
           0 | try 1 within 0               | waits 0
           0 | try 1 within 1_374_999       | refused 1_375_000
           0 | try 1 within 1_375_000       | waits 1_375_000
        next | try 1 within 1_000_000       | refused 1_125_000
        next | try 1 within 1_200_000       | waits 1_125_000
        next | acquire 1                    | waits 875_000
        ",
    );
}

/// Exactly a third of a second is a little more than 333,333,333 ns, and a little less than 333,333,334.
#[test]
fn timeouts_are_compared_exactly() {
    let pacer = Pacer::builder().rate("3/s").clock(ManualClock::default()).build().unwrap();
    take_now(&pacer, 1);
    let would_wait = Duration::from_nanos(333_333_334);
    let mut just_too_short = Task::new(pacer.wait_within(1, Duration::from_nanos(333_333_333)));
    assert_eq!(just_too_short.poll(), Poll::Ready(Err(PermitsRefused { would_wait })));
    assert!(Task::new(pacer.wait_within(1, would_wait)).is_pending());
}

/// As with a timeout of zero, but without a future.
#[test]
fn trying_never_waits() {
    let clock = ManualClock::default();
    let pacer = Pacer::builder().rate("5/s").clock(clock.clone()).build().unwrap();
    assert_eq!(pacer.try_now(3), Ok(Duration::ZERO));
    let refused = PermitsRefused { would_wait: Duration::from_millis(600) };
    assert_eq!(pacer.try_now(1), Err(refused));
    assert_eq!(pacer.try_now(0), Ok(Duration::ZERO));
    assert_eq!(pacer.try_acquire(1).unwrap_err().to_string(), "the request would have to wait for 600ms");
    clock.advance(Duration::from_nanos(599_999_999));
    assert_eq!(pacer.try_now(1), Err(PermitsRefused { would_wait: Duration::from_nanos(1) }));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(pacer.try_now(1), Ok(Duration::ZERO));
    // What was taken stays taken.
    assert_eq!(pacer.try_now(1), Err(PermitsRefused { would_wait: Duration::from_millis(200) }));
}
