//! Waiting in tasks, on the test's own executor.

use std::task::Poll;
use std::time::Duration;

use tidegate::{Clock, ManualClock, Pacer, PacerBuilder};

use crate::pacer::polling::{Task, micros, take_now};

use super::{PacerTestExt as _, PermitsRefused};

fn on_manual_clock(builder: PacerBuilder) -> (ManualClock, Pacer<ManualClock>) {
    let clock = ManualClock::default();
    let pacer = builder.clock(clock.clone()).build().unwrap();
    (clock, pacer)
}

fn five_a_second() -> (ManualClock, Pacer<ManualClock>) {
    on_manual_clock(Pacer::builder().rate("5/s"))
}

/// The wait of a call made now. The call is undone.
fn wait_now(pacer: &Pacer<ManualClock>) -> Duration {
    match Task::new(pacer.wait_within(1, Duration::ZERO)).poll() {
        Poll::Ready(Err(PermitsRefused { would_wait })) => would_wait,
        answer => panic!("no permits are stored, but {answer:?}"),
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_task_is_woken_when_its_time_has_come_and_not_before() {
    let (clock, pacer) = five_a_second();
    take_now(&pacer, 1);
    let mut second = Task::new(pacer.wait_for(1));
    assert!(second.is_pending());
    assert_eq!((clock.sleepers(), clock.next_wake()), (1, Some(micros(200_000))));
    clock.advance(199 * MS);
    assert_eq!(second.wakes(), 0);
    assert!(second.is_pending());
    clock.advance(MS);
    assert_eq!(second.wakes(), 1);
    assert_eq!(second.poll(), Poll::Ready(200 * MS));
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn permits_are_taken_at_the_first_poll() {
    let (clock, pacer) = five_a_second();
    let (mut made_first, mut polled_first) = (Task::new(pacer.wait_for(1)), Task::new(pacer.wait_for(1)));
    clock.advance(1_000 * MS);
    take_now(&pacer, 6);
    assert!(polled_first.is_pending());
    assert!(made_first.is_pending());
    assert_eq!(polled_first.finish(&clock), 200 * MS);
    assert_eq!(made_first.finish(&clock), 400 * MS);
}

#[test]
fn a_future_that_is_never_polled_takes_nothing() {
    let (_clock, pacer) = five_a_second();
    drop(pacer.wait_for(1_000));
    take_now(&pacer, 1);
}

#[test]
fn dropping_the_last_waiter_returns_its_permits() {
    let (clock, pacer) = five_a_second();
    take_now(&pacer, 1);
    let mut first = Task::new(pacer.wait_for(10));
    let mut second = Task::new(pacer.wait_for(100));
    assert!(first.is_pending() && second.is_pending());
    assert_eq!(wait_now(&pacer), (200 + 2_000 + 20_000) * MS);
    drop(second);
    assert_eq!(wait_now(&pacer), (200 + 2_000) * MS);
    drop(first);
    assert_eq!(wait_now(&pacer), 200 * MS);
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn dropping_a_waiter_before_later_waiters_spends_its_permits() {
    let (clock, pacer) = five_a_second();
    take_now(&pacer, 1);
    let mut first = Task::new(pacer.wait_for(10));
    let mut second = Task::new(pacer.wait_for(1));
    assert!(first.is_pending() && second.is_pending());
    drop(first);
    assert_eq!(second.finish(&clock), 2_200 * MS);
    assert_eq!(wait_now(&pacer), 200 * MS);
}

/// The call after it was dropped too, and then a third call was made. The first has nothing to return any more.
#[test]
fn a_reservation_with_later_reservations_is_not_undone() {
    let (clock, pacer) = five_a_second();
    take_now(&pacer, 1);
    let mut first = Task::new(pacer.wait_for(10));
    let mut second = Task::new(pacer.wait_for(1));
    assert!(first.is_pending() && second.is_pending());
    drop(second);
    let mut third = Task::new(pacer.wait_for(1));
    assert!(third.is_pending());
    drop(first);
    assert_eq!(third.finish(&clock), 2_200 * MS);
}

#[test]
fn used_permits_are_not_returned() {
    let (clock, pacer) = five_a_second();
    take_now(&pacer, 1);
    let mut task = Task::new(pacer.wait_for(10));
    assert!(task.is_pending());
    clock.advance(200 * MS);
    assert_eq!(task.poll(), Poll::Ready(200 * MS));
    drop(task);
    assert_eq!(wait_now(&pacer), 2_000 * MS);
}

#[test]
fn dropping_a_waiter_after_set_rate_spends_its_permits() {
    let (_clock, pacer) = five_a_second();
    take_now(&pacer, 1);
    let mut task = Task::new(pacer.wait_for(10));
    assert!(task.is_pending());
    pacer.set_rate("10/s").unwrap();
    drop(task);
    assert_eq!(wait_now(&pacer), 2_200 * MS);
}

#[test]
fn dropping_a_waiter_late_returns_its_permits() {
    let (clock, pacer) = on_manual_clock(Pacer::builder().rate("5/s").max_burst_seconds(10));
    take_now(&pacer, 1);
    let mut task = Task::new(pacer.wait_for(10));
    assert!(task.is_pending());
    clock.advance(1_200 * MS);
    // It was due a second ago, but was not polled.
    drop(task);
    take_now(&pacer, 5);
    take_now(&pacer, 1);
    assert_eq!(wait_now(&pacer), 200 * MS);
}

#[test]
fn a_pacer_that_warms_up_takes_back_cold_permits() {
    let (clock, pacer) = on_manual_clock(Pacer::builder().rate("2/s").warm_up(4_000 * MS));
    take_now(&pacer, 1);
    let mut task = Task::new(pacer.wait_for(3));
    assert!(task.is_pending());
    drop(task);
    assert_eq!(Task::new(pacer.wait_for(1)).finish(&clock), 1_375 * MS);
    assert_eq!(Task::new(pacer.wait_for(1)).finish(&clock), 1_125 * MS);
}

#[test]
fn a_try_waits_like_an_acquire() {
    let (clock, pacer) = five_a_second();
    take_now(&pacer, 1);
    let mut task = Task::new(pacer.wait_within(1, 200 * MS));
    assert!(task.is_pending());
    clock.advance(200 * MS);
    assert_eq!(task.wakes(), 1);
    assert_eq!(task.poll(), Poll::Ready(Ok(200 * MS)));
    assert_eq!(clock.now(), micros(200_000));
}

/// A clock that steps back makes waits longer, as it should: permits stay at their instants.
#[test]
fn a_clock_that_steps_back() {
    let clock = ManualClock::at(micros(10_000_000));
    let pacer = Pacer::builder().rate("5/s").clock(clock.clone()).build().unwrap();
    take_now(&pacer, 1);
    clock.set(micros(9_000_000));
    assert_eq!(wait_now(&pacer), 1_200 * MS);
    assert_eq!(Task::new(pacer.wait_for(1)).finish(&clock), 1_200 * MS);
    assert_eq!(clock.now(), micros(10_200_000));
}
