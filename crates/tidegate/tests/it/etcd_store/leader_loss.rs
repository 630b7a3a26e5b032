//! The leader of etcd is killed again and again, while several clients take one lock.
//!
//! All clients are in one process, so one monotonic clock says when each of them could believe that it holds the lock:
//! from the reply until it releases the lock, or until its ttl has passed since it asked. No two of these intervals may
//! overlap. And a resource that refuses lower fencing tokens never lets two holders through at the same time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::etcd::EtcdStore;
use tidegate::store::{Ask, LeaseReply, Op, Store as _};
use tidegate::{Clock as _, FencingGuard, FencingToken, Lease, Nanos, SystemClock};
use tokio::time::Instant;

use super::setup::{EtcdCluster, settings};
use crate::lease_suite::{charge, lock, plan};

const KILLS: usize = 5;
const CLIENTS: usize = 6;
/// One lock in this many is forgotten, and one is held for too long.
const HABITS: usize = 24;
/// etcd rounds it up to whole seconds, so that an abandoned lock is free again soon.
const TTL: Duration = Duration::from_millis(1_500);
/// How many locks are taken before the next leader is killed.
const LOCKS_PER_KILL: usize = 10;
/// Longer than an election.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A client that believed to hold the lock.
#[derive(Clone, Copy, Debug)]
struct Holder {
    client: usize,
    fence: FencingToken,
    from: Instant,
    until: Instant,
}

#[derive(Default)]
struct Run {
    holders: Mutex<Vec<Holder>>,
    resource: Resource,
    locks_taken: AtomicUsize,
    is_over: AtomicBool,
}

/// What the lock protects.
#[derive(Default)]
struct Resource {
    guard: FencingGuard,
    /// Which client wrote with which token, in order.
    writes: Mutex<Vec<(FencingToken, usize)>>,
    refused: AtomicUsize,
}

impl Resource {
    fn write(&self, fence: FencingToken, client: usize) {
        let mut writes = self.writes.lock().unwrap();
        match self.guard.admit(fence) {
            Ok(()) => writes.push((fence, client)),
            Err(_) => drop(self.refused.fetch_add(1, Ordering::SeqCst)),
        }
    }
}

/// What a client does with the lock.
enum Habit {
    Releases,
    /// Forgets it, as a client that has crashed.
    Crashes,
    /// Goes on after the lock has expired, as a client that was paused.
    Oversleeps,
}

async fn ask(store: &EtcdStore, op: Op) -> LeaseReply {
    let lock = lock();
    let door = plan(&[charge("door", &lock, 1)]);
    let reply =
        store.ask(&Ask { op, plan: &door, now: SystemClock::new().now(), deadline: None }).reply().await;
    reply.map(|reply| reply.lease).unwrap_or_default()
}

async fn client(run: Arc<Run>, store: EtcdStore, number: usize) {
    for round in 0.. {
        if run.is_over.load(Ordering::SeqCst) {
            return;
        }
        let asked = Instant::now();
        let ttl = Some(Nanos::new(TTL.as_nanos()));
        let LeaseReply::Held(lease) = ask(&store, Op::Acquire { ttl }).await else {
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        };
        let (from, expires) = (Instant::now(), asked + TTL);
        run.locks_taken.fetch_add(1, Ordering::SeqCst);
        run.resource.write(lease.fence, number);
        let until = hold(&run, &store, &lease, number, (round + number) % HABITS, expires).await;
        run.holders.lock().unwrap().push(Holder { client: number, fence: lease.fence, from, until });
    }
}

/// Uses the lock, and returns until when the client could believe to hold it.
async fn hold(
    run: &Run,
    store: &EtcdStore,
    lease: &Lease,
    number: usize,
    round: usize,
    mut expires: Instant,
) -> Instant {
    let habit = match round {
        3 => Habit::Crashes,
        7 => Habit::Oversleeps,
        _ => Habit::Releases,
    };
    match habit {
        Habit::Crashes => expires,
        Habit::Oversleeps => {
            tokio::time::sleep_until(expires + Duration::from_secs(2)).await;
            run.resource.write(lease.fence, number);
            expires
        }
        Habit::Releases => {
            let asked = Instant::now();
            if let LeaseReply::Held(renewed) = ask(store, Op::renew(lease.token, None)).await {
                assert_eq!(renewed.fence, lease.fence);
                expires = asked + TTL;
            }
            let ends = Instant::now();
            if ends < expires {
                run.resource.write(lease.fence, number);
            }
            let released = Instant::now().min(expires);
            ask(store, Op::Release { token: lease.token }).await;
            released
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_two_holders_while_leaders_are_killed() {
    let mut cluster = EtcdCluster::start(3);
    let run = Arc::<Run>::default();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let store = EtcdStore::connect_lazy(settings(&cluster.url(), TIMEOUT)).unwrap();
        clients.spawn(client(Arc::clone(&run), store, number));
    }
    for _ in 0..KILLS {
        wait_for_locks(&run, &mut clients).await;
        let leader = tokio::task::block_in_place(|| {
            let leader = cluster.wait_for_leader();
            cluster.kill(leader);
            leader
        });
        // Locks are taken again after the election, while the old leader is gone.
        wait_for_locks(&run, &mut clients).await;
        tokio::task::block_in_place(|| cluster.restart(leader));
    }
    run.is_over.store(true, Ordering::SeqCst);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    check_holders(&run.holders.lock().unwrap());
    check_writes(&run.resource);
}

async fn wait_for_locks(run: &Run, clients: &mut tokio::task::JoinSet<()>) {
    let goal = run.locks_taken.load(Ordering::SeqCst) + LOCKS_PER_KILL;
    let started = Instant::now();
    while run.locks_taken.load(Ordering::SeqCst) < goal {
        assert!(started.elapsed() < super::setup::LONG, "no lock is granted any more");
        if let Some(ended) = clients.try_join_next() {
            ended.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn check_holders(holders: &[Holder]) {
    let mut holders = holders.to_vec();
    holders.sort_by_key(|holder| holder.fence);
    for pair in holders.windows(2) {
        let [first, second] = pair else { continue };
        let clients = (first.client, second.client);
        assert!(first.fence < second.fence, "two holders have one token: {clients:?} {first:?} {second:?}");
        assert!(first.until <= second.from, "two holders at the same time: {clients:?} {first:?} {second:?}");
    }
    assert!(holders.len() >= KILLS * LOCKS_PER_KILL, "{} holders", holders.len());
}

fn check_writes(resource: &Resource) {
    let writes = resource.writes.lock().unwrap();
    assert!(writes.is_sorted_by_key(|(fence, _)| *fence), "the resource let an older holder through");
    for pair in writes.windows(2) {
        assert!(
            pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1,
            "two clients wrote with one token: {pair:?}"
        );
    }
    assert!(resource.refused.load(Ordering::SeqCst) > 0, "a client that overslept is refused");
}
