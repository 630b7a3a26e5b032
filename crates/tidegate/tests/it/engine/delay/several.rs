//! A request that touches more limits than the one it waits for.

use tidegate::rules::Fate;

use super::{decide, done_ms, ended, passed, set_seconds};
use crate::engine::setup::{Setup, over_each_store};

const BESIDE: &str = "
domain: api
rules:
  - { name: slow, key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - { name: hard, key: [tenant], limit: { limit: 2 per hour, algorithm: fixed_window } }
";

fn another_limit_denies_when_it_is_its_turn_and_the_next_goes_instead(setup: Setup) {
    let bench = setup.bench(BESIDE);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1 tenant=a", 3);
    let other = bench.come(&mut tasks, "user=1 tenant=b", 1);
    tasks.run();
    // It is asked when those before it have left, and has no reason to wait then.
    assert_eq!(done_ms(&tasks, &all), [0, 1000, 1000].map(Some));
    assert_eq!(passed(&tasks, &all), [true, true, false]);
    let denied = ended(&tasks, all[2]);
    assert_eq!((denied.told.rule.as_deref(), denied.refusal, denied.waited_ms), (Some("hard"), None, 1000));
    // It charged nothing, so what it stood in line for is there for the next.
    assert_eq!(done_ms(&tasks, &other), [Some(2000)]);
    assert_eq!(passed(&tasks, &other), [true]);
}

fn who_is_over_a_hard_limit_is_not_held(setup: Setup) {
    let bench = setup.bench(BESIDE);
    assert_eq!(bench.passing("user=2 tenant=a", 1), 1);
    assert_eq!(bench.passing("user=1 tenant=a", 1), 1);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1 tenant=a", 1);
    tasks.run_woken();
    assert_eq!(ended(&tasks, all[0]).told.rule.as_deref(), Some("hard"));
    assert_eq!(bench.clock.sleepers(), 0);
}

/// A user's own pace, and one for all together.
const TWO_PACES: &str = "
domain: api
rules:
  - { name: all, limit: { limit: 1 per second, name: all }, action: { delay: { max_wait: 8s } } }
  - { name: each, key: [user], limit: 1 per 3s, action: { delay: { max_wait: 8s } } }
";

fn who_is_over_two_waits_for_both_and_holds_up_nobody_who_is_over_one(setup: Setup) {
    let bench = setup.bench(TWO_PACES);
    let mut tasks = bench.tasks();
    let one = bench.come(&mut tasks, "user=1", 3);
    let others = ["user=2", "user=3", "user=4"].map(|user| bench.come(&mut tasks, user, 1)[0]);
    tasks.run();
    // The second and the third of user 1 wait for three and six seconds; meanwhile others go, one a second.
    assert_eq!(done_ms(&tasks, &one), [0, 3000, 6000].map(Some));
    assert_eq!(done_ms(&tasks, &others), [1000, 2000, 4000].map(Some));
    assert_eq!(passed(&tasks, &one), [true; 3]);
    assert_eq!(bench.clock.sleepers(), 0);
}

fn the_smaller_deadline_of_two_counts(setup: Setup) {
    let bench = setup.bench(&TWO_PACES.replace(
        "1 per 3s, action: { delay: { max_wait: 8s } }",
        "1 per 3s, action: { delay: { max_wait: 4s } }",
    ));
    let mut tasks = bench.tasks();
    let one = bench.come(&mut tasks, "user=1", 3);
    tasks.run();
    assert_eq!(done_ms(&tasks, &one), [Some(0), Some(3000), Some(0)]);
    assert_eq!(passed(&tasks, &one), [true, true, false]);
}

fn who_comes_from_another_line_keeps_its_place(setup: Setup) {
    let bench = setup.bench(TWO_PACES);
    let mut tasks = bench.tasks();
    let early = bench.come(&mut tasks, "user=1", 2);
    tasks.run_woken();
    // Just before the second one is due for its own limit, others get in line for the one that all share.
    tasks.run_up_to(tidegate::Timestamp::from_nanos(2_500_000_000));
    let crowd = ["user=2", "user=3", "user=4"].map(|user| bench.come(&mut tasks, user, 1)[0]);
    tasks.run();
    assert_eq!(done_ms(&tasks, &early), [Some(0), Some(3500)]);
    assert_eq!(done_ms(&tasks, &crowd), [Some(2500), Some(4500), Some(5500)]);
}

fn who_is_first_in_one_line_does_not_overtake_in_another(setup: Setup) {
    let bench = setup.bench(TWO_PACES);
    let mut tasks = bench.tasks();
    let early = bench.come(&mut tasks, "user=1", 2);
    tasks.run_woken();
    let late = bench.come(&mut tasks, "user=1", 1);
    // Nobody waits for the limit that all share, and the one that waits for the user's is polled later.
    bench.advance(3);
    tasks.run();
    assert_eq!(done_ms(&tasks, &early), [Some(0), Some(3000)]);
    assert_eq!(done_ms(&tasks, &late), [Some(6000)]);
}

fn a_deadline_comes_along_to_another_line(setup: Setup) {
    let hurried = TWO_PACES.replace(
        "1 per 3s, action: { delay: { max_wait: 8s } }",
        "1 per 3s, action: { delay: { max_wait: 3s } }",
    );
    let bench = setup.bench(&hurried);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 2);
    tasks.run_up_to(tidegate::Timestamp::from_nanos(2_500_000_000));
    let other = bench.come(&mut tasks, "user=2", 1);
    tasks.run();
    assert_eq!(passed(&tasks, &other), [true]);
    // What all share is there again half a second after it has to have gone.
    assert_eq!(passed(&tasks, &all), [true, false]);
    assert_eq!(done_ms(&tasks, &all), [Some(0), Some(3000)]);
    assert_eq!(ended(&tasks, all[1]).told.retry_after_ms, Some(500));
}

