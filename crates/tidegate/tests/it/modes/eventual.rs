//! Copies of shared counts.

use super::*;

const WINDOW: &str = "{algorithm: fixed_window, limit: 1000, per: 1s}";

/// Requests of all nodes in turn, one in each step.
fn run(fleet: &TestFleet, charge: Charge<'_>, requests: usize, step_ns: u64) -> usize {
    let mut admitted = 0;
    for request in 0..requests {
        fleet.clock.advance(Duration::from_nanos(step_ns));
        if request % 50 == 0 {
            fleet.tick();
        }
        admitted += fleet.admitted(request % fleet.nodes.len(), charge, 1);
    }
    admitted
}

#[test]
fn a_fleet_stays_near_the_limit_with_few_calls() {
    for limit in [
        WINDOW,
        "{algorithm: gcra, limit: 1000, per: 1000d}",
        "{algorithm: token_bucket, limit: 1000, per: 1000d}",
        "{algorithm: sliding_window, limit: 1000, per: 1000d}",
    ] {
        let fleet = TestFleet::new(4);
        let counter = counter(limit);
        let admitted = run(&fleet, eventual(&counter, 1), 9_000, 100_000);
        assert!((970..=1_100).contains(&admitted), "{limit}: {admitted}");
        let calls = fleet.shared.0.calls();
        assert!(calls < 450, "{limit}: {calls} calls");
    }
}

#[test]
fn nodes_learn_what_other_nodes_used() {
    let fleet = TestFleet::new(2);
    let counter = counter(WINDOW);
    assert_eq!(fleet.admitted(0, eventual(&counter, 1), 300), 300);
    fleet.advance_ms(100);
    fleet.tick();
    assert_eq!(fleet.left(eventual(&counter, 0)), 700);
    // The first decision of the other node knows nothing, the next ones do.
    assert_eq!(fleet.check(1, eventual(&counter, 1)).remaining, 999);
    fleet.advance_ms(20);
    fleet.tick();
    assert_eq!(fleet.check(1, eventual(&counter, 1)).remaining, 698);
}

/// What two nodes admit at once beyond the limit is deducted from what follows.
#[test]
fn units_over_the_limit_are_paid_back() {
    for (limit, carries) in [
        (WINDOW, true),
        ("{algorithm: gcra, limit: 1000, per: 1s}", true),
        ("{algorithm: fixed_window, limit: 1000, per: 1s}", false),
    ] {
        let fleet = TestFleet::new(2);
        let counter = counter(limit);
        let mode = Mode::Eventual {
            sync_us: NonZeroU32::new(100_000).unwrap(),
            carry: if carries { Carry::On } else { Carry::Off },
        };
        let charge = with_mode(&counter, 599, mode);
        // Both nodes know that the key is hardly used.
        let one = with_mode(&counter, 1, mode);
        assert_eq!((fleet.admitted(0, one, 1), fleet.admitted(1, one, 1)), (1, 1));
        fleet.advance_ms(10);
        fleet.tick();
        fleet.shared.0.set_behavior(StoreBehavior::ReplyLater);
        assert_eq!((fleet.admitted(0, charge, 1), fleet.admitted(1, charge, 1)), (1, 1));
        fleet.advance_ms(10);
        fleet.shared.0.set_behavior(StoreBehavior::Reply);
        while fleet.nodes.iter().any(|node| node.shared().stats().calls_under_way > 0) {
            std::thread::yield_now();
        }
        fleet.tick();
        fleet.advance_ms(100);
        fleet.tick();
        // Both nodes know of 1,200 units.
        fleet.advance_ms(880);
        let expected = match (limit, carries) {
            (WINDOW, true) => 800,
            (WINDOW, false) => 1_000,
            // 1,200 units less what has flowed in since they were used.
            _ => 800,
        };
        let admitted = run(&fleet, one, 4_000, 10_000);
        assert!(
            (expected..=expected + 100).contains(&admitted),
            "{limit} with carry {carries}: {admitted}, not {expected}"
        );
    }
}

