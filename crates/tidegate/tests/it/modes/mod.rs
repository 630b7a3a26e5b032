//! The modes `leased` and `eventual`, over a fake shared store and on a manual clock.

mod eventual;
mod leased;
mod plans;

use std::num::{NonZeroU32, NonZeroU64};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::store::{
    Ask, Carry, Charge, Counter, Fallback, Mode, ModeStore, Op, Outcome, Plan, Reply, Response, Store,
    StorePolicy,
};
use tidegate::{ManualClock, MemoryStore, Nanos, OutcomeKind, StoreError, Timestamp};
use tidegate_testing::fake_store::{FakeStore, StoreBehavior};

/// The start of all tests: the start of a minute.
const START: Timestamp = Timestamp::from_nanos(1_700_000_040_000_000_000);

/// A fake store that times out soon.
#[derive(Clone)]
struct SharedStore(FakeStore<ManualClock>);

impl Store for SharedStore {
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        self.0.ask(&Ask { deadline: None, ..*ask })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_millis(50))
    }

    fn live_nodes(&self) -> NonZeroU32 {
        self.0.live_nodes()
    }
}

/// Nodes that share a store.
struct TestFleet {
    clock: ManualClock,
    shared: SharedStore,
    nodes: Vec<Fallback<ModeStore<SharedStore>>>,
}

impl TestFleet {
    fn new(nodes: u32) -> Self {
        let clock = ManualClock::at(START);
        let shared = SharedStore(FakeStore::new(clock.clone()));
        shared.0.set_nodes(nodes);
        let node = |_| {
            let modes = ModeStore::new(shared.clone(), clock.clone());
            Fallback::new(modes, Arc::new(MemoryStore::bounded(1 << 20)))
        };
        Self { nodes: (0..nodes).map(node).collect(), clock, shared }
    }

    fn advance_ms(&self, milliseconds: u64) {
        self.clock.advance(Duration::from_millis(milliseconds));
    }

    fn tick(&self) {
        self.nodes.iter().for_each(|node| node.tick(self.now()));
    }

    fn now(&self) -> Timestamp {
        tidegate::Clock::now(&self.clock)
    }

    fn check(&self, node: usize, charge: Charge<'_>) -> Outcome {
        self.try_check(node, &[charge]).expect("the store answers").outcomes[0]
    }

    fn try_check(&self, node: usize, charges: &[Charge<'_>]) -> Result<Reply, StoreError> {
        self.ask(node, Op::Check, charges)
    }

    fn ask(&self, node: usize, op: Op, charges: &[Charge<'_>]) -> Result<Reply, StoreError> {
        expect_ready(self.start(node, op, charges).reply())
    }

    fn start(&self, node: usize, op: Op, charges: &[Charge<'_>]) -> Response {
        let plan = plan(charges);
        self.nodes[node].ask(&Ask { op, plan: &plan, now: self.now(), deadline: None })
    }

    /// How many of these requests are admitted, one after the other.
    fn admitted(&self, node: usize, charge: Charge<'_>, requests: usize) -> usize {
        (0..requests).filter(|_| self.check(node, charge).kind == OutcomeKind::Allowed).count()
    }

    /// What the shared store has left.
    fn left(&self, charge: Charge<'_>) -> u64 {
        let charge = Charge { cost: 0, policy: StorePolicy::DEFAULT, ..charge };
        let plan = plan(&[charge]);
        let ask = Ask { op: Op::Peek, plan: &plan, now: self.now(), deadline: None };
        expect_ready(self.shared.ask(&ask).reply()).unwrap().outcomes[0].remaining
    }
}

fn plan<'a>(charges: &[Charge<'a>]) -> Plan<'a> {
    let mut plan = Plan::new();
    for charge in charges {
        plan.add(*charge).unwrap();
    }
    plan
}

fn counter(limit: &str) -> Counter {
    Counter::new("rule", 0, limit.parse().unwrap())
}

fn leased(counter: &Counter, cost: u64) -> Charge<'_> {
    with_mode(counter, cost, Mode::leased(counter.limit()))
}

fn eventual(counter: &Counter, cost: u64) -> Charge<'_> {
    with_mode(counter, cost, Mode::eventual())
}

fn with_mode(counter: &Counter, cost: u64, mode: Mode) -> Charge<'_> {
    let policy = StorePolicy { mode, ..StorePolicy::DEFAULT };
    Charge { policy, ..Charge::new(b"key", counter, cost) }
}

/// The output of a future that need not wait.
fn expect_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store answers immediately"),
    }
}

/// A generator of numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: NonZeroU64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[test]
fn a_mode_has_defaults() {
    let lease_us = |limit: &str| match Mode::leased(&limit.parse().unwrap()) {
        Mode::Leased { lease_us } => lease_us.get(),
        other => panic!("{other:?}"),
    };
    assert_eq!(lease_us("10 per minute"), 1_000_000);
    assert_eq!(lease_us("10 per second"), 100_000);
    assert_eq!(lease_us("10 per 1ms"), 100);
    let Mode::Eventual { sync_us, carry } = Mode::eventual() else { panic!("it is eventual") };
    assert_eq!((sync_us.get(), carry), (100_000, Carry::On));
}

/// While the store is away, keys that are still leased are served, and others get this node's share.
#[test]
fn a_node_without_the_store_falls_back() {
    let fleet = TestFleet::new(4);
    let counter = counter("{algorithm: fixed_window, limit: 400, per: minute}");
    assert_eq!(fleet.admitted(0, leased(&counter, 1), 3), 3);
    fleet.shared.0.set_behavior(StoreBehavior::Fail(StoreError::BreakerOpen));
    let mut results = (0..500).map(|_| fleet.try_check(0, &[leased(&counter, 1)]));
    assert!(results.any(|result| result.is_err()), "the lease is used up");
    let error = StoreError::BreakerOpen;
    let charges = [leased(&counter, 1)];
    let plan = plan(&charges);
    let ask = Ask { op: Op::Check, plan: &plan, now: fleet.now(), deadline: None };
    let by_share = || fleet.nodes[0].ask_fallback(&ask, &error).unwrap().outcomes[0].kind;
    assert_eq!((0..200).filter(|_| by_share() == OutcomeKind::Allowed).count(), 100);
}