fn who_is_denied_in_front_leaves_its_room_to_those_who_come(setup: Setup) {
    let bench = setup.bench(BESIDE);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1 tenant=a", 3);
    let behind = ["user=1 tenant=b", "user=1 tenant=c", "user=1 tenant=d"];
    let behind = behind.map(|request| bench.come(&mut tasks, request, 1)[0]);
    set_seconds(&bench.clock, &mut tasks, 1);
    assert_eq!(passed(&tasks, &all), [true, true, false]);
    let late = bench.come(&mut tasks, "user=1 tenant=e", 2);
    tasks.run();
    assert_eq!(done_ms(&tasks, &behind), [2000, 3000, 4000].map(Some));
    assert_eq!(done_ms(&tasks, &late), [5000, 6000].map(Some));
    assert_eq!(passed(&tasks, &late), [true, true]);
}

fn two_descriptors_of_one_key_are_one_request_of_twice_the_cost(setup: Setup) {
    let bench = super::bench(setup, "key: [user], limit: 2 per 2s, action: { delay: { max_wait: 9s } }");
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1;user=1", 3);
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [0, 2000, 4000].map(Some));
}

fn a_raised_signal_is_seen_when_it_is_its_turn(setup: Setup) {
    let rules = "
domain: api
rules:
  - { name: slow, key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - name: moving
    limit: { limit: 1 per hour, algorithm: fixed_window }
    action: { elastic: { min: 1, max: 3, signal: capacity } }
";
    let bench = setup.bench(rules);
    let mut tasks = bench.tasks();
    assert_eq!(bench.passing("user=1", 1), 1);
    bench.engine.push_signal("capacity", "0.5".parse().unwrap()).unwrap();
    let all = bench.come(&mut tasks, "user=1", 2);
    tasks.run_woken();
    bench.engine.push_signal("capacity", "1".parse().unwrap()).unwrap();
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, true]);
    let over = bench.come(&mut tasks, "user=1", 1);
    tasks.run();
    assert_eq!(ended(&tasks, over[0]).told.fate, Fate::Denied);
}

fn a_signal_that_falls_denies_who_waits_when_it_is_its_turn(setup: Setup) {
    let rules = "
domain: api
rules:
  - { name: slow, key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - name: moving
    limit: { limit: 5 per hour, algorithm: fixed_window }
    action: { elastic: { min: 1, max: 9, signal: capacity } }
";
    let bench = setup.bench(rules);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 3);
    set_seconds(&bench.clock, &mut tasks, 1);
    bench.engine.push_signal("capacity", "0".parse().unwrap()).unwrap();
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, true, false]);
    // The one in front is told to look again; what it waits for has not changed.
    assert_eq!(done_ms(&tasks, &all), [Some(0), Some(1000), Some(1000)]);
}

fn a_pool_is_drawn_on_once_it_is_its_turn(setup: Setup) {
    let rules = "
domain: api
pools: { spare: { limit: 1 per hour, algorithm: fixed_window } }
rules:
  - { name: slow, key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - name: moving
    limit: { limit: 1 per hour, algorithm: fixed_window }
    action: { elastic: { max: 9, pool: spare } }
";
    let bench = setup.bench(rules);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 3);
    tasks.run();
    let fates: Vec<Fate> = all.iter().map(|task| ended(&tasks, *task).told.fate).collect();
    assert_eq!(fates, [Fate::Allowed, Fate::Soft, Fate::Denied]);
    assert_eq!(done_ms(&tasks, &all), [0, 1000, 1000].map(Some));
}

fn who_asks_for_nothing_is_not_held(setup: Setup) {
    let bench = setup.bench(TWO_PACES);
    let mut tasks = bench.tasks();
    bench.come(&mut tasks, "user=1", 3);
    tasks.run_woken();
    let asks = tasks.spawn(decide(&bench.engine, "user=1", 0));
    tasks.run_woken();
    assert_eq!(ended(&tasks, asks).waited_ms, 0);
}

over_each_store!(
    another_limit_denies_when_it_is_its_turn_and_the_next_goes_instead,
    who_is_over_a_hard_limit_is_not_held,
    who_is_over_two_waits_for_both_and_holds_up_nobody_who_is_over_one,
    the_smaller_deadline_of_two_counts,
    who_comes_from_another_line_keeps_its_place,
    who_is_first_in_one_line_does_not_overtake_in_another,
    a_deadline_comes_along_to_another_line,
    who_is_denied_in_front_leaves_its_room_to_those_who_come,
    two_descriptors_of_one_key_are_one_request_of_twice_the_cost,
    a_raised_signal_is_seen_when_it_is_its_turn,
    a_signal_that_falls_denies_who_waits_when_it_is_its_turn,
    a_pool_is_drawn_on_once_it_is_its_turn,
    who_asks_for_nothing_is_not_held,
);