#[test]
fn an_old_backlog_does_not_lock_a_key() {
    for limit in
        ["{algorithm: gcra, limit: 100, per: 1s}", "{algorithm: sliding_window, limit: 100, per: 1s}", WINDOW]
    {
        let fleet = TestFleet::new(1);
        let counter = counter(limit);
        let charge = eventual(&counter, 1);
        // The node has a copy.
        assert_eq!(fleet.admitted(0, charge, 1), 1, "{limit}");
        fleet.advance_ms(10);
        fleet.tick();
        fleet.shared.0.set_behavior(StoreBehavior::Fail(StoreError::BreakerOpen));
        assert_eq!(fleet.admitted(0, charge, 85), 85, "{limit}");
        fleet.tick();
        fleet.advance_ms(3_600_000);
        fleet.shared.0.set_behavior(StoreBehavior::Reply);
        fleet.tick();
        assert_eq!(fleet.admitted(0, charge, 90), 90, "{limit}");
    }
}

#[test]
fn a_node_that_cannot_synchronise_reports_it() {
    let fleet = TestFleet::new(4);
    let counter = counter(WINDOW);
    let charge = eventual(&counter, 1);
    assert_eq!(fleet.admitted(0, charge, 10), 10);
    fleet.shared.0.set_behavior(StoreBehavior::Fail(StoreError::TimedOut));
    fleet.advance_ms(20);
    fleet.tick();
    // For a short time it goes on.
    assert!(fleet.try_check(0, &[charge]).is_ok());
    fleet.advance_ms(150);
    assert_eq!(fleet.try_check(0, &[charge]).unwrap_err(), StoreError::BreakerOpen);
    fleet.shared.0.set_behavior(StoreBehavior::Reply);
    fleet.advance_ms(600);
    fleet.tick();
    assert!(fleet.try_check(0, &[charge]).is_ok());
}

/// Units that the store may not have counted are pushed again: too many is on the safe side.
#[test]
fn units_of_a_lost_reply_are_pushed_again() {
    let fleet = TestFleet::new(1);
    let counter = counter("{algorithm: fixed_window, limit: 1000, per: minute}");
    let charge = eventual(&counter, 1);
    fleet.shared.0.set_behavior(StoreBehavior::LoseReply);
    assert_eq!(fleet.admitted(0, charge, 10), 10);
    fleet.advance_ms(20);
    fleet.tick();
    fleet.shared.0.set_behavior(StoreBehavior::Reply);
    fleet.advance_ms(600);
    fleet.tick();
    assert_eq!(fleet.left(charge), 980);
    assert_eq!(fleet.check(0, charge).remaining, 979);
}

#[test]
fn the_clock_of_the_store_decides() {
    let clock = ManualClock::at(START);
    let shared = SharedStore(FakeStore::new(clock.clone()).with_clock_ahead_seconds(1_234));
    let modes = ModeStore::new(shared.clone(), clock.clone());
    let node = Fallback::new(modes, Arc::new(MemoryStore::bounded(1 << 20)));
    let fleet = TestFleet { clock, shared, nodes: vec![node] };
    let counter = counter("{algorithm: fixed_window, limit: 10, per: 1h}");
    let charge = eventual(&counter, 1);
    assert_eq!(fleet.admitted(0, charge, 5), 5);
    fleet.advance_ms(100);
    fleet.tick();
    let in_store = fleet.left(charge);
    let outcome = fleet.check(0, charge);
    assert_eq!((in_store, outcome.remaining), (5, 4));
    let end_ns = |now: Timestamp, left: Nanos| u128::from(now.as_nanos()) + left.get();
    let store_time = fleet.now().saturating_add(Nanos::new(1_234 * 1_000_000_000));
    assert_eq!(end_ns(store_time, outcome.reset_after) % (3_600 * 1_000_000_000), 0);
}

