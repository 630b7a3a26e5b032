//! Plans that mix modes, and tables that are full.

use tidegate::store::{ModeSettings, Role};

use super::*;

fn strict(counter: &Counter, cost: u64) -> Charge<'_> {
    Charge::new(b"key", counter, cost)
}

fn named(name: &str, limit: &str) -> Counter {
    Counter::new(name, 0, limit.parse().unwrap())
}

#[test]
fn units_are_given_back_if_a_strict_charge_denies() {
    let fleet = TestFleet::new(1);
    let per_hour = "{algorithm: fixed_window, limit: 1000, per: 1h}";
    let (one, two) = (named("leased", per_hour), named("eventual", per_hour));
    let few = named("strict", "{algorithm: fixed_window, limit: 5, per: 1h}");
    let charges = [leased(&one, 1), strict(&few, 1), eventual(&two, 1)];
    let kinds = |reply: &Reply| reply.outcomes.iter().map(|outcome| outcome.kind).collect::<Vec<_>>();
    for _ in 0..5 {
        assert_eq!(kinds(&fleet.try_check(0, &charges).unwrap()), [OutcomeKind::Allowed; 3]);
    }
    for _ in 0..20 {
        let denied = fleet.try_check(0, &charges).unwrap();
        assert_eq!(kinds(&denied), [OutcomeKind::Allowed, OutcomeKind::Denied, OutcomeKind::Allowed]);
    }
    fleet.nodes[0].shared().return_leases(fleet.now());
    assert_eq!((fleet.left(charges[0]), fleet.left(charges[1]), fleet.left(charges[2])), (995, 0, 995));
}

#[test]
fn a_denial_in_memory_charges_nothing_else() {
    let fleet = TestFleet::new(1);
    let few = named("eventual", "{algorithm: fixed_window, limit: 5, per: 1h}");
    let many = "{algorithm: fixed_window, limit: 1000, per: 1h}";
    let (one, two) = (named("leased", many), named("strict", many));
    let charges = [strict(&two, 1), leased(&one, 1), eventual(&few, 1)];
    for request in 0..20 {
        let reply = fleet.try_check(0, &charges).unwrap();
        let kinds: Vec<_> = reply.outcomes.iter().map(|outcome| outcome.kind).collect();
        let last = if request < 5 { OutcomeKind::Allowed } else { OutcomeKind::Denied };
        assert_eq!(kinds, [OutcomeKind::Allowed, OutcomeKind::Allowed, last], "request {request}");
    }
    fleet.nodes[0].shared().return_leases(fleet.now());
    assert_eq!((fleet.left(charges[0]), fleet.left(charges[1])), (995, 995));
}

#[test]
fn a_plan_is_given_back_if_the_store_does_not_answer() {
    let fleet = TestFleet::new(1);
    let many = "{algorithm: fixed_window, limit: 1000, per: 1h}";
    let (one, two) = (named("leased", many), named("strict", many));
    let charges = [leased(&one, 1), strict(&two, 1)];
    for _ in 0..20 {
        fleet.try_check(0, &charges).unwrap();
    }
    let held = fleet.nodes[0].shared().stats().units_held;
    assert!(held > 0);
    fleet.shared.0.set_behavior(StoreBehavior::Fail(StoreError::BreakerOpen));
    fleet.try_check(0, &charges).unwrap_err();
    assert_eq!(fleet.nodes[0].shared().stats().units_held, held);
}

#[test]
fn a_peek_changes_nothing() {
    let fleet = TestFleet::new(1);
    let many = "{algorithm: fixed_window, limit: 1000, per: 1h}";
    let (one, two) = (named("leased", many), named("eventual", many));
    let charges = [leased(&one, 1), eventual(&two, 1)];
    for _ in 0..20 {
        fleet.try_check(0, &charges).unwrap();
    }
    let before = fleet.nodes[0].shared().stats();
    let peeked = fleet.ask(0, Op::Peek, &charges).unwrap();
    assert_eq!(peeked.outcomes[1].remaining, 979);
    let after = fleet.nodes[0].shared().stats();
    assert_eq!((before.units_held, before.units_pending), (after.units_held, after.units_pending));
}

