//! Guards of requests by rules: `try_acquire`, `acquire` and `acquire_within`, over memory and over a shared store.

use std::sync::Arc;
use std::time::Duration;

use tidegate::engine::{AdmittedRequest, RequestRefused};
use tidegate::rules::{self, Descriptor, Entry, Request};
use tidegate::store::{Fallback, Store};
use tidegate::{Engine, ManualClock, MemoryStore, Nanos, Refused, Release, Renewal, StoreError, Timestamp};
use tidegate_testing::fake_store::{FakeStore, StoreBehavior};

use crate::engine::shared_engine::expect_ready;
use crate::executor::Executor;

const RULES: &str = "
domain: api
rules:
  - name: reports
    key: [user]
    missing: skip
    limit: { algorithm: concurrency, limit: 1, ttl: 5m }
    action: { delay: { max_wait: 10s } }
  - name: exports
    key: [tenant]
    missing: skip
    limit: { algorithm: concurrency, limit: 1, ttl: 5m }
";

type Shared = Fallback<FakeStore<ManualClock>>;

fn engine<S: Store>(store: S, clock: &ManualClock) -> Engine<ManualClock, S> {
    clock.set(Timestamp::from_nanos(1_700_000_000_000_000_000));
    let domains = rules::parse("rules.yaml", RULES).unwrap_or_else(|report| panic!("{report}")).domains;
    Engine::with_store(domains, store, clock.clone()).unwrap()
}

fn memory(clock: &ManualClock) -> Engine<ManualClock, Arc<MemoryStore>> {
    engine(Arc::new(MemoryStore::bounded(1 << 20)), clock)
}

fn shared(clock: &ManualClock) -> (Engine<ManualClock, Shared>, FakeStore<ManualClock>) {
    let remote = FakeStore::new(clock.clone());
    let store = Fallback::new(remote.clone(), Arc::new(MemoryStore::bounded(1 << 20)));
    (engine(store, clock), remote)
}

fn with_request<T>(key: &str, value: &str, f: impl FnOnce(&Request<'_>) -> T) -> T {
    let entries = [Entry { key, value }];
    f(&Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] })
}

#[test]
fn an_admitted_request_holds_its_lease_until_dropped() {
    let clock = ManualClock::default();
    let engine = memory(&clock);
    with_request("tenant", "7", |request| {
        let mut admitted = engine.try_acquire(request).unwrap();
        assert_eq!(admitted.answer().decider().unwrap().rule.name.as_ref(), "exports");
        assert!(
            admitted.decision().is_allowed()
                && admitted.lease().is_some()
                && admitted.fencing_token().get() > 0
        );
        assert!(matches!(admitted.renew(), Renewal::Renewed(_)));
        let refused: RequestRefused = engine.try_acquire(request).unwrap_err();
        let Refused::OverLimit(denied) = refused.error() else { panic!("{refused}") };
        assert_eq!(Some(denied.retry_after), refused.retry_after());
        assert!(refused.to_string().contains("`exports`"), "{refused}");
        assert!(refused.answer().is_some());
        drop(admitted);
        let again = engine.try_acquire(request).unwrap();
        assert_eq!(again.release(), Release::Released);
        assert!(engine.try_acquire(request).is_ok());
    });
}

#[test]
fn dropping_an_admitted_request_admits_the_waiter() {
    let clock = ManualClock::default();
    check_drop_admits_the_waiter(&memory(&clock), &clock);
    check_drop_admits_the_waiter(&shared(&clock).0, &clock);
}

fn check_drop_admits_the_waiter<S: Store + 'static>(engine: &Engine<ManualClock, S>, clock: &ManualClock) {
    with_request("user", "1", |request| {
        type Acquired<S> = Result<AdmittedRequest<ManualClock, S>, RequestRefused>;
        let mut executor: Executor<'_, Acquired<S>> = Executor::new(clock);
        let first = executor.spawn(engine.acquire(request));
        executor.run_woken();
        let first = executor.take(first).unwrap().unwrap();
        assert!(first.waited().is_zero());
        let next = executor.spawn(engine.acquire(request));
        let short_wait = executor.spawn(engine.acquire_within(request, Duration::from_secs(1)));
        executor.run_until(Timestamp::from_nanos(1_700_000_002_000_000_000));
        let refused = executor.take(short_wait).unwrap().unwrap_err();
        assert_eq!(refused.error(), &Refused::TooLong { wait: None });
        assert!(executor.finished(next).is_none());
        drop(first);
        // A shared store is asked again by a background thread, or by the head of the queue after a while.
        executor.run_until(Timestamp::from_nanos(1_700_000_004_000_000_000));
        let next = executor.take(next).unwrap().unwrap();
        assert!(next.waited() >= Duration::from_secs(2));
    });
}

#[test]
fn a_guard_over_a_shared_store_is_released_in_the_background() {
    let clock = ManualClock::default();
    let (engine, remote) = shared(&clock);
    with_request("tenant", "7", |request| {
        let mut admitted = expect_ready(engine.try_acquire(request)).unwrap();
        assert!(matches!(expect_ready(admitted.renew()), Ok(Renewal::Renewed(_))));
        assert!(expect_ready(engine.try_acquire(request)).is_err());
        drop(admitted);
        let again = expect_ready(engine.try_acquire(request)).unwrap();
        assert_eq!(expect_ready(again.release()), Ok(Release::Released));
        remote.set_behavior(StoreBehavior::Fail(StoreError::BreakerOpen));
        let refused = expect_ready(engine.try_acquire(request)).unwrap_err();
        assert!(refused.answer().unwrap().degraded, "a concurrency limit denies without the store");
        assert_eq!(refused.retry_after().and_then(|wait| wait.span()), Some(Nanos::new(1_000_000_000)));
    });
}

#[test]
fn a_refund_as_of_the_charge_takes_nothing_from_later_requests() {
    let clock = ManualClock::at(Timestamp::from_nanos(1_700_000_000_000_000_000));
    let file = "domain: api\nrules:\n  - { name: one, key: [user], limit: { algorithm: sliding_log, limit: 2, per: 1s } }\n";
    let domains = rules::parse("rules.yaml", file).unwrap_or_else(|report| panic!("{report}")).domains;
    let engine = Engine::with_store(domains, Arc::new(MemoryStore::bounded(1 << 20)), clock.clone()).unwrap();
    with_request("user", "1", |request| {
        let early = expect_ready(engine.decide(request)).unwrap();
        assert!(early.charged_at.is_some());
        clock.advance(Duration::from_secs(5));
        assert!(engine.check(request).unwrap().kind.passes());
        assert!(engine.check(request).unwrap().kind.passes());
        assert!(expect_ready(engine.decide(request)).unwrap().charged_at.is_none(), "it was denied");
        engine.refund(request, early.charged_at).unwrap();
        assert!(!engine.check(request).unwrap().kind.passes());
        engine.refund(request, None).unwrap();
        assert!(engine.check(request).unwrap().kind.passes(), "the newest unit was refunded");
    });
}