/// Requests that are spread thinly over many nodes do not each find an unused limit.
#[test]
fn a_key_with_few_requests_is_asked_strictly_when_little_is_left() {
    let fleet = TestFleet::new(8);
    let counter = counter("{algorithm: fixed_window, limit: 5, per: minute}");
    let mut admitted = 0;
    for request in 0..40 {
        fleet.advance_ms(1_000);
        fleet.tick();
        admitted += fleet.admitted(request % 8, eventual(&counter, 1), 1);
    }
    assert_eq!(admitted, 5);
}

/// A node alone knows everything, so it decides as the store itself would.
#[test]
fn one_node_decides_as_the_store_does() {
    for limit in [
        "{algorithm: gcra, limit: 100, per: 1s}",
        "{algorithm: token_bucket, limit: 100, per: 1s, burst: 30}",
        "{algorithm: fixed_window, limit: 100, per: 1s}",
        "{algorithm: fixed_window, limit: 100, per: 1s, align: first_hit}",
    ] {
        for seed in 0..20 {
            let mut numbers = Numbers(seed);
            let mut below = |end: u64| numbers.below(NonZeroU64::new(end).unwrap());
            let (fleet, model) = (TestFleet::new(1), TestFleet::new(1));
            let counter = counter(limit);
            for step in 0..2_000 {
                let span = match below(10) {
                    0 => Duration::from_millis(below(400)),
                    _ => Duration::from_micros(below(4_000)),
                };
                fleet.clock.advance(span);
                model.clock.advance(span);
                if below(4) == 0 {
                    fleet.tick();
                }
                let cost = 1 + below(3);
                let decided = fleet.check(0, eventual(&counter, cost)).kind;
                let expected = model.check(0, Charge::new(b"key", &counter, cost)).kind;
                assert_eq!(decided, expected, "{limit}, seed {seed}, step {step}");
            }
        }
    }
}

/// The window of a key that begins with the first request: the node that used it first pushes last.
#[test]
fn units_from_before_the_shared_window_count() {
    let fleet = TestFleet::new(2);
    let counter = counter("{algorithm: fixed_window, limit: 1000, per: 1s, align: first_hit}");
    assert_eq!(fleet.admitted(0, eventual(&counter, 1), 30), 30);
    fleet.advance_ms(1);
    assert_eq!(fleet.admitted(1, eventual(&counter, 1), 30), 30);
    fleet.advance_ms(20);
    fleet.nodes[1].tick(fleet.now());
    fleet.nodes[0].tick(fleet.now());
    assert_eq!(fleet.left(eventual(&counter, 0)), 940);
}

/// A refund of units that do not count any more leaves newer units alone.
#[test]
fn a_late_refund_takes_no_newer_units() {
    // (the limit, when the refunded units were used, how long before the newer ones)
    for (limit, before_ms) in [
        ("{algorithm: fixed_window, limit: 1000, per: 1s}", 990),
        ("{algorithm: gcra, limit: 1000, per: 1s}", 0),
    ] {
        let fleet = TestFleet::new(1);
        let counter = counter(limit);
        let charge = eventual(&counter, 50);
        // The key is known.
        assert_eq!(fleet.admitted(0, eventual(&counter, 1), 1), 1);
        fleet.advance_ms(if before_ms > 0 { before_ms } else { 10 });
        fleet.tick();
        let reply = fleet.try_check(0, &[charge]).unwrap();
        let charged_at =
            tidegate::store::ChargedAt::from_outcomes(&plan(&[charge]), &reply.outcomes, reply.at);
        // The window is over, or the bucket has drained.
        fleet.advance_ms(60);
        assert_eq!(fleet.admitted(0, eventual(&counter, 5), 1), 1, "{limit}");
        fleet.ask(0, Op::Refund { charged_at: Some(charged_at) }, &[charge]).unwrap();
        fleet.nodes[0].shared().return_leases(fleet.now());
        assert_eq!(fleet.left(charge), 995, "{limit}");
    }
}

