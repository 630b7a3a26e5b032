//! Plans in which some limits are only observed.

use tidegate::store::{Charge, Counter, Outcomes, Plan, Role};
use tidegate::{Lease, MemoryStore, Nanos, OutcomeKind, Release, Renewal, Timestamp, Wait};

const SECOND_NS: u64 = 1_000_000_000;
const START_NS: u64 = 1_700_000_000 * SECOND_NS;

const EVERY_ALGORITHM: [&str; 8] = [
    "{algorithm: gcra, limit: 4, per: 1m}",
    "{algorithm: token_bucket, limit: 4, per: 1m}",
    "{algorithm: leaky_bucket, limit: 4, per: 1m, queue: 3}",
    "{algorithm: fixed_window, limit: 4, per: 1m}",
    "{algorithm: sliding_window, limit: 4, per: 1m}",
    "{algorithm: sliding_log, limit: 4, per: 1m}",
    "{algorithm: sub_windows, limit: 4, per: 1m, sub_windows: 6}",
    "{algorithm: concurrency, limit: 4, ttl: 1m}",
];

/// A limit, its role in a plan, and its cost.
type TestCharge<'c> = (&'c Counter, Role, u64);

fn counter(index: usize, limit: &str) -> Counter {
    Counter::new("observed", index, limit.parse().unwrap())
}

fn acquire(store: &MemoryStore, plan: &Plan<'_>) -> (Outcomes, Option<Lease>) {
    let (outcomes, lease) = store.acquire(plan, at(0), None);
    (outcomes, lease.into_lease())
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(START_NS + seconds * SECOND_NS)
}

fn seconds(seconds: u64) -> Nanos {
    Nanos::new(u128::from(seconds * SECOND_NS))
}

fn plan<'c>(parts: &[TestCharge<'c>]) -> Plan<'c> {
    let mut plan = Plan::new();
    for (counter, role, cost) in parts {
        plan.add(Charge { role: *role, ..Charge::new(b"key", counter, *cost) }).unwrap();
    }
    plan
}

