//! The memory store against the algorithms that it runs, and against its memory bound.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate::store::{Ask, Charge, ChargedAt, Counter, Op, Outcome, Plan, Reply, Response, Role, Store};
use tidegate::{Algorithm, MemoryStore, OutcomeKind, Timestamp};
use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{ChargeDecision, Grant, Leases, PackedState, TimedCost, UsageLog};

const LIMITS: [&str; 13] = [
    "{algorithm: gcra, limit: 7, per: 1s, burst: 12}",
    "{algorithm: token_bucket, limit: 3, per: 1s}",
    "{algorithm: leaky_bucket, limit: 10, per: 1s, queue: 5}",
    "{algorithm: fixed_window, limit: 9, per: 1s}",
    "{algorithm: fixed_window, limit: 9, per: 1s, align: first_hit, count_denied: true}",
    "{algorithm: fixed_window, limit: 9, per: 1s, count_denied: true}",
    "{algorithm: fixed_window, limit: 5, per: 1s, count_denied: if_over}",
    "{algorithm: sliding_window, limit: 9, per: 1s}",
    "{algorithm: sliding_log, limit: 8, per: 1s}",
    "{algorithm: sliding_log, limit: 8, per: 1s, count_denied: true, min_interval: 50ms}",
    "{algorithm: sub_windows, limit: 9, per: 1s, sub_windows: 10}",
    "{algorithm: concurrency, limit: 9, ttl: 300ms}",
    "{algorithm: concurrency, limit: 12, ttl: 1s}",
];

fn with_window_of_an_hour(limit: &str) -> String {
    limit.replace("per: 1s", "per: 1h").replace("ttl: 300ms", "ttl: 1h").replace("ttl: 1s", "ttl: 1h")
}

fn counters() -> Vec<Counter> {
    LIMITS
        .iter()
        .enumerate()
        .map(|(index, limit)| Counter::new("store", index, limit.parse().unwrap()))
        .collect()
}

/// The simplest store: a map from counter and key to a state, one request at a time.
#[derive(Default)]
struct PlainStore {
    packed: HashMap<(u64, Vec<u8>), PackedState>,
    usage_logs: HashMap<(u64, Vec<u8>), UsageLog>,
    leases: HashMap<(u64, Vec<u8>), Leases>,
}

