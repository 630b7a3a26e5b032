//! Plans that are counted both in this process and in a shared store. Here the shared store is another memory store.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tidegate::store::{
    Ask, Charge, Counter, Fallback, LeaseReply, Mode, Op, Plan, Reply, Response, Role, Store, StorePolicy,
};
use tidegate::{MemoryStore, OutcomeKind, StoreError, Timestamp};

const NOW_NS: u64 = 1_750_000_000_000_000_000;

/// A shared store that counts calls, and can stop answering.
struct TestSharedStore {
    memory: Arc<MemoryStore>,
    calls: AtomicUsize,
    is_down: bool,
}

impl Store for TestSharedStore {
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.is_down { Response::Now(Err(StoreError::BreakerOpen)) } else { self.memory.ask(ask) }
    }

    fn live_nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(4).unwrap()
    }
}

fn fallback(is_down: bool) -> Fallback<TestSharedStore> {
    let shared =
        TestSharedStore { memory: Arc::new(MemoryStore::unbounded()), calls: AtomicUsize::new(0), is_down };
    Fallback::new(shared, Arc::new(MemoryStore::unbounded()))
}

fn counter(name: &str, limit: &str) -> Counter {
    Counter::new(name, 0, limit.parse().unwrap())
}

fn local<'a>(counter: &'a Counter, cost: u64) -> Charge<'a> {
    let policy = StorePolicy { mode: Mode::Local, ..StorePolicy::DEFAULT };
    Charge { policy, ..Charge::new(b"key", counter, cost) }
}

fn shared<'a>(counter: &'a Counter, cost: u64) -> Charge<'a> {
    Charge::new(b"key", counter, cost)
}

fn plan<'a>(charges: &[Charge<'a>]) -> Plan<'a> {
    let mut plan = Plan::new();
    for charge in charges {
        plan.add(*charge).unwrap();
    }
    plan
}

