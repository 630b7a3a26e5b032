//! The conformance suite of lease stores: what every store promises for leases, run over memory, Redis and etcd.
//!
//! Each test gets three nodes that share one store. Time is the machine's, because shared stores have their own clocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::store::{Ask, Charge, Counter, Op, Plan, Reply, Role, Store};
use tidegate::{
    Clock as _, FencingToken, IntoLimit, Lease, LeaseToken, Nanos, OutcomeKind, Release, Renewal, SystemClock,
};

/// How long anything may take on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

/// A node, as tests of leases see it.
#[derive(Clone)]
pub struct Node(Arc<dyn Store>);

impl Node {
    pub fn new(store: impl Store + 'static) -> Self {
        Self(Arc::new(store))
    }

    pub async fn ask(&self, op: Op, plan: &Plan<'_>) -> Reply {
        let ask = Ask { op, plan, now: SystemClock::new().now(), deadline: None };
        self.0.ask(&ask).reply().await.expect("the store answers")
    }

    pub async fn acquire(&self, plan: &Plan<'_>) -> Option<Lease> {
        self.acquire_for(plan, None).await
    }

    pub async fn acquire_for(&self, plan: &Plan<'_>, ttl: Option<Nanos>) -> Option<Lease> {
        self.ask(Op::Acquire { ttl }, plan).await.lease.into_lease()
    }

    pub async fn renew(&self, plan: &Plan<'_>, token: &LeaseToken, ttl: Option<Nanos>) -> Renewal {
        self.ask(Op::renew(*token, ttl), plan).await.lease.into()
    }

    pub async fn release(&self, plan: &Plan<'_>, token: &LeaseToken) -> Release {
        self.ask(Op::Release { token: *token }, plan).await.lease.into()
    }

    pub async fn remaining(&self, key: &str, counter: &Counter) -> u64 {
        self.ask(Op::Peek, &plan(&[charge(key, counter, 0)])).await.outcomes[0].remaining
    }
}

pub fn counter(name: &str, limit: &str) -> Counter {
    Counter::new(name, 0, limit.into_limit().unwrap())
}

/// One at a time.
pub fn lock() -> Counter {
    counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1h}")
}

pub fn charge<'a>(key: &'a str, counter: &'a Counter, cost: u64) -> Charge<'a> {
    Charge::new(key.as_bytes(), counter, cost)
}

pub fn plan<'a>(charges: &[Charge<'a>]) -> Plan<'a> {
    let mut plan = Plan::new();
    for charge in charges {
        plan.add(*charge).unwrap();
    }
    plan
}

/// Waits until a condition returns a value.
pub async fn wait_until<T>(mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let attempts = async {
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, attempts).await.expect("the condition holds in time")
}

/// Makes a test of each function of the suite. `$nodes` is an async function that returns what the nodes need to live,
/// and three nodes.
macro_rules! lease_suite {
    ($nodes:path: $($test:ident),+ $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let (_server, nodes) = $nodes().await;
            $crate::lease_suite::$test(&nodes).await;
        })+
    };
    ($nodes:path) => {
        $crate::lease_suite::lease_suite!(
            $nodes: one_node_acquires_and_another_renews_and_releases, a_token_with_a_changed_digit_is_invalid,
            a_renewal_without_a_ttl_keeps_that_of_the_lease, an_expired_lease_is_free_again,
            several_limits_have_one_lease, one_task_holds_a_lock_and_fencing_tokens_grow,
            a_limit_of_several_units_is_exact, a_check_takes_a_slot_without_a_token, a_reset_ends_all_leases,
            an_observed_limit_denies_nothing, a_cost_of_zero_takes_nothing,
        );
    };
}
pub(crate) use lease_suite;

