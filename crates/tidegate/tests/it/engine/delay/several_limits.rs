//! A request with more limits than the one it waits for.

use tidegate::rules::AnswerKind;

use super::{decide, finished_ms, passed, result_of, run_until_second};
use crate::engine::setup::{Setup, over_each_store};

const DELAY_AND_REJECT: &str = "
domain: api
rules:
  - { name: slow, key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - { name: hard, key: [tenant], limit: { limit: 2 per hour, algorithm: fixed_window } }
";

fn a_head_denied_by_another_limit_lets_the_next_go(setup: Setup) {
    let fixture = setup.fixture(DELAY_AND_REJECT);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1 tenant=a", 3);
    let other = fixture.spawn_requests(&mut tasks, "user=1 tenant=b", 1);
    tasks.run();
    // It is asked when those before it have left, and then has no reason to wait.
    assert_eq!(finished_ms(&tasks, &all), [0, 1000, 1000].map(Some));
    assert_eq!(passed(&tasks, &all), [true, true, false]);
    let denied = result_of(&tasks, all[2]);
    assert_eq!((denied.answer.rule.as_deref(), denied.refusal, denied.waited_ms), (Some("hard"), None, 1000));
    // It was charged nothing, so the unit that it waited for is there for the next.
    assert_eq!(finished_ms(&tasks, &other), [Some(2000)]);
    assert_eq!(passed(&tasks, &other), [true]);
}

fn a_request_over_a_rejecting_limit_does_not_wait(setup: Setup) {
    let fixture = setup.fixture(DELAY_AND_REJECT);
    assert_eq!(fixture.count_passing("user=2 tenant=a", 1), 1);
    assert_eq!(fixture.count_passing("user=1 tenant=a", 1), 1);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1 tenant=a", 1);
    tasks.run_woken();
    assert_eq!(result_of(&tasks, all[0]).answer.rule.as_deref(), Some("hard"));
    assert_eq!(fixture.clock.sleepers(), 0);
}

/// A rate for each user, and one for all together.
const TWO_RATES: &str = "
domain: api
rules:
  - { name: all, limit: { limit: 1 per second, name: all }, action: { delay: { max_wait: 8s } } }
  - { name: each, key: [user], limit: 1 per 3s, action: { delay: { max_wait: 8s } } }
";

fn waiting_for_two_limits_does_not_block_waiters_of_one(setup: Setup) {
    let fixture = setup.fixture(TWO_RATES);
    let mut tasks = fixture.tasks();
    let one = fixture.spawn_requests(&mut tasks, "user=1", 3);
    let others = ["user=2", "user=3", "user=4"].map(|user| fixture.spawn_requests(&mut tasks, user, 1)[0]);
    tasks.run();
    // The second and the third request of user 1 wait for three and six seconds. Meanwhile others leave, one a second.
    assert_eq!(finished_ms(&tasks, &one), [0, 3000, 6000].map(Some));
    assert_eq!(finished_ms(&tasks, &others), [1000, 2000, 4000].map(Some));
    assert_eq!(passed(&tasks, &one), [true; 3]);
    assert_eq!(fixture.clock.sleepers(), 0);
}

fn the_smaller_deadline_of_two_counts(setup: Setup) {
    let fixture = setup.fixture(&TWO_RATES.replace(
        "1 per 3s, action: { delay: { max_wait: 8s } }",
        "1 per 3s, action: { delay: { max_wait: 4s } }",
    ));
    let mut tasks = fixture.tasks();
    let one = fixture.spawn_requests(&mut tasks, "user=1", 3);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &one), [Some(0), Some(3000), Some(0)]);
    assert_eq!(passed(&tasks, &one), [true, true, false]);
}

fn a_request_keeps_its_position_in_another_queue(setup: Setup) {
    let fixture = setup.fixture(TWO_RATES);
    let mut tasks = fixture.tasks();
    let early = fixture.spawn_requests(&mut tasks, "user=1", 2);
    tasks.run_woken();
    // Just before the second request is due for its own limit, others enter the queue of the shared limit.
    tasks.run_up_to(tidegate::Timestamp::from_nanos(2_500_000_000));
    let others = ["user=2", "user=3", "user=4"].map(|user| fixture.spawn_requests(&mut tasks, user, 1)[0]);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &early), [Some(0), Some(3500)]);
    assert_eq!(finished_ms(&tasks, &others), [Some(2500), Some(4500), Some(5500)]);
}

fn the_head_of_one_queue_does_not_overtake_in_another(setup: Setup) {
    let fixture = setup.fixture(TWO_RATES);
    let mut tasks = fixture.tasks();
    let early = fixture.spawn_requests(&mut tasks, "user=1", 2);
    tasks.run_woken();
    let late = fixture.spawn_requests(&mut tasks, "user=1", 1);
    // No request waits for the shared limit, and the one that waits for the user's limit is polled later.
    fixture.advance(3);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &early), [Some(0), Some(3000)]);
    assert_eq!(finished_ms(&tasks, &late), [Some(6000)]);
}