/// Checks, after a peek that must return the same.
fn check(store: &MemoryStore, parts: &[TestCharge<'_>], now: Timestamp) -> Outcomes {
    let plan = plan(parts);
    let peeked = store.peek(&plan, now);
    let checked = store.check(&plan, now);
    assert_eq!(peeked, checked);
    checked
}

fn remaining(store: &MemoryStore, counter: &Counter, now: Timestamp) -> u64 {
    store.peek(&plan(&[(counter, Role::Enforced, 0)]), now)[0].remaining
}

#[test]
fn an_observed_limit_counts_and_admits_everything() {
    for limit in EVERY_ALGORITHM {
        let (store, observed) = (MemoryStore::bounded(1 << 20), counter(0, limit));
        let charge = Charge { role: Role::Observed, ..Charge::new(b"key", &observed, 1) };
        for left in [3, 2, 1, 0] {
            let outcome = check(&store, &[(&observed, Role::Observed, 1)], at(0))[0];
            assert_eq!((outcome.kind, outcome.remaining), (OutcomeKind::Allowed, left), "{limit}");
            assert_eq!((outcome.retry_after, outcome.delay), (Wait::NONE, Nanos::ZERO), "{limit}");
        }
        for _ in 0..3 {
            let decision = store.check_charge(&charge, at(0));
            assert_eq!((decision.kind, decision.remaining), (OutcomeKind::Denied, 0), "{limit}");
            assert!(decision.retry_after > Wait::NONE && decision.retry_after < Wait::NEVER, "{limit}");
        }
        assert_eq!(store.peek(&plan(&[(&observed, Role::Enforced, 1)]), at(0))[0].kind, OutcomeKind::Denied);
    }
}

#[test]
fn an_observed_limit_denies_no_plan_and_is_not_charged_by_a_denied_one() {
    for limit in EVERY_ALGORITHM {
        for observed_first in [true, false] {
            let store = MemoryStore::bounded(1 << 20);
            let (observed, enforced) =
                (counter(0, limit), counter(1, "{algorithm: fixed_window, limit: 6, per: 1h}"));
            let mut parts = vec![(&observed, Role::Observed, 3), (&enforced, Role::Enforced, 3)];
            let index = usize::from(!observed_first);
            if !observed_first {
                parts.reverse();
            }
            let kinds = |outcomes: &Outcomes| (outcomes[index].kind, outcomes[1 - index].kind);
            let (fits, is_over) = (OutcomeKind::Allowed, OutcomeKind::Denied);
            assert_eq!(kinds(&check(&store, &parts, at(0))), (fits, fits), "{limit}");
            let over = check(&store, &parts, at(0));
            assert_eq!(kinds(&over), (is_over, fits), "{limit}");
            assert_eq!(over[1 - index].retry_after, Wait::NONE, "{limit}");
            assert!(over[index].retry_after > Wait::NONE, "{limit}");
            assert_eq!(remaining(&store, &enforced, at(0)), 0, "{limit}");
            // After two minutes the observed limit is as new, and a denied request leaves nothing in it.
            assert_eq!(kinds(&check(&store, &parts, at(200))), (fits, is_over), "{limit}");
            assert_eq!(remaining(&store, &observed, at(200)), 4, "{limit}");
        }
    }
}

/// Six requests a second on 1 per second, burst 2, for a minute, and then none. A debt would last for five minutes.
#[test]
fn observed_buckets_have_no_debt() {
    let buckets = [
        "{algorithm: gcra, limit: 1, per: 1s, burst: 2}",
        "{algorithm: token_bucket, limit: 1, per: 1s, burst: 2}",
        "{algorithm: leaky_bucket, limit: 1, per: 1s, queue: 1}",
    ];
    for bucket in buckets {
        let (store, observed) = (MemoryStore::bounded(1 << 20), counter(0, bucket));
        for second in 0..60 {
            for _ in 0..6 {
                let outcome = check(&store, &[(&observed, Role::Observed, 1)], at(second))[0];
                assert!(outcome.reset_after <= seconds(2), "{bucket}");
                assert!(outcome.retry_after <= Wait::of(seconds(1)), "{bucket}");
            }
            let outcome = check(&store, &[(&observed, Role::Observed, 1_000_000)], at(second))[0];
            assert_eq!((outcome.retry_after, outcome.reset_after), (Wait::NEVER, seconds(2)), "{bucket}");
        }
        assert_eq!(remaining(&store, &observed, at(59)), 0, "{bucket}");
        assert_eq!(remaining(&store, &observed, at(60)), 1, "{bucket}");
        assert_eq!(remaining(&store, &observed, at(61)), 2, "{bucket}");
    }
}

/// Two limits that share a state share it whatever their roles.
#[test]
fn the_same_limit_in_both_roles_is_enforced() {
    let (store, limit) = (MemoryStore::bounded(1 << 20), counter(0, "4 per minute"));
    let parts = [(&limit, Role::Observed, 3), (&limit, Role::Enforced, 2)];
    let outcomes = check(&store, &parts, at(0));
    assert_eq!((outcomes.len(), outcomes[0].kind), (1, OutcomeKind::Denied));
    assert_eq!(remaining(&store, &limit, at(0)), 4);
}

/// An attempt that other limits deny counts where denied attempts count, whether the limit is enforced or observed.
#[test]
fn denied_attempts_count_in_limits_that_count_them() {
    for limit in [
        "{algorithm: fixed_window, limit: 4, per: 1h, count_denied: true}",
        "{algorithm: sliding_log, limit: 4, per: 1h, count_denied: true}",
    ] {
        let store = MemoryStore::bounded(1 << 20);
        let (observed, enforced) = (counter(0, limit), counter(1, "1 per hour"));
        let parts = [(&observed, Role::Observed, 1), (&enforced, Role::Enforced, 1)];
        let kinds = [
            OutcomeKind::Allowed,
            OutcomeKind::Denied,
            OutcomeKind::Denied,
            OutcomeKind::Denied,
            OutcomeKind::Denied,
        ];
        for (before, kind) in kinds.into_iter().enumerate() {
            let outcomes = check(&store, &parts, at(0));
            assert_eq!(outcomes[1].kind, kind, "{limit}");
            let fits = before < 4;
            assert_eq!(outcomes[0].kind == OutcomeKind::Allowed, fits, "{limit}");
            assert_eq!(outcomes[0].retry_after == Wait::NONE, fits, "{limit}");
        }
    }
}

#[test]
fn an_observed_lease_ends_with_the_enforced_ones() {
    let store = MemoryStore::bounded(1 << 20);
    let observed = counter(0, "{algorithm: concurrency, limit: 1, ttl: 5s}");
    let enforced = counter(1, "{algorithm: concurrency, limit: 3, ttl: 60s}");
    let plan = plan(&[(&observed, Role::Observed, 1), (&enforced, Role::Enforced, 1)]);
    let mut leases = Vec::new();
    for kind in [OutcomeKind::Allowed, OutcomeKind::Denied, OutcomeKind::Denied] {
        let (outcomes, lease) = acquire(&store, &plan);
        assert_eq!((outcomes[0].kind, outcomes[1].kind), (kind, OutcomeKind::Allowed));
        assert_eq!(lease.unwrap().expires, at(60));
        leases.push(lease.unwrap());
    }
    let (outcomes, lease) = acquire(&store, &plan);
    assert_eq!((outcomes[1].kind, lease), (OutcomeKind::Denied, None));
    // The observed limit holds one too many, until two are released.
    for (released, left) in [(0, 0), (1, 0), (2, 1)] {
        assert_eq!(store.release(&plan, &leases[released].token, at(1)), Release::Released);
        assert_eq!(remaining(&store, &observed, at(1)), left);
    }
    assert_eq!(remaining(&store, &enforced, at(1)), 3);
}

#[test]
fn a_lease_outlives_an_observed_lease_with_a_shorter_ttl() {
    let store = MemoryStore::bounded(1 << 20);
    let observed = counter(0, "{algorithm: concurrency, limit: 1, ttl: 5s}");
    let enforced = counter(1, "{algorithm: concurrency, limit: 3, ttl: 60s}");
    let both = plan(&[(&observed, Role::Observed, 1), (&enforced, Role::Enforced, 1)]);
    let alone = plan(&[(&enforced, Role::Enforced, 1)]);
    let lease = store.acquire(&both, at(0), None).1.into_lease().unwrap();
    let Renewal::Renewed(renewed) = store.renew(&both, &lease.token, at(30), None) else { panic!("renewed") };
    assert_eq!(renewed.expires, at(90));
    // The observed limit was removed from the rules meanwhile.
    assert_eq!(store.release(&alone, &renewed.token, at(31)), Release::Released);
    assert_eq!(remaining(&store, &enforced, at(31)), 3);
}

#[test]
fn observed_leases_are_released() {
    let store = MemoryStore::bounded(1 << 20);
    let observed = counter(0, "{algorithm: concurrency, limit: 1, ttl: 5s}");
    let plan = plan(&[(&observed, Role::Observed, 2)]);
    let (outcomes, lease) = acquire(&store, &plan);
    assert_eq!((outcomes[0].kind, outcomes[0].retry_after), (OutcomeKind::Denied, Wait::NEVER));
    let lease = lease.unwrap();
    assert_eq!(lease.expires, at(5));
    assert_eq!(store.release(&plan, &lease.token, at(1)), Release::Released);
    assert_eq!(remaining(&store, &observed, at(1)), 1);
}
