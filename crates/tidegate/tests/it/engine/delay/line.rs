//! One line: first come, first served, at the limit's own pace.

use tidegate::rules::Fate;
use tidegate::{Nanos, QUEUE_MAX_DEFAULT};

use super::{SLOW, bench, done_ms, ended, passed};
use crate::engine::setup::{Setup, over_each_store};
use crate::turn::Refusal;

fn each_goes_when_the_limit_admits_it_in_the_order_they_came(setup: Setup) {
    let bench = bench(setup, SLOW);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 6);
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [0, 1000, 2000, 3000, 4000, 5000].map(Some));
    assert_eq!(tasks.order(), all);
    for (number, task) in all.iter().enumerate() {
        let ended = ended(&tasks, *task);
        assert_eq!((ended.told.fate, ended.waited_ms), (Fate::Allowed, number as u128 * 1000));
        assert_eq!((ended.told.delay_ms, ended.refusal), (0, None));
        assert!(tasks.polls(*task) <= 3, "{number} was polled {} times", tasks.polls(*task));
    }
    assert_eq!(tasks.sleepers_max, 1);
    assert_eq!(bench.clock.sleepers(), 0);
}

fn who_cannot_be_held_long_enough_is_denied_at_once(setup: Setup) {
    let bench = bench(setup, SLOW);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 8);
    tasks.run_woken();
    assert_eq!(done_ms(&tasks, &all), [Some(0), None, None, None, None, None, Some(0), Some(0)]);
    let denied = ended(&tasks, all[6]);
    assert_eq!((denied.told.fate, denied.waited_ms), (Fate::Denied, 0));
    assert_eq!(denied.refusal, Some(Refusal::TooLong { wait: Some(Nanos::new(6_000_000_000)) }));
    // All that stand in front are counted in.
    assert_eq!((denied.told.retry_after_ms, denied.told.rule.as_deref()), (Some(6000), Some("slow")));
    // As many are ahead of who comes after one second, and one has gone.
    super::set_seconds(&bench.clock, &mut tasks, 1);
    let next = bench.come(&mut tasks, "user=1", 2);
    tasks.run();
    assert_eq!(done_ms(&tasks, &next), [Some(6000), Some(1000)]);
    assert_eq!(passed(&tasks, &all[..6]), [true; 6]);
}

fn who_is_dropped_leaves_no_hole_and_charges_nothing(setup: Setup) {
    let bench = bench(setup, SLOW);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 6);
    tasks.run_woken();
    // In front, and further back.
    tasks.drop_task(all[1]);
    tasks.drop_task(all[3]);
    let last = bench.come(&mut tasks, "user=1", 2);
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [Some(0), None, Some(1000), None, Some(2000), Some(3000)]);
    assert_eq!(done_ms(&tasks, &last), [Some(4000), Some(5000)]);
    assert_eq!(bench.clock.sleepers(), 0);
    bench.advance(1);
    assert_eq!(bench.passing("user=1", 2), 1);
}

fn keys_do_not_hold_each_other_up(setup: Setup) {
    let bench = bench(setup, SLOW);
    let mut tasks = bench.tasks();
    let one = bench.come(&mut tasks, "user=1", 4);
    let other = bench.come(&mut tasks, "user=2", 2);
    tasks.run();
    assert_eq!(done_ms(&tasks, &one), [0, 1000, 2000, 3000].map(Some));
    assert_eq!(done_ms(&tasks, &other), [0, 1000].map(Some));
    assert_eq!(tasks.sleepers_max, 2);
}

fn a_line_has_an_end(setup: Setup) {
    let bench = bench(setup, "key: [user], limit: 1 per millisecond, action: { delay: { max_wait: 1h } }");
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", QUEUE_MAX_DEFAULT + 2);
    tasks.run_woken();
    // One has gone, and those behind it stand in line.
    let full = ended(&tasks, all[QUEUE_MAX_DEFAULT + 1]);
    assert_eq!((full.told.fate, full.refusal), (Fate::Denied, Some(Refusal::QueueFull)));
    assert!(full.told.retry_after_ms > Some(0));
    assert_eq!(done_ms(&tasks, &all[1..=QUEUE_MAX_DEFAULT]), vec![None; QUEUE_MAX_DEFAULT]);
    let other = bench.come(&mut tasks, "user=2", 1);
    tasks.run();
    assert_eq!(passed(&tasks, &other), [true]);
    assert_eq!(done_ms(&tasks, &all)[QUEUE_MAX_DEFAULT], Some(QUEUE_MAX_DEFAULT as u64));
}

fn nobody_is_let_through_past_the_line_when_a_unit_is_there(setup: Setup) {
    let bench = bench(setup, SLOW);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 2);
    tasks.run_woken();
    let late = bench.come(&mut tasks, "user=1", 1);
    // The one in front is due, and is polled after the one that comes.
    bench.advance(1);
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [0, 1000].map(Some));
    assert_eq!(done_ms(&tasks, &late), [Some(2000)]);
}

fn one_that_is_polled_too_late_is_denied_and_charges_nothing(setup: Setup) {
    let bench = bench(setup, SLOW);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 2);
    tasks.run_woken();
    bench.advance(6);
    tasks.run_woken();
    let late = ended(&tasks, all[1]);
    assert_eq!((late.told.fate, late.refusal), (Fate::Denied, Some(Refusal::TooLong { wait: None })));
    assert_eq!(bench.passing("user=1", 2), 1);
}

over_each_store!(
    each_goes_when_the_limit_admits_it_in_the_order_they_came,
    who_cannot_be_held_long_enough_is_denied_at_once,
    who_is_dropped_leaves_no_hole_and_charges_nothing,
    keys_do_not_hold_each_other_up,
    a_line_has_an_end,
    nobody_is_let_through_past_the_line_when_a_unit_is_there,
    one_that_is_polled_too_late_is_denied_and_charges_nothing,
);