fn ask(store: &impl Store, op: Op, charges: &[Charge<'_>]) -> Result<Reply, StoreError> {
    ask_at(store, op, charges, NOW_NS)
}

fn ask_at(store: &impl Store, op: Op, charges: &[Charge<'_>], now_ns: u64) -> Result<Reply, StoreError> {
    let (plan, now) = (plan(charges), Timestamp::from_nanos(now_ns));
    match store.ask(&Ask { op, plan: &plan, now, deadline: None }) {
        Response::Now(reply) => reply,
        Response::Later(_) => panic!("both are in memory"),
    }
}

fn remaining(reply: &Reply) -> Vec<u64> {
    reply.outcomes.iter().map(|outcome| outcome.remaining).collect()
}

fn outcome_kinds(reply: &Reply) -> Vec<OutcomeKind> {
    reply.outcomes.iter().map(|outcome| outcome.kind).collect()
}

#[test]
fn each_charge_is_counted_in_the_store_of_its_mode() {
    let store = fallback(false);
    let (a, b, c) = (counter("a", "10/h"), counter("b", "20/h"), counter("c", "30/h"));
    let charges = [local(&a, 1), shared(&b, 2), local(&c, 3)];
    assert_eq!(remaining(&ask(&store, Op::Peek, &charges).unwrap()), [9, 18, 27]);
    assert_eq!(remaining(&ask(&store, Op::Check, &charges).unwrap()), [9, 18, 27]);
    let now = Timestamp::from_nanos(NOW_NS);
    let whole = plan(&[local(&a, 0), shared(&b, 0), local(&c, 0)]);
    let remaining = |memory: &MemoryStore| -> Vec<u64> {
        memory.peek(&whole, now).iter().map(|outcome| outcome.remaining).collect()
    };
    assert_eq!(remaining(store.memory()), [9, 20, 27]);
    assert_eq!(remaining(&store.shared().memory), [10, 18, 30]);
    ask(&store, Op::Refund { charged_at: None }, &charges).unwrap();
    assert_eq!(remaining(store.memory()), [10, 20, 30]);
    assert_eq!(remaining(&store.shared().memory), [10, 20, 30]);
}

#[test]
fn a_plan_of_local_charges_never_asks_the_shared_store() {
    let store = fallback(true);
    let (a, b) = (counter("a", "1/h"), counter("b", "2/h"));
    for (op, kind) in [
        (Op::Peek, OutcomeKind::Allowed),
        (Op::Check, OutcomeKind::Allowed),
        (Op::Check, OutcomeKind::Denied),
    ] {
        let reply = ask(&store, op, &[local(&a, 1), local(&b, 1)]).unwrap();
        assert_eq!(outcome_kinds(&reply)[0], kind);
    }
    ask(&store, Op::Reset, &[local(&a, 1)]).unwrap();
    assert_eq!(store.shared().calls.load(Ordering::Relaxed), 0);
}

#[test]
fn a_denial_in_one_store_charges_nothing_in_the_other() {
    let (tight, wide) = (counter("tight", "5/h"), counter("wide", "10/h"));
    let store = fallback(false);
    for _ in 0..2 {
        let denied = ask(&store, Op::Check, &[local(&tight, 6), shared(&wide, 1)]).unwrap();
        assert_eq!(outcome_kinds(&denied), [OutcomeKind::Denied, OutcomeKind::Allowed]);
        assert_eq!(remaining(&denied), [5, 10]);
        assert_eq!(
            remaining(&ask(&store, Op::Peek, &[local(&tight, 6), shared(&wide, 1)]).unwrap()),
            [5, 10]
        );
    }
    let store = fallback(false);
    for _ in 0..2 {
        let denied = ask(&store, Op::Check, &[shared(&tight, 6), local(&wide, 1)]).unwrap();
        assert_eq!(outcome_kinds(&denied), [OutcomeKind::Denied, OutcomeKind::Allowed]);
        assert_eq!(remaining(&denied), [5, 10]);
        assert_eq!(
            remaining(&ask(&store, Op::Peek, &[shared(&tight, 6), local(&wide, 1)]).unwrap()),
            [5, 10]
        );
    }
}

#[test]
fn denied_attempts_are_counted_in_both_stores() {
    let counting = counter("counting", "{algorithm: sliding_log, limit: 10, per: 1h, count_denied: true}");
    let never = counter("never", "{algorithm: gcra, limit: 0, per: 1h}");
    for (counting, never) in
        [(local(&counting, 1), shared(&never, 1)), (shared(&counting, 1), local(&never, 1))]
    {
        let store = fallback(false);
        for expected in [9, 8, 7] {
            assert_eq!(remaining(&ask(&store, Op::Check, &[counting, never]).unwrap())[0], expected);
        }
        // A peek shows what one more attempt would leave, and counts none.
        for _ in 0..2 {
            assert_eq!(remaining(&ask(&store, Op::Peek, &[counting, never]).unwrap())[0], 6);
        }
    }
}

#[test]
fn a_local_charge_keeps_its_full_limit_while_the_shared_store_is_down() {
    let store = fallback(true);
    let (a, b) = (counter("a", "8/h"), counter("b", "8/h"));
    let charges = [local(&a, 1), shared(&b, 1)];
    let failure = ask(&store, Op::Check, &charges).unwrap_err();
    assert_eq!(remaining(&ask(&store, Op::Peek, &[local(&a, 0)]).unwrap()), [8]);
    let (plan, now) = (plan(&charges), Timestamp::from_nanos(NOW_NS));
    let reply =
        store.ask_fallback(&Ask { op: Op::Check, plan: &plan, now, deadline: None }, &failure).unwrap();
    assert_eq!(remaining(&reply), [7, 1]);
}

#[test]
fn a_local_lease_is_released_if_the_shared_store_denies() {
    let store = fallback(false);
    let (lock, window) =
        (counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1h}"), counter("window", "2/h"));
    let charges = [local(&lock, 1), shared(&window, 1)];
    for op in [Op::Acquire { ttl: None }, Op::Check] {
        let denied = ask(&store, op, &[local(&lock, 1), shared(&window, 3)]).unwrap();
        assert_eq!(outcome_kinds(&denied), [OutcomeKind::Allowed, OutcomeKind::Denied]);
        assert_eq!(denied.lease, LeaseReply::None);
    }
    let reply = ask(&store, Op::Acquire { ttl: None }, &charges).unwrap();
    let token = reply.lease.into_lease().unwrap().token;
    assert_eq!(
        outcome_kinds(&ask(&store, Op::Acquire { ttl: None }, &charges).unwrap())[0],
        OutcomeKind::Denied
    );
    assert!(ask(&store, Op::Renew { token, ttl: None }, &charges).unwrap().lease.into_lease().is_some());
    assert_eq!(ask(&store, Op::Release { token }, &charges).unwrap().lease, LeaseReply::Released);
    assert!(ask(&store, Op::Acquire { ttl: None }, &charges).unwrap().lease.into_lease().is_some());
}

#[test]
fn a_shared_lease_is_renewed_and_released_in_the_shared_store() {
    let store = fallback(false);
    let (lock, window) =
        (counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1h}"), counter("window", "2/h"));
    let charges = [shared(&lock, 1), local(&window, 1)];
    let reply = ask(&store, Op::Acquire { ttl: None }, &charges).unwrap();
    let token = reply.lease.into_lease().unwrap().token;
    assert!(ask(&store, Op::Renew { token, ttl: None }, &charges).unwrap().lease.into_lease().is_some());
    assert_eq!(ask(&store, Op::Release { token }, &charges).unwrap().lease, LeaseReply::Released);
    let both = [shared(&lock, 1), local(&lock, 1)];
    // The same key on one counter is one charge, and the stricter mode applies.
    assert_eq!(plan(&both).charges().len(), 1);
    let other = counter("other", "{algorithm: concurrency, limit: 1, ttl: 1h}");
    let refused = ask(&store, Op::Acquire { ttl: None }, &[shared(&lock, 1), local(&other, 1)]);
    assert!(matches!(refused, Err(StoreError::Refused(_))));
}

const LIMITS: [&str; 9] = [
    "{algorithm: gcra, limit: 7, per: 1s, burst: 12}",
    "{algorithm: token_bucket, limit: 3, per: 1s}",
    "{algorithm: leaky_bucket, limit: 10, per: 1s, queue: 5}",
    "{algorithm: fixed_window, limit: 9, per: 1s}",
    "{algorithm: fixed_window, limit: 9, per: 1s, align: first_hit, count_denied: true}",
    "{algorithm: sliding_window, limit: 9, per: 1s}",
    "{algorithm: sliding_log, limit: 8, per: 1s}",
    "{algorithm: sliding_log, limit: 8, per: 1s, count_denied: true, min_interval: 50ms}",
    "{algorithm: sub_windows, limit: 9, per: 1s, sub_windows: 10}",
];

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(150))]

    /// Outcomes do not depend on where charges are counted.
    #[test]
    fn a_plan_in_two_stores_is_decided_as_in_one(
        requests in prop::collection::vec(
            (prop::array::uniform9(0..6_u64), any::<u16>(), prop::bool::weighted(0.2), 0..400_u64),
            1..60,
        ),
        modes in any::<u16>(),
    ) {
        let (store, whole) = (fallback(false), Arc::new(MemoryStore::unbounded()));
        let counters: Vec<Counter> = LIMITS.iter().map(|limit| counter(limit, limit)).collect();
        let mut now_ns = NOW_NS;
        for (costs, is_charged, peeks, on_ms) in requests {
            now_ns += on_ms * 1_000_000;
            let has = |bits: u16, at: usize| bits >> at & 1 == 1;
            let charges: Vec<Charge<'_>> = (0..LIMITS.len())
                .filter(|at| has(is_charged, *at))
                .map(|at| match has(modes, at) {
                    true => local(&counters[at], costs[at]),
                    false => shared(&counters[at], costs[at]),
                })
                .collect();
            if charges.is_empty() {
                continue;
            }
            let op = if peeks { Op::Peek } else { Op::Check };
            let split = ask_at(&store, op, &charges, now_ns).unwrap();
            let expected = ask_at(&whole, op, &charges, now_ns).unwrap();
            prop_assert_eq!(split.outcomes, expected.outcomes);
        }
    }
}

#[test]
fn an_observed_local_charge_denies_nothing() {
    let store = fallback(false);
    let (never, wide) =
        (counter("never", "{algorithm: fixed_window, limit: 0, per: 1h}"), counter("w", "10/h"));
    let observed = Charge { role: Role::Observed, ..local(&never, 1) };
    let reply = ask(&store, Op::Check, &[observed, shared(&wide, 1)]).unwrap();
    assert_eq!(outcome_kinds(&reply), [OutcomeKind::Denied, OutcomeKind::Allowed]);
    assert_eq!(reply.outcomes[1].remaining, 9);
}
