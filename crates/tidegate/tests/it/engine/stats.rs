//! What an engine reports besides answers: how many counters are live, and how long the stages took.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::engine::DecideOptions;
use tidegate::rules::{Descriptor, Entry, Request};
use tidegate::{Clock, DecideOutput, Engine, EngineError, ManualClock, MemoryStore, Timestamp};

use crate::engine::fixture::{domains, with_request};
use crate::engine::setup::Setup;

/// A counter of each kind: in pages, in usage logs, in leases.
const ONE_COUNTER_OF_EACH_KIND: &str = "
domain: api
rules:
  - name: all
    key: [user]
    limits:
      - 5 per minute
      - { limit: 5 per minute, algorithm: sliding_log }
      - { limit: 5, ttl: 60s, algorithm: concurrency }
";

#[test]
fn few_live_counters_are_counted_exactly() {
    let fixture = Setup::Local.fixture(ONE_COUNTER_OF_EACH_KIND);
    let live = || fixture.engine.store().memory().live_counters(fixture.clock.now());
    assert_eq!(live(), 0);
    for user in 0..100 {
        fixture.check(&format!("user={user}"));
    }
    assert_eq!(live(), 300);
    fixture.advance(30);
    fixture.check("user=0");
    assert_eq!(live(), 201, "of 100 buckets, all but one are full again");
    fixture.advance(60);
    assert_eq!(live(), 0, "idle ones do not count, though they are there");
}

#[test]
fn many_live_counters_are_estimated() {
    let clock = ManualClock::default();
    let store = Arc::new(MemoryStore::bounded(64 << 20));
    let file = "{ domain: api, rules: [ { name: a, key: [user], limit: 5 per hour } ] }";
    let engine = Engine::with_store(domains(file), store, clock.clone()).unwrap();
    const KEYS: u64 = 400_000;
    for user in 0..KEYS {
        let user = user.to_string();
        let entries = [Entry { key: "user", value: &user }];
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
        assert!(engine.check(&request).unwrap().kind.passes());
    }
    let live = engine.store().live_counters(clock.now());
    assert!(live.abs_diff(KEYS) < KEYS / 20, "{live}");
}

#[test]
fn stats_report_the_memory_bound() {
    let fixture = Setup::Local.fixture(ONE_COUNTER_OF_EACH_KIND);
    let stats = fixture.engine.store().memory().stats();
    assert_eq!(stats.bytes_max, 1 << 20);
    assert!(stats.bytes_used <= stats.bytes_max);
}

/// A clock that moves by a second at each reading, which shows how often it is read.
#[derive(Clone, Default)]
struct TickingClock(ManualClock);

impl Clock for TickingClock {
    fn now(&self) -> tidegate::Timestamp {
        self.0.advance(Duration::from_secs(1));
        self.0.now()
    }
}

impl tidegate::Timer for TickingClock {
    type Sleep = tidegate::clock::ManualSleep;

    fn sleep_until(&self, at: tidegate::Timestamp) -> Self::Sleep {
        self.0.sleep_until(at)
    }
}

#[test]
fn stages_are_timed_on_request() {
    let clock = TickingClock::default();
    let store = Arc::new(MemoryStore::bounded(1 << 20));
    let engine = Engine::with_store(domains(ONE_COUNTER_OF_EACH_KIND), store, clock.clone()).unwrap();
    let stages = |timed: bool| {
        with_request("user=1", 1, |request| {
            let deciding = if timed { engine.decide_timed(request) } else { engine.decide(request) };
            expect_ready(deciding).unwrap().stages
        })
    };
    let before = clock.0.now();
    assert_eq!(stages(false), None);
    let readings = (clock.0.now().as_nanos() - before.as_nanos()) / 1_000_000_000;
    let timed = stages(true).unwrap();
    assert_eq!((timed.matching_ns, timed.store_ns), (1_000_000_000, 1_000_000_000));
    assert_eq!(readings, 1, "only the arrival reads the clock");
}

/// Decisions in memory are made at the caller's reading. A request that may wait needs the current time.
#[test]
fn requests_share_the_callers_reading_of_the_clock() {
    let file = "
domain: api
rules:
  - { name: plain, match: { kind: plain }, limit: { algorithm: fixed_window, limit: 5, per: 1h } }
  - { name: held, match: { kind: held }, limit: 5 per hour, action: { delay: { max_wait: 1s } } }
";
    let clock = TickingClock::default();
    let store = Arc::new(MemoryStore::bounded(1 << 20));
    let engine = Engine::with_store(domains(file), store, clock.clone()).unwrap();
    let decide = |kind: &str, at: Option<Timestamp>| {
        let before = clock.0.now().as_nanos();
        let options = DecideOptions { at, ..DecideOptions::default() };
        let reset_after = |output: Result<&DecideOutput, &EngineError>| output.unwrap().answer.reset_after;
        let reset_after =
            with_request(kind, 1, |request| match engine.decide_with(request, options, reset_after) {
                Ok(reset_after) => reset_after,
                Err(future) => reset_after(expect_ready(future).as_ref()),
            });
        let readings = (clock.0.now().as_nanos() - before) / 1_000_000_000;
        (reset_after.get() / 1_000_000_000, readings)
    };
    let minute = Timestamp::from_nanos(60_000_000_000);
    assert_eq!(decide("kind=plain", Some(minute)), (3_540, 0));
    assert_eq!(decide("kind=plain", Some(minute)), (3_540, 0));
    assert_eq!(decide("kind=plain", None), (3_599, 1), "the clock is at its first second");
    assert_eq!(decide("kind=held", Some(minute)).1, 1);
}

/// The output of a future that need not wait.
fn expect_ready<F: Future + Unpin>(mut future: F) -> F::Output {
    match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}