/// A single lost message is not a partition.
#[test]
fn a_push_that_failed_once_is_repeated_at_once() {
    let fleet = TestFleet::new(4);
    let counter = counter(WINDOW);
    let charge = eventual(&counter, 1);
    assert_eq!(fleet.admitted(0, charge, 10), 10);
    fleet.shared.0.set_behavior(StoreBehavior::Fail(StoreError::TimedOut));
    fleet.advance_ms(20);
    fleet.tick();
    fleet.shared.0.set_behavior(StoreBehavior::Reply);
    fleet.advance_ms(10);
    fleet.tick();
    assert_eq!(fleet.left(charge), 990);
    // Longer than a node decides by its copy while pushes fail.
    for _ in 0..10 {
        fleet.advance_ms(40);
        fleet.tick();
        assert!(fleet.try_check(0, &[charge]).is_ok());
    }
}

/// A node that has forgotten a key does not admit the whole limit again before it knows the count.
#[test]
fn a_forgotten_key_is_not_an_unused_one() {
    for nodes in [1, 2] {
        let fleet = TestFleet::new(nodes);
        let counter = counter("{algorithm: fixed_window, limit: 100, per: minute}");
        let charge = eventual(&counter, 1);
        assert_eq!(fleet.admitted(0, charge, 45), 45);
        for _ in 0..50 {
            fleet.advance_ms(100);
            fleet.tick();
        }
        let mut admitted = 45;
        for _ in 0..20 {
            admitted += fleet.admitted(0, charge, 10);
            fleet.advance_ms(1);
        }
        assert!((100..=101).contains(&admitted), "{nodes} nodes: {admitted}");
    }
}

/// A sweep of many keys leaves room in the queue of the store.
#[test]
fn only_so_many_pushes_are_under_way() {
    const KEYS: u32 = 20_000;
    let fleet = TestFleet::new(1);
    let counter = counter("{algorithm: fixed_window, limit: 1000000, per: hour}");
    for user in 0..KEYS {
        let key = user.to_le_bytes();
        assert_eq!(fleet.admitted(0, Charge { key: &key, ..eventual(&counter, 1) }, 1), 1);
    }
    fleet.shared.0.set_behavior(StoreBehavior::ReplyLater);
    fleet.advance_ms(20);
    fleet.tick();
    let stats = || fleet.nodes[0].shared().stats();
    assert!((1_000..=8_192).contains(&stats().pushes), "{:?}", stats());
    fleet.tick();
    assert!(stats().pushes <= 8_192, "{:?}", stats());
    assert_eq!(stats().units_pending, u64::from(KEYS));
}

/// The store does not know what a window pays for the one before, so a node does not ask it, however old its copy is.
#[test]
fn a_window_pays_also_if_it_has_few_requests() {
    let fleet = TestFleet::new(2);
    let counter = counter("{algorithm: fixed_window, limit: 40, per: 15s}");
    let one = eventual(&counter, 1);
    let both = || [0, 1].map(|node| fleet.admitted(node, one, 40)).iter().sum::<usize>();
    fleet.advance_ms(100);
    assert_eq!([0, 1].map(|node| fleet.admitted(node, one, 1)), [1, 1]);
    fleet.advance_ms(10);
    fleet.tick();
    // Neither node learns of the other's units before it has used all.
    fleet.shared.0.set_behavior(StoreBehavior::ReplyLater);
    let in_first = 2 + both() as u64;
    assert!(in_first > 60, "{in_first}");
    fleet.shared.0.set_behavior(StoreBehavior::Reply);
    while fleet.nodes.iter().any(|node| node.shared().stats().calls_under_way > 0) {
        std::thread::yield_now();
    }
    let (mut in_second, end_ns) = (0, 15_000_000_000);
    while fleet.now() < START.saturating_add(Nanos::new(end_ns * 2)) {
        fleet.advance_ms(10);
        fleet.tick();
        let passed_ms = (fleet.now().as_nanos() - START.as_nanos()) / 1_000_000;
        if passed_ms > 15_000 && passed_ms.is_multiple_of(250) {
            in_second += fleet.admitted((passed_ms / 250 % 2) as usize, one, 1) as u64;
        }
    }
    assert!(in_first + in_second <= 82, "{in_first} and then {in_second}");
}