impl PlainStore {
    fn check(&mut self, charges: &[Charge<'_>], now: Timestamp) -> Vec<Outcome> {
        let kinds: Vec<OutcomeKind> = charges
            .iter()
            .map(|charge| {
                let (id, timed_cost) =
                    ((charge.counter.id().get(), charge.key.to_vec()), TimedCost { now, cost: charge.cost });
                match charge.counter.algorithm() {
                    Algorithm::Packed(one) => {
                        one.outcome_kind(self.packed.entry(id).or_default(), timed_cost)
                    }
                    Algorithm::UsageLog(one) => {
                        one.outcome_kind(self.usage_logs.entry(id).or_default(), timed_cost)
                    }
                    Algorithm::Leases(one) => {
                        one.outcome_kind(self.leases.entry(id).or_default(), timed_cost)
                    }
                }
            })
            .collect();
        // Observed charges do not decide.
        let enforced = |(charge, _): &(&Charge<'_>, &OutcomeKind)| charge.role == Role::Enforced;
        let allowed =
            charges.iter().zip(&kinds).filter(enforced).all(|(_, kind)| *kind == OutcomeKind::Allowed);
        let decision = if allowed { OutcomeKind::Allowed } else { OutcomeKind::Denied };
        let is_any_over = kinds.contains(&OutcomeKind::Denied);
        let grant = self.grant(charges, now);
        let apply = |(charge, kind): (&Charge<'_>, OutcomeKind)| {
            let (id, timed_cost) =
                ((charge.counter.id().get(), charge.key.to_vec()), TimedCost { now, cost: charge.cost });
            let charge_decision = ChargeDecision { outcome: kind, decision, role: charge.role, is_any_over };
            match charge.counter.algorithm() {
                Algorithm::Packed(one) => {
                    let state = self.packed.entry(id).or_default();
                    one.charge_if_due(state, timed_cost, charge_decision);
                    one.outcome(state, timed_cost, charge_decision)
                }
                Algorithm::UsageLog(one) => {
                    let state = self.usage_logs.entry(id).or_default();
                    one.charge_if_due(state, timed_cost, charge_decision);
                    one.outcome(state, timed_cost, charge_decision)
                }
                Algorithm::Leases(one) => {
                    let state = self.leases.entry(id).or_default();
                    if one.is_charged(timed_cost, charge_decision) {
                        state.acquire(grant.unwrap(), timed_cost.cost, now);
                    }
                    one.outcome(state, timed_cost, charge_decision)
                }
            }
        };
        charges.iter().zip(kinds).map(apply).collect()
    }

    /// One lease for all concurrency limits: the highest fencing token, and the shortest ttl from the latest instant.
    /// Observed limits determine when it ends only if no limit is enforced.
    fn grant(&self, charges: &[Charge<'_>], now: Timestamp) -> Option<Grant> {
        let part = |charge: &Charge<'_>| match charge.counter.algorithm() {
            Algorithm::Leases(one) if charge.cost > 0 => {
                let leases = &self.leases[&(charge.counter.id().get(), charge.key.to_vec())];
                Some((charge.role, leases.next_fencing_token(now), one.ttl(), leases.effective_now(now)))
            }
            _ => None,
        };
        let parts: Vec<_> = charges.iter().filter_map(part).collect();
        let is_enforced = parts.iter().any(|part| part.0 == Role::Enforced);
        let leading = || parts.iter().filter(|part| !is_enforced || part.0 == Role::Enforced);
        let (ttl, instant) = (leading().map(|part| part.2).min()?, leading().map(|part| part.3).max()?);
        let fence = parts.iter().map(|part| part.1).max()?;
        Some(Grant { expires: instant.saturating_add(ttl), fencing_token: fence })
    }
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![2 => Just(Role::Enforced), 1 => Just(Role::Observed)]
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    /// For any plans, and any order of time, the store answers as a plain map would, and a peek returns the same as the
    /// check after it.
    #[test]
    fn plans_are_decided_as_by_a_plain_map(
        requests in prop::collection::vec(
            (0_u64..400_000_000, prop::collection::vec((0..LIMITS.len(), 0_u8..3, 0_u64..6, role()), 1..5), prop::bool::weighted(0.05)),
            1..120,
        ),
    ) {
        let counters = counters();
        let store = MemoryStore::unbounded();
        let mut plain = PlainStore::default();
        let mut now_ns = 0_u64;
        for (step, charges, back) in requests {
            now_ns = if back { now_ns.saturating_sub(step) } else { now_ns + step };
            let now = Timestamp::from_nanos(now_ns);
            let keys: Vec<[u8; 1]> = charges.iter().map(|(_, key, ..)| [*key]).collect();
            let mut plan = Plan::new();
            for ((index, _, cost, role), key) in charges.iter().zip(&keys) {
                plan.add(Charge { role: *role, ..Charge::new(key, &counters[*index], *cost) }).unwrap();
            }
            let peeked = store.peek(&plan, now);
            let checked = store.check(&plan, now);
            prop_assert_eq!(&peeked, &checked);
            prop_assert_eq!(checked.to_vec(), plain.check(plan.charges(), now));
        }
    }
}

#[test]
fn a_refund_returns_units_and_a_reset_clears_them() {
    let now = Timestamp::from_nanos(10_000_000_000);
    // Leases are released, not refunded, and after a refund it is still too early for another attempt.
    let refundable = |counter: &&Counter| {
        let limit = counter.limit().to_string();
        !limit.contains("min_interval") && !limit.contains("concurrency")
    };
    for counter in counters().iter().filter(refundable) {
        let store = MemoryStore::bounded(1 << 20);
        let plan = |cost| {
            let mut plan = Plan::new();
            plan.add(Charge::new(b"key", counter, cost)).unwrap();
            plan
        };
        let whole = store.peek(&plan(0), now)[0].remaining;
        let _ = store.check(&plan(2), now);
        let _ = store.check(&plan(1), now);
        assert_eq!(store.peek(&plan(0), now)[0].remaining, whole - 3, "{}", counter.limit());
        store.refund(&plan(2), now);
        assert_eq!(store.peek(&plan(0), now)[0].remaining, whole - 1, "{}", counter.limit());
        store.refund(&plan(100), now);
        assert_eq!(store.peek(&plan(0), now)[0].remaining, whole, "{}", counter.limit());
        let _ = store.check(&plan(3), now);
        store.reset(&plan(0));
        let fresh = store.peek(&plan(0), now)[0];
        assert_eq!((fresh.remaining, fresh.reset_after.get()), (whole, 0), "{}", counter.limit());
    }
}

#[test]
fn idle_keys_make_room_for_new_ones_without_an_eviction() {
    // A hundred times more keys than fit, but never more than a few thousand of them live.
    for limit in LIMITS {
        let counter = Counter::new("churn", 0, limit.parse().unwrap());
        let store = MemoryStore::bounded(1 << 20);
        for number in 0..2_000_000_u64 {
            let now = Timestamp::from_nanos(number * 1_000_000);
            let _ = store.check_charge(&Charge::new(&number.to_le_bytes(), &counter, 1), now);
        }
        let stats = store.stats();
        assert_eq!(stats.live_evictions, 0, "{limit}");
        assert!(stats.bytes_used <= 1 << 20, "{limit}: {} bytes", stats.bytes_used);
    }
}

#[test]
fn a_full_store_stays_in_its_bound_and_keeps_the_most_used() {
    for limit in LIMITS {
        let long = with_window_of_an_hour(limit);
        let counter = Counter::new("full", 0, long.parse().unwrap());
        let store = MemoryStore::bounded(1 << 20);
        let now = Timestamp::from_nanos(1_000_000_000_000);
        let hot = Charge::new(b"hot", &counter, 1);
        let admitted_before =
            (0..20).filter(|_| store.check_charge(&hot, now).kind == OutcomeKind::Allowed).count();
        assert!(admitted_before > 0);
        for number in 0..200_000_u64 {
            let _ = store.check_charge(&Charge::new(&number.to_le_bytes(), &counter, 1), now);
            assert_eq!(
                store.check_charge(&hot, now).kind,
                OutcomeKind::Denied,
                "{long}: after {number} keys"
            );
        }
        let stats = store.stats();
        // A lease that is held is not evicted, so new ones are refused.
        assert!(stats.live_evictions + stats.lease_refusals > 100_000, "{long}: {stats:?}");
        assert!(stats.bytes_used <= 1 << 20, "{long}: {} bytes", stats.bytes_used);
    }
}

#[test]
fn a_flood_on_one_limit_does_not_reset_keys_over_it() {
    // Time moves, so the keys of the flood reset later than the hot key does. If windows begin with a key's first hit,
    // the store cannot know better, and evicts the hot key.
    for limit in LIMITS.into_iter().filter(|limit| !limit.contains("first_hit")) {
        let long = with_window_of_an_hour(limit);
        let counter = Counter::new("flood", 0, long.parse().unwrap());
        let (store, alone) = (MemoryStore::bounded(1 << 20), MemoryStore::bounded(1 << 20));
        let mut admitted = [0, 0];
        for number in 0..200_000_u64 {
            let now = Timestamp::from_nanos(7_200_000_000_000 + number * 1_000_000);
            let _ = store.check_charge(&Charge::new(&number.to_le_bytes(), &counter, 1), now);
            let hot = Charge::new(b"hot", &counter, 1);
            for (admitted, store) in admitted.iter_mut().zip([&store, &alone]) {
                *admitted += u32::from(store.check_charge(&hot, now).kind == OutcomeKind::Allowed);
            }
        }
        assert_eq!(admitted[0], admitted[1], "{long}");
        let stats = store.stats();
        assert!(stats.live_evictions + stats.lease_refusals > 100_000, "{long}: {stats:?}");
    }
}

#[test]
fn no_kind_of_state_evicts_another_kind() {
    const MEMORY_MAX: u64 = 4 << 20;
    let limits = [
        "1 per hour",
        "{algorithm: sliding_log, limit: 1, per: 1h}",
        "{algorithm: concurrency, limit: 1, ttl: 1h}",
    ];
    let counters: Vec<Counter> =
        limits.iter().map(|limit| Counter::new(limit, 0, limit.parse().unwrap())).collect();
    let now = Timestamp::from_nanos(1_000);
    let check = |store: &MemoryStore, counter: &Counter, number: u64| {
        store.check_charge(&Charge::new(&number.to_le_bytes(), counter, 1), now).kind
    };
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let store = MemoryStore::bounded(MEMORY_MAX);
        // Two kinds take all that they can get, then the third comes.
        let [first, second, last] = order.map(|index| &counters[index]);
        for counter in [first, second] {
            for number in 0..200_000 {
                check(&store, counter, number);
            }
        }
        for kind in [OutcomeKind::Allowed, OutcomeKind::Denied] {
            for number in 0..400 {
                assert_eq!(check(&store, last, number), kind, "{} last, key {number}", last.limit());
            }
        }
        assert!(store.stats().bytes_used <= MEMORY_MAX, "{} bytes", store.stats().bytes_used);
    }
}

#[test]
fn a_page_evicts_a_state_if_the_directory_cannot_grow() {
    // The remaining bytes are enough for a page, but not for a directory of twice the entries: the table is filled to
    // one depth, then usage logs take nearly all the rest.
    const MEMORY_MAX: u64 = 32 << 20;
    let packed = Counter::new("depth", 0, "1 per hour".parse().unwrap());
    let usage_log = Counter::new("depth", 1, "{algorithm: sliding_log, limit: 1, per: 1h}".parse().unwrap());
    let now = Timestamp::from_nanos(1_000);
    let store = MemoryStore::bounded(MEMORY_MAX);
    let check =
        |counter, number: u64| store.check_charge(&Charge::new(&number.to_le_bytes(), counter, 1), now).kind;
    for number in 0..204_800 {
        check(&packed, number);
    }
    for number in 0..1_000_000 {
        if MEMORY_MAX - store.stats().bytes_used < 7_000 {
            break;
        }
        check(&usage_log, number);
    }
    for number in 1_000_000..1_200_000 {
        assert_eq!(check(&packed, number), OutcomeKind::Allowed);
    }
    assert!(store.stats().live_evictions > 0);
    assert!(store.stats().bytes_used <= MEMORY_MAX);
}

#[test]
fn removed_usage_logs_free_their_bytes() {
    let counter = Counter::new("gone", 0, "{algorithm: sliding_log, limit: 1, per: 1h}".parse().unwrap());
    let store = MemoryStore::bounded(64 << 20);
    let now = Timestamp::from_nanos(1_000);
    let empty = store.stats().bytes_used;
    let plans = |action: &dyn Fn(&Plan<'_>)| {
        for number in 0..100_000_u64 {
            let key = number.to_le_bytes();
            let mut plan = Plan::new();
            plan.add(Charge::new(&key, &counter, 1)).unwrap();
            action(&plan);
        }
    };
    plans(&|plan| drop(store.check(plan, now)));
    assert!(store.stats().bytes_used > empty + 100_000 * 100);
    plans(&|plan| store.refund(plan, now));
    // What remains are small maps that are not worth shrinking.
    assert!(store.stats().bytes_used < empty + (1 << 20), "{} bytes", store.stats().bytes_used);
    assert_eq!(store.stats().live_evictions, 0);
}

#[test]
fn a_usage_log_over_the_bound_is_evicted_alone() {
    let small = Counter::new("large", 0, "{algorithm: sliding_log, limit: 1, per: 1d}".parse().unwrap());
    let large =
        Counter::new("large", 1, "{algorithm: sliding_log, limit: 100000000, per: 1d}".parse().unwrap());
    let store = MemoryStore::bounded(2 << 20);
    for number in 0..1_000_u64 {
        let _ = store.check_charge(&Charge::new(&number.to_le_bytes(), &small, 1), Timestamp::from_nanos(0));
    }
    for instant in 0..200_000 {
        let _ = store.check_charge(&Charge::new(b"large", &large, 1), Timestamp::from_nanos(instant));
    }
    let stats = store.stats();
    assert!((1..10).contains(&stats.live_evictions), "{} evictions", stats.live_evictions);
    assert!(stats.bytes_used <= 2 << 20);
    for number in 0..1_000_u64 {
        let key = number.to_le_bytes();
        let charge = Charge::new(&key, &small, 1);
        assert_eq!(store.check_charge(&charge, Timestamp::from_nanos(200_000)).kind, OutcomeKind::Denied);
    }
}

#[test]
fn any_memory_bound_works() {
    for memory_max in [0, 1, u64::MAX] {
        let store = MemoryStore::bounded(memory_max);
        let counter = Counter::new("bound", 0, "1 per hour".parse().unwrap());
        let charge = Charge::new(b"key", &counter, 1);
        let kinds = [0, 1].map(|at| store.check_charge(&charge, Timestamp::from_nanos(at)).kind);
        assert_eq!(kinds, [OutcomeKind::Allowed, OutcomeKind::Denied]);
    }
}

/// A key with one arrival time for all rates: what was used under one rate is used under another, to the nanosecond,
/// and a remainder that was kept under a larger L does no harm.
#[test]
fn arrival_times_are_kept_over_any_change_of_the_rate() {
    let store = MemoryStore::bounded(1 << 20);
    let now = Timestamp::from_nanos(1_700_000_000_000_000_000);
    let check = |limit: &str, cost| {
        let counter = Counter::shared_gcra("throttle", limit.parse().unwrap()).unwrap();
        let charge = Charge::new(b"key", &counter, cost);
        store.check_charge(&charge, now)
    };
    // 3 x 60/7 s.
    assert_eq!(check("7 per minute", 3).reset_after.get(), 25_714_285_715);
    // That is 2.57 of 10 s each.
    let answer = check("6 per minute", 1);
    assert_eq!(
        (answer.kind, answer.remaining, answer.reset_after.get()),
        (OutcomeKind::Allowed, 2, 35_714_285_715)
    );
    // With L = 1 there is no remainder.
    let answer = check("{algorithm: gcra, limit: 1, per: 1h, burst: 1}", 1);
    assert_eq!((answer.kind, answer.remaining), (OutcomeKind::Denied, 0));
    assert_eq!(answer.retry_after.span().map(tidegate::Nanos::get), Some(35_714_285_714));
    let answer = check("{algorithm: gcra, limit: 1099511627775, per: 1ms, burst: 1}", 1);
    assert_eq!((answer.kind, answer.remaining), (OutcomeKind::Denied, 0));
    assert_eq!(
        check("{algorithm: gcra, limit: 1, per: 3650d, burst: 1099511627775}", 1_000).kind,
        OutcomeKind::Allowed
    );
    assert_eq!(check("{algorithm: gcra, limit: 1099511627775, per: 1ms}", 0).kind, OutcomeKind::Denied);
}

const SECOND_NS: u64 = 1_000_000_000;

fn ask_memory(store: &Arc<MemoryStore>, op: Op, plan: &Plan<'_>, now_s: u64) -> Reply {
    let now = Timestamp::from_nanos(now_s * SECOND_NS);
    match store.ask(&Ask { op, plan, now, deadline: None }) {
        Response::Now(reply) => reply.unwrap(),
        Response::Later(_) => unreachable!("memory answers immediately"),
    }
}

/// Under a limit of 2: one unit is charged, its window passes, two more units are charged, and then the first is
/// refunded.
#[test]
fn a_late_refund_admits_no_third_unit_under_a_limit_of_two() {
    for limit in [
        "{algorithm: gcra, limit: 2, per: 60s}",
        "{algorithm: token_bucket, limit: 2, per: 60s}",
        "{algorithm: leaky_bucket, limit: 2, per: 60s, queue: 1}",
        "{algorithm: fixed_window, limit: 2, per: 60s}",
        "{algorithm: fixed_window, limit: 2, per: 60s, align: first_hit}",
        "{algorithm: sliding_window, limit: 2, per: 60s}",
        "{algorithm: sub_windows, limit: 2, per: 60s}",
        "{algorithm: sliding_log, limit: 2, per: 60s}",
    ] {
        let store = Arc::new(MemoryStore::unbounded());
        let counter = Counter::new("late", 0, limit.parse().unwrap());
        let plan = Plan::of_one(Charge::new(b"key", &counter, 1));
        let charged = ask_memory(&store, Op::Check, &plan, 6_000);
        let charged_at = ChargedAt::from_outcomes(&plan, &charged.outcomes, charged.at);
        for _ in 0..2 {
            let other = ask_memory(&store, Op::Check, &plan, 6_200);
            assert_eq!(other.outcomes[0].kind, OutcomeKind::Allowed, "{limit}");
        }
        ask_memory(&store, Op::Refund { charged_at: Some(charged_at) }, &plan, 6_200);
        let third = ask_memory(&store, Op::Check, &plan, 6_200);
        assert_eq!(third.outcomes[0].kind, OutcomeKind::Denied, "{limit}");
    }
}

/// A bucket that stays in use refunds a charge in full, however long it took.
#[test]
fn a_refund_to_a_bucket_in_use_gives_back_the_whole_charge() {
    for limit in [
        "{algorithm: gcra, limit: 60, per: 60s, burst: 10}",
        "{algorithm: leaky_bucket, limit: 60, per: 60s, queue: 9}",
    ] {
        let store = Arc::new(MemoryStore::unbounded());
        let counter = Counter::new("in use", 0, limit.parse().unwrap());
        let other_plan = Plan::of_one(Charge::new(b"key", &counter, 8));
        let plan = Plan::of_one(Charge::new(b"key", &counter, 1));
        let _ = ask_memory(&store, Op::Check, &other_plan, 6_000);
        let charged = ask_memory(&store, Op::Check, &plan, 6_000);
        let charged_at = ChargedAt::from_outcomes(&plan, &charged.outcomes, charged.at);
        assert_eq!(charged.outcomes[0].remaining, 1, "{limit}");
        let _ = ask_memory(&store, Op::Refund { charged_at: Some(charged_at) }, &plan, 6_003);
        assert_eq!(ask_memory(&store, Op::Peek, &plan, 6_003).outcomes[0].remaining, 4, "{limit}");
    }
}