pub async fn one_node_acquires_and_another_renews_and_releases(nodes: &[Node; 3]) {
    let lock = lock();
    let door = plan(&[charge("door", &lock, 1)]);
    let lease = nodes[0].acquire(&door).await.unwrap();
    assert_eq!(lease.ttl().as_duration(), Duration::from_secs(3_600));
    let denied = nodes[1].ask(Op::Acquire { ttl: None }, &door).await;
    assert_eq!((denied.lease.into_lease(), denied.outcomes[0].kind), (None, OutcomeKind::Denied));
    let retry_after = denied.outcomes[0].retry_after.as_duration().unwrap();
    assert!(
        (Duration::from_secs(3_500)..=Duration::from_secs(3_600)).contains(&retry_after),
        "{retry_after:?}"
    );
    let Renewal::Renewed(renewed) = nodes[1].renew(&door, &lease.token, None).await else {
        panic!("it is held")
    };
    assert!(renewed.expires > lease.expires && renewed.fence == lease.fence);
    // The token from before the renewal still works.
    assert_eq!(nodes[1].release(&door, &lease.token).await, Release::Released);
    assert_eq!(nodes[0].release(&door, &renewed.token).await, Release::AlreadyReleased);
    assert_eq!(nodes[0].renew(&door, &renewed.token, None).await, Renewal::AlreadyReleased);
    let next = nodes[1].acquire(&door).await.unwrap();
    assert!(next.fence > lease.fence);
    // A token of another lease or of another key does not work.
    assert_eq!(nodes[0].release(&door, &lease.token).await, Release::AlreadyReleased);
    let window = plan(&[charge("window", &lock, 1)]);
    assert_eq!(nodes[0].release(&window, &next.token).await, Release::WrongOwner);
    assert_eq!(nodes[0].renew(&window, &next.token, None).await, Renewal::WrongOwner);
    assert_eq!(nodes[0].remaining("door", &lock).await, 0);
}

/// The digits of a token, with its ttl.
const DIGITS: usize = 80;

/// A token authenticates the end, the fencing token and the ttl of its lease too, whether the lease is held or not.
pub async fn a_token_with_a_changed_digit_is_invalid(nodes: &[Node; 3]) {
    let lock = lock();
    let door = plan(&[charge("door", &lock, 1)]);
    let lease = nodes[0].acquire(&door).await.unwrap();
    let text = lease.token.to_string();
    let changed = |digit: usize| {
        let other = if &text[digit..=digit] == "0" { "1" } else { "0" };
        format!("{}{other}{}", &text[..digit], &text[digit + 1..]).parse().unwrap()
    };
    for digit in 0..DIGITS {
        let renewal = nodes[0].renew(&door, &changed(digit), None).await;
        assert_eq!(renewal, Renewal::WrongOwner, "digit {digit}");
        let release = nodes[0].release(&door, &changed(digit)).await;
        assert_eq!(release, Release::WrongOwner, "digit {digit}");
    }
    assert_eq!(nodes[0].release(&door, &lease.token).await, Release::Released);
    for digit in 0..DIGITS {
        assert_eq!(nodes[0].release(&door, &changed(digit)).await, Release::WrongOwner);
    }
}

pub async fn a_renewal_without_a_ttl_keeps_that_of_the_lease(nodes: &[Node; 3]) {
    let lock = lock();
    let door = plan(&[charge("door", &lock, 1)]);
    let (short, shorter) = (Nanos::new(30_000_000_000), Nanos::new(20_000_000_000));
    let lease = nodes[0].acquire_for(&door, Some(short)).await.unwrap();
    // Another node knows only the text of the token.
    let token = lease.token.to_string().parse().unwrap();
    let renewed_for = async |token, ttl| match nodes[1].renew(&door, token, ttl).await {
        Renewal::Renewed(renewed) => renewed,
        missing => panic!("{missing:?}"),
    };
    let renewed = renewed_for(&token, None).await;
    assert_eq!((renewed.ttl(), renewed.token.ttl()), (short, Some(short)), "the limit has an hour");
    let renewed = renewed_for(&renewed.token, Some(shorter)).await;
    assert_eq!(renewed.fence, lease.fence);
    assert_eq!(renewed_for(&renewed.token, None).await.ttl(), shorter, "the last one counts");
    let cut = token.to_string()[..64].parse().unwrap();
    assert_eq!(nodes[1].renew(&door, &cut, None).await, Renewal::WrongOwner, "the ttl is sealed");
    assert_eq!(nodes[2].release(&door, &lease.token).await, Release::Released, "an earlier token");
}

pub async fn an_expired_lease_is_free_again(nodes: &[Node; 3]) {
    let lock = lock();
    let door = plan(&[charge("door", &lock, 1)]);
    let short = Some(Nanos::new(20_000_000));
    let lease = nodes[0].acquire_for(&door, short).await.unwrap();
    let next = wait_until(async || nodes[1].acquire(&door).await).await;
    assert!(next.fence > lease.fence);
    assert_eq!(nodes[0].release(&door, &lease.token).await, Release::Expired);
    assert_eq!(nodes[0].renew(&door, &lease.token, None).await, Renewal::Expired);
}

