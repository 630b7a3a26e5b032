//! Extreme costs, limits, queues and clocks.

use proptest::prelude::*;
use tidegate::{Limiter, ManualClock, Timestamp};

use super::model::{KEY, after_ms, limiter, ms, start};
use crate::executor::Executor;
use crate::wait_result::{Refusal, WaitResult, wait_result};

fn at_ms(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

#[test]
fn an_impossible_cost_is_refused_immediately_at_any_position() {
    for limit in crate::queue::model::LIMITS {
        let clock = ManualClock::at(start());
        let limiter = limiter(&[limit], &clock);
        let mut executor = Executor::new(&clock);
        let alone = executor.spawn(wait_result(limiter.acquire(KEY, 100)));
        executor.run_woken();
        let waiters: Vec<_> = (0..9).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
        let behind = executor.spawn(wait_result(limiter.acquire(KEY, 100)));
        let delayed = executor.spawn(wait_result(limiter.acquire_within(KEY, 100, ms(1))));
        executor.run_woken();
        for task in [alone, behind, delayed] {
            assert_eq!(
                executor.finished(task).unwrap().output,
                WaitResult::Refused(Refusal::Never),
                "{limit}"
            );
            assert_eq!(executor.finished(task).unwrap().at, start(), "{limit}");
        }
        executor.run();
        assert!(waiters.iter().all(|task| executor.finished(*task).unwrap().output.is_admitted()), "{limit}");
    }
}

#[test]
fn a_limit_of_zero_admits_only_a_cost_of_zero() {
    for limit in
        ["0/s", "{algorithm: sliding_log, limit: 0, per: 1s}", "{algorithm: concurrency, limit: 0, ttl: 1s}"]
    {
        let clock = ManualClock::at(start());
        let limiter = limiter(&[limit], &clock);
        let mut executor = Executor::new(&clock);
        let something = executor.spawn(wait_result(limiter.acquire(KEY, 1)));
        let nothing = executor.spawn(wait_result(limiter.acquire(KEY, 0)));
        let delayed = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(1_000))));
        executor.run_woken();
        assert_eq!(
            executor.finished(something).unwrap().output,
            WaitResult::Refused(Refusal::Never),
            "{limit}"
        );
        assert_eq!(
            executor.finished(delayed).unwrap().output,
            WaitResult::Refused(Refusal::Never),
            "{limit}"
        );
        assert!(executor.finished(nothing).unwrap().output.is_admitted(), "{limit}");
    }
}

#[test]
fn a_cost_of_zero_waits_in_order_and_takes_nothing() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1/s burst 1"], &clock);
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> =
        [0, 1, 1, 0, 1].map(|cost| executor.spawn(wait_result(limiter.acquire(KEY, cost)))).into();
    executor.run();
    let at = |task| executor.finished(task).unwrap().at;
    assert_eq!(executor.completion_order(), tasks);
    let expected = [0, 0, 1_000, 1_000, 2_000].map(after_ms);
    assert_eq!(tasks.into_iter().map(at).collect::<Vec<_>>(), expected);
}

#[test]
fn a_full_queue_refuses_until_a_waiter_leaves() {
    let clock = ManualClock::at(start());
    let builder = Limiter::builder().limit("1/s burst 1").queue_max(3).clock(clock.clone());
    let limiter = builder.build().unwrap();
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..6).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
    let other_key = executor.spawn(wait_result(limiter.acquire("other", 1)));
    executor.run_woken();
    for full in &tasks[4..] {
        assert_eq!(executor.finished(*full).unwrap().output, WaitResult::Refused(Refusal::QueueFull));
    }
    assert!(executor.finished(other_key).unwrap().output.is_admitted());
    executor.drop_task(tasks[2]);
    let accepted = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(3_000))));
    let refused = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(60_000))));
    executor.run_woken();
    assert_eq!(executor.finished(refused).unwrap().output, WaitResult::Refused(Refusal::QueueFull));
    executor.run();
    assert_eq!(executor.finished(tasks[3]).unwrap().at, after_ms(2_000));
    assert_eq!(executor.finished(accepted).unwrap().at, after_ms(3_000));
}

#[test]
fn a_queue_of_size_zero_admits_requests_that_need_not_wait() {
    let clock = ManualClock::at(start());
    let limiter = Limiter::builder().limit("1/s burst 1").queue_max(0).clock(clock.clone()).build().unwrap();
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..2).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
    executor.run_woken();
    assert!(executor.finished(tasks[0]).unwrap().output.is_admitted());
    assert_eq!(executor.finished(tasks[1]).unwrap().output, WaitResult::Refused(Refusal::QueueFull));
}

