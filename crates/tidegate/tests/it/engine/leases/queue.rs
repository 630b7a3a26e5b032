//! Requests that wait for leases of other holders.

use tidegate::rules::{Descriptor, Request};
use tidegate::{LeaseToken, Release};

use crate::engine::fixture::{EngineFixture, entries};
use crate::engine::setup::{Setup, over_each_store};
use crate::executor::Executor;

async fn acquire(fixture: &EngineFixture, attributes: &str) -> Option<LeaseToken> {
    let entries = entries(attributes);
    let descriptors: Vec<_> = entries.iter().map(|entries| Descriptor::new(entries, 1)).collect();
    let request = Request { domain: "api", descriptors: &descriptors };
    let acquired = fixture.engine.lease(&request, None).await.unwrap();
    acquired.lease.map(|lease| lease.token)
}

const SLOW: &str = "
domain: api
rules:
  - name: slow
    key: [user]
    limit: { algorithm: concurrency, limit: 1, ttl: 60s }
    action: { delay: { max_wait: 5s } }
";

fn a_release_wakes_the_waiter(setup: Setup) {
    let fixture = setup.fixture(SLOW);
    let mut tasks = Executor::new(&fixture.clock);
    let all: Vec<_> = (0..3).map(|_| tasks.spawn(acquire(&fixture, "user=1"))).collect();
    tasks.run_woken();
    assert_eq!(fixture.engine.waiting_requests(), 2);
    let token =
        |tasks: &Executor<'_, Option<LeaseToken>>, task| tasks.finished(task).map(|finished| finished.output);
    let first = token(&tasks, all[0]).flatten().expect("it is admitted immediately");
    fixture.advance(1);
    assert_eq!(fixture.release("user=1", &first), Release::Released);
    tasks.run_woken();
    let second = token(&tasks, all[1]).flatten().expect("it was woken");
    assert_eq!(token(&tasks, all[2]), None, "one at a time");
    fixture.advance(1);
    assert_eq!(fixture.release("user=1", &second), Release::Released);
    tasks.run_woken();
    assert!(token(&tasks, all[2]).flatten().is_some());
    assert_eq!(fixture.engine.waiting_requests(), 0);
}

fn a_waiter_that_gives_up_takes_no_lease(setup: Setup) {
    let fixture = setup.fixture(SLOW);
    let first = fixture.lease("user=1");
    let mut tasks = Executor::new(&fixture.clock);
    let task = tasks.spawn(acquire(&fixture, "user=1"));
    tasks.run();
    assert_eq!(tasks.finished(task).expect("its deadline has passed").output, None);
    assert_eq!(fixture.release("user=1", &first.token), Release::Released);
    assert!(fixture.acquire("user=1").1.is_some());
}

fn the_wait_queue_is_bounded(setup: Setup) {
    let fixture = setup.fixture(SLOW);
    let fixture = EngineFixture { engine: fixture.engine.with_queue_max(2), ..fixture };
    let _held = fixture.lease("user=1");
    let mut tasks = Executor::new(&fixture.clock);
    let all: Vec<_> = (0..3).map(|_| tasks.spawn(acquire(&fixture, "user=1"))).collect();
    tasks.run_woken();
    let done: Vec<bool> = all.iter().map(|task| tasks.finished(*task).is_some()).collect();
    assert_eq!((done, fixture.engine.waiting_requests()), (vec![false, false, true], 2));
}

over_each_store!(
    a_release_wakes_the_waiter,
    a_waiter_that_gives_up_takes_no_lease,
    the_wait_queue_is_bounded,
);
