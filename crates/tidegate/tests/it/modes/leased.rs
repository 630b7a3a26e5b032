//! Quota leases.

use super::*;

const WINDOW: &str = "{algorithm: fixed_window, limit: 2000, per: minute}";

#[test]
fn a_fleet_admits_exactly_the_limit_with_few_calls() {
    for limit in [
        WINDOW,
        "{algorithm: gcra, limit: 2000, per: 1000d}",
        "{algorithm: token_bucket, limit: 2000, per: 1000d}",
        "{algorithm: sliding_window, limit: 2000, per: 1000d}",
    ] {
        let fleet = TestFleet::new(4);
        let counter = counter(limit);
        let mut admitted = 0;
        for request in 0..4_000 {
            if request % 4 == 0 {
                fleet.clock.advance(Duration::from_nanos(100_000));
            }
            admitted += fleet.admitted(request % 4, leased(&counter, 1), 1);
        }
        assert_eq!(admitted, 2_000, "{limit}");
        // Here no deny cache answers the other 2,000.
        let calls = fleet.shared.0.calls() - 2_000;
        assert!(calls < 200, "{limit}: {calls} calls");
    }
}

/// Whatever nodes do, the store never sees more than L units of a window used.
#[test]
fn random_requests_never_exceed_a_window() {
    let below = |numbers: &mut Numbers, end: u64| numbers.below(NonZeroU64::new(end).unwrap());
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let fleet = TestFleet::new(3);
        let counter = counter("{algorithm: fixed_window, limit: 50, per: 1s}");
        let mut used = std::collections::HashMap::<u64, u64>::new();
        for _ in 0..2_000 {
            match below(&mut numbers, 10) {
                0 => fleet.advance_ms(below(&mut numbers, 120)),
                1 => fleet.tick(),
                _ => fleet.clock.advance(Duration::from_nanos(below(&mut numbers, 2_000_000))),
            }
            let (node, cost) = (below(&mut numbers, 3), 1 + below(&mut numbers, 3));
            let node = usize::try_from(node).unwrap();
            if fleet.check(node, leased(&counter, cost)).kind == OutcomeKind::Allowed {
                *used.entry(fleet.now().as_nanos() / 1_000_000_000).or_default() += cost;
            }
        }
        assert!(used.values().all(|used| *used <= 50), "seed {seed}: {used:?}");
        assert!(used.values().filter(|used| **used >= 48).count() > 1, "seed {seed}: {used:?}");
    }
}

#[test]
fn unused_units_are_given_back() {
    let fleet = TestFleet::new(1);
    let counter = counter(WINDOW);
    assert_eq!(fleet.admitted(0, leased(&counter, 1), 20), 20);
    let held = fleet.nodes[0].shared().stats().units_held;
    assert!(held > 0);
    assert_eq!(fleet.left(leased(&counter, 0)), 2_000 - 20 - held);
    // Idle for half the life of a lease.
    fleet.advance_ms(600);
    fleet.tick();
    assert_eq!(fleet.left(leased(&counter, 0)), 2_000 - 20);
    assert_eq!(fleet.nodes[0].shared().stats().units_held, 0);

    assert_eq!(fleet.admitted(0, leased(&counter, 1), 20), 20);
    fleet.nodes[0].shared().return_leases(fleet.now());
    assert_eq!(fleet.left(leased(&counter, 0)), 2_000 - 40);
}

#[test]
fn a_lease_ends_with_its_window() {
    let fleet = TestFleet::new(1);
    let counter = counter("{algorithm: fixed_window, limit: 100, per: 1s}");
    fleet.advance_ms(990);
    assert_eq!(fleet.admitted(0, leased(&counter, 1), 10), 10);
    assert!(fleet.nodes[0].shared().stats().units_held > 0);
    fleet.advance_ms(10);
    // All units of the new window, and none of the old one.
    assert_eq!(fleet.admitted(0, leased(&counter, 1), 300), 100);
}

#[test]
fn the_units_of_a_killed_node_come_back_with_time() {
    let mut fleet = TestFleet::new(2);
    let counter = counter("{algorithm: fixed_window, limit: 100, per: 1s}");
    assert_eq!(fleet.admitted(0, leased(&counter, 1), 10), 10);
    let held = usize::try_from(fleet.nodes[0].shared().stats().units_held).unwrap();
    assert!(held > 0);
    fleet.nodes.remove(0);
    assert_eq!(fleet.admitted(0, leased(&counter, 1), 300), 90 - held);
    fleet.advance_ms(1_000);
    assert_eq!(fleet.admitted(0, leased(&counter, 1), 300), 100);
}