#[test]
fn a_refund_or_reset_wakes_the_head() {
    type ReturnUnits = fn(&Limiter<ManualClock>);
    let ways: [(&str, ReturnUnits); 2] =
        [("refund", |limiter| limiter.refund_at(KEY, 1, start())), ("reset", |limiter| limiter.reset(KEY))];
    for (way, return_units) in ways {
        let clock = ManualClock::at(start());
        let limiter = limiter(&["1 per minute burst 1"], &clock);
        assert!(limiter.check(KEY, 1).is_allowed());
        let mut executor = Executor::new(&clock);
        let head = executor.spawn(wait_result(limiter.acquire(KEY, 1)));
        let next = executor.spawn(wait_result(limiter.acquire(KEY, 1)));
        executor.run_until(after_ms(10_000));
        let polls = executor.polls(next);
        return_units(&limiter);
        executor.run_woken();
        assert_eq!(executor.finished(head).expect(way).at, after_ms(10_000), "{way}");
        assert!(executor.finished(next).is_none(), "{way}");
        // It is the head now, and was woken only for that.
        assert_eq!(executor.polls(next), polls + 1, "{way}");
        executor.run();
        let next = executor.finished(next).unwrap().at.as_nanos() - start().as_nanos();
        // The one before it was decided as of the instant of the refund, and not earlier.
        assert_eq!(next, 70_000_000_000, "{way}");
    }
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(25))]

    /// Waiting is not an attempt: the request is admitted when the window frees, however often it asked.
    #[test]
    fn waiting_does_not_count_as_a_denied_attempt(
        beside_lease in any::<bool>(),
        log in any::<bool>(),
        waiters in 1_usize..12,
        wakes_ms in prop::collection::vec(0_u64..3_000, 0..10),
    ) {
        let limit = match log {
            true => "{algorithm: sliding_log, limit: 3, per: 1s, count_denied: true}",
            false => "{algorithm: fixed_window, limit: 3, per: 1s, count_denied: true}",
        };
        let roomy = "{algorithm: concurrency, limit: 1000, ttl: 1h}";
        let limits: &[&str] = if beside_lease { &[limit, roomy] } else { &[limit] };
        let clock = ManualClock::default();
        let limiter = limiter(limits, &clock);
        prop_assert!(limiter.check(KEY, 3).is_allowed());
        let mut executor = Executor::new(&clock);
        let tasks: Vec<_> = (0..waiters).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
        let mut wakes_ms = wakes_ms;
        wakes_ms.sort_unstable();
        for wake_ms in wakes_ms {
            executor.run_until(at_ms(wake_ms));
            // Wakes the head for nothing.
            limiter.refund_at(KEY, 0, start());
            executor.run_woken();
        }
        executor.run();
        for (number, task) in tasks.iter().enumerate() {
            prop_assert_eq!(executor.finished(*task).unwrap().at, at_ms(1_000 * (1 + number as u64 / 3)));
        }
        let used = match waiters % 3 { 0 => 3, rest => rest as u64 };
        let last = executor.finished(*tasks.last().unwrap()).unwrap().at;
        prop_assert_eq!(limiter.peek_at(KEY, 0, last).remaining, 3 - used);
    }
}

#[test]
fn a_leaky_bucket_releases_units_evenly() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["{algorithm: leaky_bucket, limit: 3, per: 1s, queue: 4}"], &clock);
    let mut executor = Executor::new(&clock);
    let costs = [1, 1, 3, 1, 2, 1];
    let tasks = costs.map(|cost| executor.spawn(wait_result(limiter.acquire(KEY, cost))));
    executor.run();
    let mut units = 0;
    for (task, cost) in tasks.iter().zip(costs) {
        units += cost;
        // The last unit of each leaves this many thirds of a second after the first of all.
        let leaves_ns = (u128::from(units - 1) * 1_000_000_000).div_ceil(3);
        assert_eq!(executor.finished(*task).unwrap().at, crate::queue::model::later(start(), leaves_ns));
    }
}

#[test]
fn a_request_dropped_during_its_delay_leaves_no_gap() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["{algorithm: leaky_bucket, limit: 10, per: 1s, queue: 4}"], &clock);
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..5).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
    executor.run_until(after_ms(150));
    // The first two have left. The third is delayed until 200 ms.
    executor.drop_task(tasks[2]);
    executor.run();
    assert_eq!(executor.finished(tasks[3]).unwrap().at, after_ms(200));
    assert_eq!(executor.finished(tasks[4]).unwrap().at, after_ms(300));
    assert_eq!(limiter.peek(KEY, 1).delay.get(), 100_000_000);
}

