//! Requests that wait for what others hold.

use tidegate::rules::{Descriptor, Request};
use tidegate::{LeaseToken, Release};

use crate::engine::bench::{EngineFixture, entries};
use crate::engine::setup::{Setup, over_each_store};
use crate::executor::Executor;

async fn acquire(bench: &EngineFixture, attributes: &str) -> Option<LeaseToken> {
    let entries = entries(attributes);
    let descriptors: Vec<_> = entries.iter().map(|entries| Descriptor::new(entries, 1)).collect();
    let request = Request { domain: "api", descriptors: &descriptors };
    let acquired = bench.engine.lease(&request, None).await.unwrap();
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
    let bench = setup.fixture(SLOW);
    let mut tasks = Executor::new(&bench.clock);
    let all: Vec<_> = (0..3).map(|_| tasks.spawn(acquire(&bench, "user=1"))).collect();
    tasks.run_woken();
    assert_eq!(bench.engine.waiting_requests(), 2);
    let token =
        |tasks: &Executor<'_, Option<LeaseToken>>, task| tasks.finished(task).map(|finished| finished.output);
    let first = token(&tasks, all[0]).flatten().expect("it is admitted at once");
    bench.advance(1);
    assert_eq!(bench.release("user=1", &first), Release::Released);
    tasks.run_woken();
    let second = token(&tasks, all[1]).flatten().expect("it was woken");
    assert_eq!(token(&tasks, all[2]), None, "one at a time");
    bench.advance(1);
    assert_eq!(bench.release("user=1", &second), Release::Released);
    tasks.run_woken();
    assert!(token(&tasks, all[2]).flatten().is_some());
    assert_eq!(bench.engine.waiting_requests(), 0);
}

fn a_waiter_that_gives_up_takes_no_lease(setup: Setup) {
    let bench = setup.fixture(SLOW);
    let first = bench.lease("user=1");
    let mut tasks = Executor::new(&bench.clock);
    let task = tasks.spawn(acquire(&bench, "user=1"));
    tasks.run();
    assert_eq!(tasks.finished(task).expect("its time is over").output, None);
    assert_eq!(bench.release("user=1", &first.token), Release::Released);
    assert!(bench.acquire("user=1").1.is_some());
}

fn the_wait_queue_is_bounded(setup: Setup) {
    let bench = setup.fixture(SLOW);
    let bench = EngineFixture { engine: bench.engine.with_queue_max(2), ..bench };
    let _held = bench.lease("user=1");
    let mut tasks = Executor::new(&bench.clock);
    let all: Vec<_> = (0..3).map(|_| tasks.spawn(acquire(&bench, "user=1"))).collect();
    tasks.run_woken();
    let done: Vec<bool> = all.iter().map(|task| tasks.finished(*task).is_some()).collect();
    assert_eq!((done, bench.engine.waiting_requests()), (vec![false, false, true], 2));
}

over_each_store!(
    a_release_wakes_the_waiter,
    a_waiter_that_gives_up_takes_no_lease,
    the_wait_queue_is_bounded,
);
