//! Leases by rules.

mod actions;
mod model;
mod rule_changes;
mod queue;

use tidegate::rules::AnswerKind;
use tidegate::{Lease, LeaseToken, Nanos, Release, Renewal};

use crate::engine::bench::{EngineFixture, AnswerSummary, with_request};
use crate::engine::setup::{Setup, over_each_store};

impl EngineFixture {
    fn acquire(&self, attributes: &str) -> (AnswerSummary, Option<Lease>) {
        self.acquire_for(attributes, 1, None)
    }

    fn acquire_for(&self, attributes: &str, cost: u64, ttl: Option<Nanos>) -> (AnswerSummary, Option<Lease>) {
        with_request(attributes, cost, |request| self.setup.acquire(&self.engine, request, ttl, AnswerSummary::from_answer))
    }

    /// A lease that has to be there.
    fn lease(&self, attributes: &str) -> Lease {
        self.acquire(attributes).1.expect("a lease")
    }

    fn renew(&self, attributes: &str, token: &LeaseToken) -> Renewal {
        with_request(attributes, 0, |request| self.setup.renew(&self.engine, request, token))
    }

    fn release(&self, attributes: &str, token: &LeaseToken) -> Release {
        with_request(attributes, 0, |request| self.setup.release(&self.engine, request, token))
    }
}

const RATE_AND_CONCURRENCY: &str = "
domain: api
rules:
  - name: reports
    key: [tenant]
    limits:
      - { algorithm: concurrency, limit: 2, ttl: 60s, name: at-once }
      - { limit: 4 per hour, algorithm: fixed_window, name: rate }
";

fn a_release_returns_leases_and_not_rate_units(setup: Setup) {
    let bench = setup.fixture(RATE_AND_CONCURRENCY);
    let (first, second) = (bench.lease("tenant=7"), bench.lease("tenant=7"));
    assert!(second.fence > first.fence);
    let (told, lease) = bench.acquire("tenant=7");
    assert_eq!((told.kind, told.retry_after_ms, lease), (AnswerKind::Denied, Some(60_000), None));
    assert_eq!(told.limits[1].2, 2, "what is denied charges no rate");
    assert_eq!(bench.release("tenant=7", &first.token), Release::Released);
    let _third = bench.lease("tenant=7");
    assert_eq!(bench.release("tenant=7", &second.token), Release::Released);
    let _fourth = bench.lease("tenant=7");
    assert_eq!(bench.peek("tenant=7").limits[1].2, 0, "four were charged, though two were given back");
}

fn a_denial_by_rate_takes_no_lease(setup: Setup) {
    let bench = setup.fixture(RATE_AND_CONCURRENCY);
    for _ in 0..4 {
        let lease = bench.lease("tenant=7");
        assert_eq!(bench.release("tenant=7", &lease.token), Release::Released);
    }
    let (told, lease) = bench.acquire("tenant=7");
    assert_eq!((told.kind, lease), (AnswerKind::Denied, None));
    assert_eq!(told.limits[0].2, 2, "nobody holds anything");
}

fn leases_expire_and_can_be_renewed(setup: Setup) {
    let bench = setup.fixture(RATE_AND_CONCURRENCY);
    let (short, long) =
        (bench.acquire_for("tenant=7", 1, Some(Nanos::new(5_000_000_000))).1, bench.lease("tenant=7"));
    bench.advance(5);
    let expired = bench.release("tenant=7", &short.unwrap().token);
    assert_eq!(expired, Release::Expired);
    bench.advance(50);
    let Renewal::Renewed(renewed) = bench.renew("tenant=7", &long.token) else { panic!("it is held") };
    assert_eq!(renewed.fence, long.fence);
    assert_eq!(renewed.expires.as_nanos(), (55 + 60) * 1_000_000_000);
    bench.advance(59);
    assert_eq!(bench.release("tenant=7", &renewed.token), Release::Released);
    assert_eq!(bench.renew("tenant=7", &renewed.token), Renewal::AlreadyReleased);
}

fn a_token_is_valid_only_for_its_key(setup: Setup) {
    let bench = setup.fixture(RATE_AND_CONCURRENCY);
    let lease = bench.lease("tenant=7");
    assert_eq!(bench.release("tenant=8", &lease.token), Release::WrongOwner);
    assert_eq!(bench.release("", &lease.token), Release::WrongOwner);
    assert_eq!(bench.peek("tenant=7").limits[0].2, 0, "still held, and one more asked for");
    assert_eq!(bench.release("tenant=7", &lease.token), Release::Released);
}

fn no_lease_without_a_concurrency_limit_or_a_cost(setup: Setup) {
    let bench = setup.fixture(RATE_AND_CONCURRENCY);
    assert_eq!(bench.acquire_for("tenant=7", 0, None).1, None);
    let bench = setup.fixture("{ domain: api, rules: [ { name: a, limit: 2 per minute } ] }");
    let (told, lease) = bench.acquire("tenant=7");
    assert_eq!((told.kind, told.remaining, lease), (AnswerKind::Allowed, 1, None));
}

/// What a check takes of a concurrency limit nobody can give back: it ends with the ttl.
fn a_check_holds_for_the_ttl(setup: Setup) {
    let bench = setup.fixture(RATE_AND_CONCURRENCY);
    assert_eq!(bench.kinds("tenant=7", 3), [AnswerKind::Allowed, AnswerKind::Allowed, AnswerKind::Denied]);
    bench.advance(60);
    assert_eq!(bench.check("tenant=7").kind, AnswerKind::Allowed);
}

/// One lease, held by all limits that the descriptors touch.
fn several_descriptors_hold_one_lease(setup: Setup) {
    let bench = setup.fixture(
        "domain: api\nrules:\n\
         - { name: user, match: { user: { exists: true } }, key: [user], \
             limit: { algorithm: concurrency, limit: 1, ttl: 30s } }\n\
         - { name: all, limit: { algorithm: concurrency, limit: 3, ttl: 20s } }\n",
    );
    let lease = bench.lease("user=1;user=2");
    assert_eq!(lease.expires.as_nanos(), 20_000_000_000, "the shortest ttl");
    assert_eq!(bench.acquire("user=2").1, None);
    let other = bench.lease("user=3");
    assert_eq!(bench.release("user=1;user=2", &lease.token), Release::Released);
    let remaining: Vec<u64> = bench.peek("user=2").limits.iter().map(|limit| limit.2).collect();
    assert_eq!(remaining, [0, 1], "with what the third user holds, and one more");
    assert_eq!(bench.release("user=3", &other.token), Release::Released);
}

over_each_store!(
    a_release_returns_leases_and_not_rate_units,
    a_denial_by_rate_takes_no_lease,
    leases_expire_and_can_be_renewed,
    a_token_is_valid_only_for_its_key,
    no_lease_without_a_concurrency_limit_or_a_cost,
    a_check_holds_for_the_ttl,
    several_descriptors_hold_one_lease,
);