fn a_request_keeps_its_deadline_in_another_queue(setup: Setup) {
    let short_wait = TWO_RATES.replace(
        "1 per 3s, action: { delay: { max_wait: 8s } }",
        "1 per 3s, action: { delay: { max_wait: 3s } }",
    );
    let fixture = setup.fixture(&short_wait);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 2);
    tasks.run_up_to(tidegate::Timestamp::from_nanos(2_500_000_000));
    let other = fixture.spawn_requests(&mut tasks, "user=2", 1);
    tasks.run();
    assert_eq!(passed(&tasks, &other), [true]);
    // The shared limit has a unit again half a second after the request's deadline.
    assert_eq!(passed(&tasks, &all), [true, false]);
    assert_eq!(finished_ms(&tasks, &all), [Some(0), Some(3000)]);
    assert_eq!(result_of(&tasks, all[1]).answer.retry_after_ms, Some(500));
}

fn a_denied_head_leaves_its_units_to_later_requests(setup: Setup) {
    let fixture = setup.fixture(DELAY_AND_REJECT);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1 tenant=a", 3);
    let behind = ["user=1 tenant=b", "user=1 tenant=c", "user=1 tenant=d"];
    let behind = behind.map(|request| fixture.spawn_requests(&mut tasks, request, 1)[0]);
    run_until_second(&fixture.clock, &mut tasks, 1);
    assert_eq!(passed(&tasks, &all), [true, true, false]);
    let late = fixture.spawn_requests(&mut tasks, "user=1 tenant=e", 2);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &behind), [2000, 3000, 4000].map(Some));
    assert_eq!(finished_ms(&tasks, &late), [5000, 6000].map(Some));
    assert_eq!(passed(&tasks, &late), [true, true]);
}

fn two_descriptors_of_one_key_are_one_request_of_twice_the_cost(setup: Setup) {
    let fixture =
        super::fixture_with_rule(setup, "key: [user], limit: 2 per 2s, action: { delay: { max_wait: 9s } }");
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1;user=1", 3);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [0, 2000, 4000].map(Some));
}

fn the_head_sees_a_raised_signal(setup: Setup) {
    let rules = "
domain: api
rules:
  - { name: slow, key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - name: moving
    limit: { limit: 1 per hour, algorithm: fixed_window }
    action: { elastic: { min: 1, max: 3, signal: capacity } }
";
    let fixture = setup.fixture(rules);
    let mut tasks = fixture.tasks();
    assert_eq!(fixture.count_passing("user=1", 1), 1);
    fixture.engine.push_signal("capacity", "0.5".parse().unwrap()).unwrap();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 2);
    tasks.run_woken();
    fixture.engine.push_signal("capacity", "1".parse().unwrap()).unwrap();
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, true]);
    let over = fixture.spawn_requests(&mut tasks, "user=1", 1);
    tasks.run();
    assert_eq!(result_of(&tasks, over[0]).answer.kind, AnswerKind::Denied);
}

fn a_lowered_signal_denies_the_head(setup: Setup) {
    let rules = "
domain: api
rules:
  - { name: slow, key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - name: moving
    limit: { limit: 5 per hour, algorithm: fixed_window }
    action: { elastic: { min: 1, max: 9, signal: capacity } }
";
    let fixture = setup.fixture(rules);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 3);
    run_until_second(&fixture.clock, &mut tasks, 1);
    fixture.engine.push_signal("capacity", "0".parse().unwrap()).unwrap();
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, true, false]);
    // The head is woken to ask again. What it waits for has not changed.
    assert_eq!(finished_ms(&tasks, &all), [Some(0), Some(1000), Some(1000)]);
}

fn the_head_borrows_from_a_pool(setup: Setup) {
    let rules = "
domain: api
pools: { spare: { limit: 1 per hour, algorithm: fixed_window } }
rules:
  - { name: slow, key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - name: moving
    limit: { limit: 1 per hour, algorithm: fixed_window }
    action: { elastic: { max: 9, pool: spare } }
";
    let fixture = setup.fixture(rules);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 3);
    tasks.run();
    let kinds: Vec<AnswerKind> = all.iter().map(|task| result_of(&tasks, *task).answer.kind).collect();
    assert_eq!(kinds, [AnswerKind::Allowed, AnswerKind::Soft, AnswerKind::Denied]);
    assert_eq!(finished_ms(&tasks, &all), [0, 1000, 1000].map(Some));
}

fn a_request_with_cost_zero_does_not_wait(setup: Setup) {
    let fixture = setup.fixture(TWO_RATES);
    let mut tasks = fixture.tasks();
    fixture.spawn_requests(&mut tasks, "user=1", 3);
    tasks.run_woken();
    let zero_cost = tasks.spawn(decide(&fixture.engine, "user=1", 0));
    tasks.run_woken();
    assert_eq!(result_of(&tasks, zero_cost).waited_ms, 0);
}

over_each_store!(
    a_head_denied_by_another_limit_lets_the_next_go,
    a_request_over_a_rejecting_limit_does_not_wait,
    waiting_for_two_limits_does_not_block_waiters_of_one,
    the_smaller_deadline_of_two_counts,
    a_request_keeps_its_position_in_another_queue,
    the_head_of_one_queue_does_not_overtake_in_another,
    a_request_keeps_its_deadline_in_another_queue,
    a_denied_head_leaves_its_units_to_later_requests,
    two_descriptors_of_one_key_are_one_request_of_twice_the_cost,
    the_head_sees_a_raised_signal,
    a_lowered_signal_denies_the_head,
    the_head_borrows_from_a_pool,
    a_request_with_cost_zero_does_not_wait,
);