#[test]
fn a_request_waits_while_a_leaky_bucket_is_full() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["{algorithm: leaky_bucket, limit: 10, per: 1s, queue: 2}"], &clock);
    assert!(limiter.check(KEY, 3).is_allowed());
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..2).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
    let late = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(499))));
    executor.run_woken();
    assert!(matches!(executor.finished(late).unwrap().output, WaitResult::Refused(Refusal::TooLong { .. })));
    executor.run();
    assert_eq!(executor.finished(tasks[0]).unwrap().at, after_ms(300));
    assert_eq!(executor.finished(tasks[1]).unwrap().at, after_ms(400));
}

#[test]
fn a_fixed_window_admits_its_limit_at_each_window_start() {
    let clock = ManualClock::at(at_ms(10_400));
    let limiter = limiter(&["{algorithm: fixed_window, limit: 4, per: 1s}"], &clock);
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..14).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
    executor.run();
    for (number, task) in tasks.iter().enumerate() {
        let expected = if number < 4 { 10_400 } else { 10_000 + 1_000 * (number as u64 / 4) };
        assert_eq!(executor.finished(*task).unwrap().at, at_ms(expected), "{number}");
    }
}

#[test]
fn a_clock_jump_admits_no_more_than_the_limit() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1/s burst 1"], &clock);
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..5).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
    executor.run_woken();
    let day = after_ms(86_400_000);
    clock.set(day);
    executor.run_woken();
    // One that was due a day ago, and no more: units that were not asked for in time are lost.
    assert!(executor.finished(tasks[1]).is_some());
    assert!(executor.finished(tasks[2]).is_none());
    executor.run();
    for (number, task) in tasks.iter().enumerate().skip(2) {
        let since_ns = executor.finished(*task).unwrap().at.as_nanos() - day.as_nanos();
        let on_time_ns = 1_000_000_000 * (number as u64 - 1);
        assert!(
            (on_time_ns - tidegate::LATE_NS_MAX..=on_time_ns).contains(&since_ns),
            "{number}: {since_ns}"
        );
    }
}

#[test]
fn at_the_end_of_time_a_request_that_cannot_be_admitted_is_refused() {
    let clock = ManualClock::at(Timestamp::from_nanos(u64::MAX));
    for limit in [
        "1/s burst 1",
        "{algorithm: sliding_log, limit: 1, per: 1s}",
        "{algorithm: fixed_window, limit: 1, per: 1s}",
    ] {
        let limiter = limiter(&[limit], &clock);
        let mut executor = Executor::new(&clock);
        let tasks: Vec<_> = (0..3).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
        executor.run_woken();
        assert!(executor.finished(tasks[0]).unwrap().output.is_admitted(), "{limit}");
        for task in &tasks[1..] {
            assert_eq!(
                executor.finished(*task).unwrap().output,
                WaitResult::Refused(Refusal::Never),
                "{limit}"
            );
        }
    }
}

/// A superseded limit is enforced beside the new one for a while, and a wait for it is no longer than that.
#[test]
fn a_superseded_limit_is_not_waited_for_after_its_end() {
    let clock = ManualClock::at(start());
    let old = limiter(&["1 per hour burst 1"], &clock);
    assert!(old.check(KEY, 1).is_allowed());
    let new = old.with_limits(["{algorithm: fixed_window, limit: 5, per: 1s}"]).unwrap();
    let mut executor = Executor::new(&clock);
    let one = executor.spawn(wait_result(new.acquire(KEY, 1)));
    let more_than_the_old_could = executor.spawn(wait_result(new.acquire(KEY, 3)));
    executor.run();
    assert_eq!(executor.finished(one).unwrap().at, after_ms(1_000));
    assert_eq!(executor.finished(more_than_the_old_could).unwrap().at, after_ms(1_000));
}

#[test]
fn a_request_that_wakes_after_its_deadline_is_refused_and_not_charged() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1/s burst 1"], &clock);
    assert!(limiter.check(KEY, 1).is_allowed());
    let mut executor = Executor::new(&clock);
    let late = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(1_000))));
    executor.run_woken();
    // Its timer fires four seconds late.
    clock.advance(ms(5_000));
    executor.run_woken();
    assert!(matches!(executor.finished(late).unwrap().output, WaitResult::Refused(Refusal::TooLong { .. })));
    assert!(limiter.check(KEY, 1).is_allowed());
}