#[test]
fn requests_wait_for_a_refill_and_share_it() {
    let fleet = TestFleet::new(1);
    let counter = counter(WINDOW);
    // The key is known to be in demand, and its lease is over.
    assert_eq!(fleet.admitted(0, leased(&counter, 1), 50), 50);
    fleet.nodes[0].shared().return_leases(fleet.now());
    let calls = fleet.shared.0.calls();
    fleet.shared.0.set_behavior(StoreBehavior::ReplyLater);
    let start = || fleet.start(0, Op::Check, &[leased(&counter, 1)]);
    let mut waiting: Vec<_> = (0..8).map(|_| Box::pin(start().reply())).collect();
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.iter_mut().all(|waiting| waiting.as_mut().poll(&mut context).is_pending()));
    assert_eq!(fleet.shared.0.calls() - calls, 1);
    fleet.shared.0.set_behavior(StoreBehavior::Reply);
    // The refill is finished by a thread in the background.
    while fleet.nodes[0].shared().stats().calls_under_way > 0 {
        std::thread::yield_now();
    }
    for mut waiting in waiting {
        let Poll::Ready(Ok(reply)) = waiting.as_mut().poll(&mut context) else {
            panic!("the lease has units")
        };
        assert_eq!(reply.outcomes[0].kind, OutcomeKind::Allowed);
    }
}

#[test]
fn a_lease_that_arrives_too_late_is_given_back() {
    let fleet = TestFleet::new(1);
    let counter = counter(WINDOW);
    assert_eq!(fleet.admitted(0, leased(&counter, 1), 50), 50);
    fleet.nodes[0].shared().return_leases(fleet.now());
    fleet.shared.0.set_behavior(StoreBehavior::ReplyLater);
    let mut waiting = Box::pin(fleet.start(0, Op::Check, &[leased(&counter, 1)]).reply());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    fleet.advance_ms(1_000);
    fleet.shared.0.set_behavior(StoreBehavior::Reply);
    while fleet.nodes[0].shared().stats().calls_under_way > 0 {
        std::thread::yield_now();
    }
    // Its own deadline has passed meanwhile.
    let Poll::Ready(Err(StoreError::TimedOut)) = waiting.as_mut().poll(&mut context) else {
        panic!("the deadline has passed")
    };
    assert_eq!(fleet.left(leased(&counter, 0)), 2_000 - 50);
}

#[test]
fn a_changed_limit_starts_with_new_leases() {
    let fleet = TestFleet::new(1);
    let (large, small) = (counter(WINDOW), counter("{algorithm: fixed_window, limit: 30, per: minute}"));
    assert_eq!(fleet.admitted(0, leased(&large, 1), 20), 20);
    assert!(fleet.nodes[0].shared().stats().units_held > 10);
    // Both have the same counter. Of the smaller limit, ten units are left.
    assert_eq!(fleet.admitted(0, leased(&small, 1), 100), 10);
}

#[test]
fn a_refund_goes_to_the_lease_or_to_the_store() {
    let fleet = TestFleet::new(1);
    let counter = counter(WINDOW);
    let charge = leased(&counter, 1);
    let mut reply = fleet.try_check(0, &[charge]).unwrap();
    for _ in 0..20 {
        fleet.advance_ms(1);
        reply = fleet.try_check(0, &[charge]).unwrap();
    }
    let refund = |reply: &Reply| {
        let charged_at =
            tidegate::store::ChargedAt::from_outcomes(&plan(&[charge]), &reply.outcomes, reply.at);
        fleet.ask(0, Op::Refund { charged_at: Some(charged_at) }, &[charge]).unwrap();
    };
    let held = fleet.nodes[0].shared().stats().units_held;
    refund(&reply);
    assert_eq!(fleet.nodes[0].shared().stats().units_held, held + 1);
    fleet.nodes[0].shared().return_leases(fleet.now());
    assert_eq!(fleet.left(charge), 2_000 - 20);
    refund(&reply);
    assert_eq!(fleet.left(charge), 2_000 - 19);
}

/// However often a charge is refunded, a lease never has more units than were debited.
#[test]
fn refunds_create_no_units() {
    let fleet = TestFleet::new(1);
    let counter = counter("{algorithm: fixed_window, limit: 100, per: minute}");
    let charge = leased(&counter, 1);
    let mut replies = Vec::new();
    for _ in 0..60 {
        fleet.advance_ms(1);
        replies.push(fleet.try_check(0, &[charge]).unwrap());
    }
    let held = fleet.nodes[0].shared().stats().units_held;
    // Refunds that do not go to a lease change nothing.
    fleet.shared.0.set_behavior(StoreBehavior::Fail(StoreError::BreakerOpen));
    for reply in &replies {
        let charged_at =
            tidegate::store::ChargedAt::from_outcomes(&plan(&[charge]), &reply.outcomes, reply.at);
        for _ in 0..30 {
            let _ = fleet.ask(0, Op::Refund { charged_at: Some(charged_at) }, &[charge]);
        }
    }
    fleet.shared.0.set_behavior(StoreBehavior::Reply);
    let refunded = fleet.nodes[0].shared().stats().units_held;
    assert!(refunded > held, "{held} held before");
    assert!(refunded + fleet.left(charge) <= 100, "{refunded} held, {} left", fleet.left(charge));
}

