//! Leases by rules.

mod actions;
mod model;
mod queue;
mod rule_changes;

use tidegate::rules::AnswerKind;
use tidegate::{Lease, LeaseToken, Nanos, Release, Renewal};

use crate::engine::fixture::{AnswerSummary, EngineFixture, with_request};
use crate::engine::setup::{Setup, over_each_store};

impl EngineFixture {
    fn acquire(&self, attributes: &str) -> (AnswerSummary, Option<Lease>) {
        self.acquire_for(attributes, 1, None)
    }

    fn acquire_for(&self, attributes: &str, cost: u64, ttl: Option<Nanos>) -> (AnswerSummary, Option<Lease>) {
        with_request(attributes, cost, |request| {
            self.setup.acquire(&self.engine, request, ttl, AnswerSummary::from_answer)
        })
    }

    /// Acquires a lease that must be granted.
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
    let fixture = setup.fixture(RATE_AND_CONCURRENCY);
    let (first, second) = (fixture.lease("tenant=7"), fixture.lease("tenant=7"));
    assert!(second.fence > first.fence);
    let (answer, lease) = fixture.acquire("tenant=7");
    assert_eq!((answer.kind, answer.retry_after_ms, lease), (AnswerKind::Denied, Some(60_000), None));
    assert_eq!(answer.limits[1].2, 2, "a denied request charges no rate");
    assert_eq!(fixture.release("tenant=7", &first.token), Release::Released);
    let _third = fixture.lease("tenant=7");
    assert_eq!(fixture.release("tenant=7", &second.token), Release::Released);
    let _fourth = fixture.lease("tenant=7");
    assert_eq!(fixture.peek("tenant=7").limits[1].2, 0, "four were charged, although two were released");
}

fn a_denial_by_rate_takes_no_lease(setup: Setup) {
    let fixture = setup.fixture(RATE_AND_CONCURRENCY);
    for _ in 0..4 {
        let lease = fixture.lease("tenant=7");
        assert_eq!(fixture.release("tenant=7", &lease.token), Release::Released);
    }
    let (answer, lease) = fixture.acquire("tenant=7");
    assert_eq!((answer.kind, lease), (AnswerKind::Denied, None));
    assert_eq!(answer.limits[0].2, 2, "no lease is held");
}

fn leases_expire_and_can_be_renewed(setup: Setup) {
    let fixture = setup.fixture(RATE_AND_CONCURRENCY);
    let (short, long) =
        (fixture.acquire_for("tenant=7", 1, Some(Nanos::new(5_000_000_000))).1, fixture.lease("tenant=7"));
    fixture.advance(5);
    let expired = fixture.release("tenant=7", &short.unwrap().token);
    assert_eq!(expired, Release::Expired);
    fixture.advance(50);
    let Renewal::Renewed(renewed) = fixture.renew("tenant=7", &long.token) else { panic!("it is held") };
    assert_eq!(renewed.fence, long.fence);
    assert_eq!(renewed.expires.as_nanos(), (55 + 60) * 1_000_000_000);
    fixture.advance(59);
    assert_eq!(fixture.release("tenant=7", &renewed.token), Release::Released);
    assert_eq!(fixture.renew("tenant=7", &renewed.token), Renewal::AlreadyReleased);
}

fn a_token_is_valid_only_for_its_key(setup: Setup) {
    let fixture = setup.fixture(RATE_AND_CONCURRENCY);
    let lease = fixture.lease("tenant=7");
    assert_eq!(fixture.release("tenant=8", &lease.token), Release::WrongOwner);
    assert_eq!(fixture.release("", &lease.token), Release::WrongOwner);
    assert_eq!(fixture.peek("tenant=7").limits[0].2, 0, "still held, and one more asked for");
    assert_eq!(fixture.release("tenant=7", &lease.token), Release::Released);
}

fn no_lease_without_a_concurrency_limit_or_a_cost(setup: Setup) {
    let fixture = setup.fixture(RATE_AND_CONCURRENCY);
    assert_eq!(fixture.acquire_for("tenant=7", 0, None).1, None);
    let fixture = setup.fixture("{ domain: api, rules: [ { name: a, limit: 2 per minute } ] }");
    let (answer, lease) = fixture.acquire("tenant=7");
    assert_eq!((answer.kind, answer.remaining, lease), (AnswerKind::Allowed, 1, None));
}

/// The lease of a check on a concurrency limit cannot be released. It ends with the ttl.
fn a_check_holds_for_the_ttl(setup: Setup) {
    let fixture = setup.fixture(RATE_AND_CONCURRENCY);
    assert_eq!(fixture.kinds("tenant=7", 3), [AnswerKind::Allowed, AnswerKind::Allowed, AnswerKind::Denied]);
    fixture.advance(60);
    assert_eq!(fixture.check("tenant=7").kind, AnswerKind::Allowed);
}

/// One lease for all limits of the descriptors.
fn several_descriptors_hold_one_lease(setup: Setup) {
    let fixture = setup.fixture(
        "domain: api\nrules:\n\
         - { name: user, match: { user: { exists: true } }, key: [user], \
             limit: { algorithm: concurrency, limit: 1, ttl: 30s } }\n\
         - { name: all, limit: { algorithm: concurrency, limit: 3, ttl: 20s } }\n",
    );
    let lease = fixture.lease("user=1;user=2");
    assert_eq!(lease.expires.as_nanos(), 20_000_000_000, "the shortest ttl");
    assert_eq!(fixture.acquire("user=2").1, None);
    let other = fixture.lease("user=3");
    assert_eq!(fixture.release("user=1;user=2", &lease.token), Release::Released);
    let remaining: Vec<u64> = fixture.peek("user=2").limits.iter().map(|limit| limit.2).collect();
    assert_eq!(remaining, [0, 1], "with what the third user holds, and one more");
    assert_eq!(fixture.release("user=3", &other.token), Release::Released);
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