/// All or nothing, with the shortest ttl.
pub async fn several_limits_have_one_lease(nodes: &[Node; 3]) {
    let (lock, slots) = (lock(), counter("slots", "{algorithm: concurrency, limit: 3, ttl: 10m}"));
    let both = |cost| plan(&[charge("door", &lock, 1), charge("room", &slots, cost)]);
    assert!(nodes[0].acquire(&both(4)).await.is_none());
    assert_eq!((nodes[1].remaining("door", &lock).await, nodes[1].remaining("room", &slots).await), (1, 3));
    let reply = nodes[0].ask(Op::Acquire { ttl: None }, &both(2)).await;
    let remains: Vec<u64> = reply.outcomes.iter().map(|outcome| outcome.remaining).collect();
    assert_eq!(remains, [0, 1]);
    let lease = reply.lease.into_lease().unwrap();
    assert_eq!(lease.ttl().as_duration(), Duration::from_secs(600));
    assert!(nodes[1].acquire(&both(1)).await.is_none(), "the door is locked");
    let room = nodes[1].acquire(&plan(&[charge("room", &slots, 1)])).await.unwrap();
    assert!(room.fence > lease.fence);
    assert!(matches!(nodes[2].renew(&both(2), &lease.token, None).await, Renewal::Renewed(_)));
    assert_eq!(nodes[2].release(&both(2), &lease.token).await, Release::Released);
    assert_eq!((nodes[1].remaining("door", &lock).await, nodes[1].remaining("room", &slots).await), (1, 2));
}

/// Two locks, taken together and alone, by many tasks. The fencing tokens of each key grow from holder to holder, and no
/// two tasks hold the same lock.
pub async fn one_task_holds_a_lock_and_fencing_tokens_grow(nodes: &[Node; 3]) {
    let lock: &'static Counter = Box::leak(Box::new(lock()));
    let (a, b) = (charge("a", lock, 1), charge("b", lock, 1));
    let last: &'static [Mutex<FencingToken>; 2] = Box::leak(Box::default());
    let mut tasks = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().cycle().take(6).cloned().enumerate() {
        tasks.spawn(async move {
            let charges = [vec![a, b], vec![a], vec![b]];
            let mut leases_taken = 0;
            while leases_taken < 10 {
                let charges = &charges[(number + leases_taken) % 3];
                let doors = plan(charges);
                let Some(lease) = node.acquire(&doors).await else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                };
                leases_taken += 1;
                for charge in charges {
                    let door = usize::from(charge.key == b"b");
                    let mut last = last[door].try_lock().expect("no other task holds it");
                    assert!(lease.fence > *last, "{:?} after {last:?}", lease.fence);
                    *last = lease.fence;
                }
                let renewed = node.renew(&doors, &lease.token, None).await;
                assert!(matches!(renewed, Renewal::Renewed(renewed) if renewed.fence == lease.fence));
                assert_eq!(node.release(&doors, &lease.token).await, Release::Released);
                assert_eq!(node.release(&doors, &lease.token).await, Release::AlreadyReleased);
            }
        });
    }
    // In any order: a task that fails leaves its lease behind, and the others wait for it.
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    for key in ["a", "b"] {
        wait_until(async || (nodes[0].remaining(key, lock).await == 1).then_some(())).await;
    }
}

/// Admitted if and only if held + cost <= L, under concurrency: never more than L are held, and the units that are free
/// can be had.
pub async fn a_limit_of_several_units_is_exact(nodes: &[Node; 3]) {
    const LIMIT: u64 = 5;
    let slots: &'static Counter =
        Box::leak(Box::new(counter("slots", "{algorithm: concurrency, limit: 5, ttl: 1h}")));
    let held: &'static AtomicU64 = Box::leak(Box::default());
    let mut tasks = tokio::task::JoinSet::new();
    for (number, node) in (1_u64..).zip(nodes.iter().cycle().take(9).cloned()) {
        tasks.spawn(async move {
            let cost = number % 3 + 1;
            let mut fences = Vec::new();
            while fences.len() < 6 {
                let room = plan(&[charge("room", slots, cost)]);
                let Some(lease) = node.acquire(&room).await else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                };
                let now_held = held.fetch_add(cost, Ordering::SeqCst) + cost;
                assert!(now_held <= LIMIT, "{now_held} of {LIMIT} are held");
                fences.push(lease.fence);
                // Long enough for another node to be admitted wrongly.
                tokio::time::sleep(Duration::from_millis(5)).await;
                held.fetch_sub(cost, Ordering::SeqCst);
                assert_eq!(node.release(&room, &lease.token).await, Release::Released);
            }
            fences
        });
    }
    let mut fences = Vec::new();
    while let Some(task) = tasks.join_next().await {
        let task = task.unwrap();
        assert!(task.is_sorted(), "{task:?}");
        fences.extend(task);
    }
    let count = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), count, "each lease has its own fencing token");
    for left in (0..LIMIT).rev() {
        let reply = nodes[1].ask(Op::Acquire { ttl: None }, &plan(&[charge("room", slots, 1)])).await;
        assert_eq!((reply.lease.into_lease().is_some(), reply.outcomes[0].remaining), (true, left));
    }
    assert!(nodes[2].acquire(&plan(&[charge("room", slots, 1)])).await.is_none());
}