/// Observed charges and other algorithms are asked strictly.
#[test]
fn what_cannot_be_decided_in_memory_is_asked() {
    let fleet = TestFleet::new(1);
    let window = named("observed", "{algorithm: fixed_window, limit: 1000, per: 1h}");
    let log = named("log", "{algorithm: sliding_log, limit: 1000, per: 1h}");
    let observed = Charge { role: Role::Observed, ..eventual(&window, 1) };
    for charge in [observed, leased(&log, 1), eventual(&log, 1)] {
        let calls = fleet.shared.0.calls();
        assert_eq!(fleet.admitted(0, charge, 10), 10);
        assert_eq!(fleet.shared.0.calls() - calls, 10);
    }
}

#[test]
fn keys_beyond_the_bound_are_asked_strictly() {
    let clock = ManualClock::at(START);
    let shared = SharedStore(FakeStore::new(clock.clone()));
    let mut settings = ModeSettings::default();
    (settings.leased_keys_max, settings.eventual_keys_max) = (16, 16);
    let modes = ModeStore::with_settings(shared.clone(), clock.clone(), settings);
    let node = Fallback::new(modes, Arc::new(MemoryStore::bounded(1 << 20)));
    let fleet = TestFleet { clock, shared, nodes: vec![node] };
    let window = "{algorithm: fixed_window, limit: 3, per: 1h}";
    for (counter, is_eventual) in [(named("leased", window), false), (named("eventual", window), true)] {
        let mode = if is_eventual { Mode::eventual() } else { Mode::leased(counter.limit()) };
        for user in 0..200_u32 {
            let key = user.to_le_bytes();
            let charge = Charge { key: &key, ..with_mode(&counter, 1, mode) };
            assert_eq!(fleet.admitted(0, charge, 5), 3, "{user}");
            fleet.tick();
        }
    }
    assert!(fleet.nodes[0].shared().stats().strict_for_room > 300);
}

#[test]
fn a_reset_forgets_leases_and_copies() {
    let fleet = TestFleet::new(1);
    let window = "{algorithm: fixed_window, limit: 100, per: 1h}";
    let (one, two) = (named("leased", window), named("eventual", window));
    for charge in [leased(&one, 1), eventual(&two, 1)] {
        assert_eq!(fleet.admitted(0, charge, 150), 100);
        fleet.ask(0, Op::Reset, &[charge]).unwrap();
        assert_eq!(fleet.admitted(0, charge, 150), 100);
    }
}

/// A refund names one instant for a whole plan, so that must be one of the store's clock.
#[test]
fn a_plan_in_memory_is_dated_by_the_clock_of_the_store() {
    let clock = ManualClock::at(START);
    let shared = SharedStore(FakeStore::new(clock.clone()).with_clock_ahead_seconds(1_234));
    let modes = ModeStore::new(shared.clone(), clock.clone());
    let node = Fallback::new(modes, Arc::new(MemoryStore::bounded(1 << 20)));
    let fleet = TestFleet { clock, shared, nodes: vec![node] };
    let window = "{algorithm: fixed_window, limit: 1000, per: 1h}";
    let (one, two) = (named("leased", window), named("eventual", window));
    let charges = [leased(&one, 1), eventual(&two, 1)];
    for _ in 0..20 {
        fleet.advance_ms(1);
        fleet.try_check(0, &charges).unwrap();
        fleet.tick();
    }
    let reply = fleet.try_check(0, &charges).unwrap();
    let store_time = fleet.now().saturating_add(Nanos::new(1_234 * 1_000_000_000));
    assert_eq!(reply.at, store_time);
}
