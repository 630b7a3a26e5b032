//! What happens while the shared store is being asked.

use std::time::Duration;

use tidegate::Timestamp;
use tidegate_testing::fake_store::StoreBehavior;

use crate::engine::delay::{SLOW, decide, finished_ms, passed, rules};
use crate::engine::fixture::{EngineFixture, with_request};
use crate::engine_fleet::fleet::Fleet;
use crate::executor::Executor;

fn refund(node: &EngineFixture) {
    with_request("user=1", 1, |request| {
        let refunded = node.engine.refund(request, None);
        let mut refunded = std::pin::pin!(refunded);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        // The refund completes before the replies to other calls are released.
        assert!(refunded.as_mut().poll(&mut context).is_ready());
    });
}

/// Units that come back while the head waits for its reply are not missed.
#[test]
fn a_refund_during_a_store_call_triggers_another_call() {
    let fleet = Fleet::new(1, &rules(SLOW));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    let first = tasks.spawn(decide(&node.engine, "user=1", 1));
    tasks.run_woken();
    assert_eq!(finished_ms(&tasks, &[first]), [Some(0)]);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let second = tasks.spawn(decide(&node.engine, "user=1", 1));
    tasks.run_woken();
    // The store denied it, but the reply is still on its way. The units come back after the denial.
    *fleet.store.behavior() = StoreBehavior::Reply;
    refund(node);
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!(finished_ms(&tasks, &[first, second]), [Some(0), Some(0)]);
    assert_eq!(node.clock.sleepers(), 0);
}

/// A reply from before that does not refuse the requests behind it.
#[test]
fn a_refund_during_a_store_call_also_serves_waiters_behind() {
    let fleet = Fleet::new(1, &rules(SLOW));
    let node = fleet.first();
    assert_eq!(node.count_passing("user=1", 1), 1);
    let mut tasks = Executor::new(&node.clock);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let all: Vec<_> = (0..7).map(|_| tasks.spawn(decide(&node.engine, "user=1", 1))).collect();
    tasks.run_woken();
    *fleet.store.behavior() = StoreBehavior::Reply;
    refund(node);
    fleet.store.release_replies();
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [0, 1000, 2000, 3000, 4000, 5000, 0].map(Some));
    assert_eq!(passed(&tasks, &all), [true, true, true, true, true, true, false]);
}

#[test]
fn rules_changed_during_a_store_call_are_seen_before_sleeping() {
    let fleet = Fleet::new(1, &rules(SLOW));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    let first = tasks.spawn(decide(&node.engine, "user=1", 1));
    tasks.run_woken();
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let second = tasks.spawn(decide(&node.engine, "user=1", 1));
    tasks.run_woken();
    node.reload("{ domain: api, rules: [] }");
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run_woken();
    assert_eq!(passed(&tasks, &[first, second]), [true, true]);
}

/// If the head is dropped while the store is being asked, the next request becomes the head, and the charge stays.
#[test]
fn a_request_dropped_during_its_store_call_blocks_no_other() {
    let fleet = Fleet::new(1, &rules(SLOW));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let all = [(); 3].map(|()| tasks.spawn(decide(&node.engine, "user=1", 1)));
    tasks.run_woken();
    assert_eq!(node.engine.waiting_requests(), 0, "no request waits yet");
    tasks.drop_task(all[0]);
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [None, Some(1000), Some(2000)]);
    assert_eq!(node.engine.waiting_requests(), 0);
}

/// The same for a request that already waits and asks again.
#[test]
fn a_waiter_dropped_during_its_store_call_blocks_no_other() {
    let fleet = Fleet::new(1, &rules(SLOW));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    let all = [(); 4].map(|()| tasks.spawn(decide(&node.engine, "user=1", 1)));
    tasks.run_woken();
    assert_eq!(node.engine.waiting_requests(), 3);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    tasks.run_until(Timestamp::from_nanos(1_000_000_000));
    tasks.drop_task(all[1]);
    assert_eq!(node.engine.waiting_requests(), 2);
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [Some(0), None, Some(2000), Some(3000)]);
    assert_eq!(node.engine.waiting_requests(), 0);
}

/// Requests wait behind one whose reply is on its way, and time passes.
#[test]
fn waiters_behind_a_slow_store_call_are_refused_in_time() {
    let fleet = Fleet::new(1, &rules(SLOW));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let all = [(); 3].map(|()| tasks.spawn(decide(&node.engine, "user=1", 1)));
    tasks.run_up_to(Timestamp::from_nanos(7_000_000_000));
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, false, false], "it asked in time, the others did not");
    assert_eq!(finished_ms(&tasks, &all), [Some(7000); 3]);
    // They were charged nothing.
    assert_eq!(node.count_passing("user=1", 3), 1);
}

#[test]
fn a_request_without_delay_waits_only_for_the_store() {
    let fleet = Fleet::new(1, &rules("key: [user], limit: 1 per second"));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let all = [(); 2].map(|()| tasks.spawn(decide(&node.engine, "user=1", 1)));
    tasks.run_woken();
    assert_eq!(finished_ms(&tasks, &all), [None, None]);
    assert_eq!(fleet.store.calls(), 2, "they ask at the same time");
    assert_eq!(node.engine.waiting_requests(), 0);
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!(passed(&tasks, &all), [true, false]);
    assert_eq!(tasks.total_polls(), 4);
}

/// A candidate that is asked after a slow reply has only the rest of the budget. The next request has a full budget.
#[test]
fn all_store_calls_of_a_request_share_one_budget() {
    let fleet = Fleet::new(1, &rules("key: [user], limit: 5 per second, candidate: 1 per second"));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    tasks.spawn(decide(&node.engine, "user=1", 1));
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), fleet.store.spent_budgets().len()), (1, 0));
    node.clock.advance(Duration::from_millis(7));
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), fleet.store.spent_budgets()), (2, vec![Duration::from_millis(7)]));
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run_woken();
    tasks.spawn(decide(&node.engine, "user=1", 1));
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), fleet.store.spent_budgets().len()), (4, 1));
}