pub async fn a_check_takes_a_slot_without_a_token(nodes: &[Node; 3]) {
    let lock = counter("lock", "{algorithm: concurrency, limit: 1, ttl: 2s}");
    let door = plan(&[charge("door", &lock, 1)]);
    let checked = nodes[0].ask(Op::Check, &door).await;
    assert_eq!((checked.outcomes[0].kind, checked.lease.into_lease()), (OutcomeKind::Allowed, None));
    assert_eq!(nodes[1].remaining("door", &lock).await, 0);
    assert_eq!(nodes[1].ask(Op::Check, &door).await.outcomes[0].kind, OutcomeKind::Denied);
    wait_until(async || (nodes[2].remaining("door", &lock).await == 1).then_some(())).await;
}

pub async fn a_reset_ends_all_leases(nodes: &[Node; 3]) {
    let lock = lock();
    let (door, window) = (plan(&[charge("door", &lock, 1)]), plan(&[charge("window", &lock, 1)]));
    let lease = nodes[0].acquire(&door).await.unwrap();
    assert!(nodes[0].acquire(&window).await.is_some());
    let _ = nodes[1].ask(Op::Reset, &door).await;
    assert_eq!(nodes[0].release(&door, &lease.token).await, Release::AlreadyReleased);
    assert!(nodes[2].acquire(&door).await.unwrap().fence > lease.fence);
    assert_eq!(nodes[2].remaining("window", &lock).await, 0, "another key");
}

pub async fn an_observed_limit_denies_nothing(nodes: &[Node; 3]) {
    let (lock, slots) = (lock(), counter("slots", "{algorithm: concurrency, limit: 9, ttl: 1h}"));
    let observed = Charge { role: Role::Observed, ..charge("door", &lock, 1) };
    let both = plan(&[observed, charge("room", &slots, 1)]);
    let first = nodes[0].acquire(&both).await.unwrap();
    let reply = nodes[1].ask(Op::Acquire { ttl: None }, &both).await;
    let kinds: Vec<OutcomeKind> = reply.outcomes.iter().map(|outcome| outcome.kind).collect();
    assert_eq!(kinds, [OutcomeKind::Denied, OutcomeKind::Allowed]);
    let second = reply.lease.into_lease().unwrap();
    assert!(second.fence > first.fence);
    for lease in [first, second] {
        assert_eq!(nodes[2].release(&both, &lease.token).await, Release::Released);
    }
    assert_eq!((nodes[2].remaining("door", &lock).await, nodes[2].remaining("room", &slots).await), (1, 9));
}

pub async fn a_cost_of_zero_takes_nothing(nodes: &[Node; 3]) {
    let lock = lock();
    let nothing = nodes[0].ask(Op::Acquire { ttl: None }, &plan(&[charge("door", &lock, 0)])).await;
    assert_eq!((nothing.lease.into_lease(), nothing.outcomes[0].remaining), (None, 1));
    let too_much = nodes[0].ask(Op::Acquire { ttl: None }, &plan(&[charge("door", &lock, 2)])).await;
    assert_eq!(too_much.outcomes[0].retry_after.as_duration(), None, "never");
    assert_eq!(nodes[1].remaining("door", &lock).await, 1);
    let refunded = nodes[0].acquire(&plan(&[charge("door", &lock, 1)])).await.unwrap();
    let _ = nodes[0].ask(Op::Refund { charged_at: None }, &plan(&[charge("door", &lock, 1)])).await;
    assert_eq!(nodes[1].remaining("door", &lock).await, 0, "only its holder can give a lease back");
    assert_eq!(
        nodes[1].release(&plan(&[charge("door", &lock, 1)]), &refunded.token).await,
        Release::Released
    );
}