/// A unit of a window that a denied plan puts back after the window is over is not used in the next one.
#[test]
fn units_of_a_window_are_not_put_back_into_the_next_one() {
    let fleet = TestFleet::new(1);
    let one = Counter::new("leased", 0, "{algorithm: fixed_window, limit: 100, per: 1s}".parse().unwrap());
    let few = Counter::new("strict", 0, "{algorithm: fixed_window, limit: 0, per: 1h}".parse().unwrap());
    let charges = [leased(&one, 1), Charge::new(b"key", &few, 1)];
    fleet.advance_ms(990);
    assert_eq!(fleet.admitted(0, leased(&one, 1), 10), 10);
    assert!(fleet.nodes[0].shared().stats().units_held > 0);
    fleet.shared.0.set_behavior(StoreBehavior::ReplyLater);
    let mut denied = Box::pin(fleet.start(0, Op::Check, &charges).reply());
    let mut context = Context::from_waker(Waker::noop());
    assert!(denied.as_mut().poll(&mut context).is_pending());
    // The next window begins, and the node has a lease in it.
    fleet.advance_ms(10);
    *fleet.shared.0.behavior() = StoreBehavior::Reply;
    let admitted = fleet.admitted(0, leased(&one, 1), 20);
    fleet.shared.0.release_replies();
    let Poll::Ready(Ok(_)) = denied.as_mut().poll(&mut context) else { panic!("it is answered") };
    assert_eq!(admitted + fleet.admitted(0, leased(&one, 1), 300), 100);
}

/// Old leases are given back as they were debited: in a bucket a unit of the old limit is longer than one of the new limit.
#[test]
fn a_changed_limit_gives_back_what_was_debited() {
    let fleet = TestFleet::new(1);
    let (fast, slow) = (
        counter("{algorithm: gcra, limit: 1000, per: 1s}"),
        counter("{algorithm: gcra, limit: 10, per: 1s}"),
    );
    assert_eq!(fleet.admitted(0, leased(&fast, 1), 100), 100);
    let held = fleet.nodes[0].shared().stats().units_held;
    assert!(held > 10, "{held}");
    assert_eq!(fleet.admitted(0, leased(&slow, 0), 1), 1);
    assert_eq!(fleet.nodes[0].shared().stats().units_held, 0);
    // The 100 units that were used are still counted.
    assert_eq!(fleet.left(leased(&fast, 0)), 900);
}

/// A return of many leases leaves room in the queue of the store. What the store has no room for is sent later.
#[test]
fn many_leases_are_given_back_in_parts() {
    const KEYS: u32 = 20_000;
    let fleet = TestFleet::new(1);
    let counter = counter("{algorithm: fixed_window, limit: 1000000, per: 1d}");
    for user in 0..KEYS {
        let key = user.to_le_bytes();
        let charge = Charge { key: &key, ..leased(&counter, 1) };
        assert_eq!(fleet.admitted(0, charge, 4), 4);
    }
    let modes = fleet.nodes[0].shared();
    let held = modes.stats().units_held;
    assert!(held >= KEYS.into(), "{:?}", modes.stats());
    fleet.shared.0.set_behavior(StoreBehavior::Fail(StoreError::Overloaded));
    modes.return_leases(fleet.now());
    assert_eq!((modes.stats().units_held, modes.stats().units_stranded), (held, 0));
    fleet.shared.0.set_behavior(StoreBehavior::ReplyLater);
    fleet.tick();
    assert!((1_000..=4_096).contains(&modes.stats().calls_under_way), "{:?}", modes.stats());
    // The other half of the room is for pushes.
    fleet.tick();
    assert!(modes.stats().calls_under_way <= 4_096, "{:?}", modes.stats());
    fleet.shared.0.set_behavior(StoreBehavior::Reply);
    while modes.stats().calls_under_way > 0 {
        std::thread::yield_now();
    }
    (0..5).for_each(|_| fleet.tick());
    let stats = modes.stats();
    assert_eq!((stats.units_held, stats.units_stranded, stats.units_returned), (0, 0, held));
}
