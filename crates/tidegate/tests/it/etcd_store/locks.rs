//! Locks over a store on etcd.

use std::time::Duration;

use tidegate::etcd::{EtcdLocks, EtcdStore};
use tidegate::{Locks, Refused};

use super::setup::{EtcdCluster, settings, store, store_with};
use crate::lease_suite::{Node, charge, lock, plan, wait_until};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);
/// Short enough to be renewed often, long enough for a busy machine.
const SHORT: Duration = Duration::from_secs(3);

async fn two_nodes(cluster: &EtcdCluster) -> [EtcdLocks; 2] {
    [Locks::with_store(store(cluster).await), Locks::with_store(store(cluster).await)]
}

#[tokio::test]
async fn one_process_holds_a_lock_at_a_time() {
    let cluster = EtcdCluster::start(1);
    let [first_node, second_node] = two_nodes(&cluster).await;
    let first = first_node.lock("invoice", LONG).await.unwrap();
    assert!(first.is_held());
    assert!(matches!(second_node.try_lock("invoice", LONG).await, Err(Refused::OverLimit(_))));
    let refused = second_node.lock_within("invoice", LONG, Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(refused, Refused::TooLong { wait: None });
    let fence = first.fencing_token();
    let pending = second_node.lock("invoice", LONG);
    drop(first);
    let second = pending.await.unwrap();
    assert!(second.fencing_token() > fence);
    assert_eq!(second.release().await.unwrap().as_str(), "released");
    assert!(wait_until(async || first_node.try_lock("invoice", LONG).await.ok()).await.is_held());
}

#[tokio::test]
async fn a_lock_is_held_beyond_its_ttl() {
    let cluster = EtcdCluster::start(1);
    let [first_node, second_node] = two_nodes(&cluster).await;
    let guard = first_node.lock("invoice", SHORT).await.unwrap();
    let first_end = guard.lease().expires;
    // Renewed until the first lease would have expired: etcd still holds the lock.
    wait_until(async || (guard.lease().since >= first_end).then_some(())).await;
    assert!(guard.is_held());
    assert!(second_node.try_lock("invoice", SHORT).await.is_err());
    drop(guard);
    let _ = wait_until(async || second_node.try_lock("invoice", SHORT).await.ok()).await;
}

#[tokio::test]
async fn a_lock_is_lost_when_etcd_stays_away() {
    let cluster = EtcdCluster::start(1);
    let locks = Locks::with_store(store_with(&cluster, Duration::from_millis(300)).await);
    let guard = wait_until(async || locks.try_lock("invoice", SHORT).await.ok()).await;
    cluster.pause(0);
    tokio::time::timeout(super::setup::LONG, guard.lost()).await.expect("its time is over");
    assert!(!guard.is_held());
    let refused = locks.try_lock("invoice", SHORT).await.unwrap_err();
    assert!(matches!(refused, Refused::Store(_)), "{refused}");
    cluster.resume(0);
}

/// A restart of etcd loses nothing.
#[tokio::test]
async fn a_lock_survives_a_restart_of_etcd() {
    let mut cluster = EtcdCluster::start(1);
    let store = store(&cluster).await;
    let (locks, node, lock) = (Locks::with_store(store.clone()), Node::new(store), lock());
    let guard = locks.lock("invoice", LONG).await.unwrap();
    let lease = node.acquire(&plan(&[charge("door", &lock, 1)])).await.unwrap();
    cluster.kill(0);
    let refused = locks.try_lock("invoice", LONG).await.unwrap_err();
    assert!(refused.to_string().contains("cannot be reached"), "{refused}");
    cluster.restart(0);
    let is_denied =
        async || matches!(locks.try_lock("invoice", LONG).await, Err(Refused::OverLimit(_))).then_some(());
    wait_until(is_denied).await;
    assert!(guard.is_held());
    assert_eq!(guard.renew().await.unwrap().as_str(), "renewed");
    assert_eq!(node.release(&plan(&[charge("door", &lock, 1)]), &lease.token).await.as_str(), "released");
}

/// The caller is gone: the client disconnected, or the reply came too late.
#[tokio::test]
async fn an_abandoned_lease_is_given_back() {
    let (cluster, lock) = (EtcdCluster::start(1), lock());
    let door = plan(&[charge("door", &lock, 1)]);
    let (other, impatient) =
        (Node::new(store(&cluster).await), store_with(&cluster, Duration::from_millis(300)).await);
    let is_free = async || (other.remaining("door", &lock).await == 1).then_some(());
    let first = other.acquire(&door).await.unwrap();
    assert_eq!(other.release(&door, &first.token).await.as_str(), "released");
    start_acquire(&impatient, &door);
    wait_until(async || (impatient.stats().leases_abandoned > 0).then_some(())).await;
    assert_eq!(impatient.wait_for_revocations(super::setup::LONG).await, 0);
    wait_until(is_free).await;
    // etcd stops during the call, and runs it when it continues.
    cluster.pause(0);
    let pending = tokio::spawn(call(&impatient, &door));
    assert_eq!(pending.await.unwrap().unwrap_err(), tidegate::StoreError::TimedOut);
    cluster.resume(0);
    assert_eq!(impatient.wait_for_revocations(super::setup::LONG).await, 0);
    wait_until(is_free).await;
    assert!(other.acquire(&door).await.unwrap().fence > first.fence);
}

fn start_acquire(store: &EtcdStore, door: &tidegate::store::Plan<'_>) {
    drop(call(store, door));
}

fn call(
    store: &EtcdStore,
    door: &tidegate::store::Plan<'_>,
) -> impl Future<Output = Result<tidegate::store::Reply, tidegate::StoreError>> + use<> {
    use tidegate::Clock as _;
    use tidegate::store::{Ask, Op, Store as _};
    let now = tidegate::SystemClock::new().now();
    store.ask(&Ask { op: Op::Acquire { ttl: None }, plan: door, now, deadline: None }).reply()
}

#[tokio::test]
async fn a_member_that_does_not_answer_is_passed_over() {
    let cluster = EtcdCluster::start(1);
    let alive = cluster.url();
    let (_, address) = alive.split_once("://").unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (closed, silent_address) =
        (tidegate_testing::redis_server::free_port(), silent.local_addr().unwrap());
    let url = format!("etcd://127.0.0.1:{closed},{silent_address},{address}");
    let store = EtcdStore::connect(settings(&url, Duration::from_secs(6))).await.unwrap();
    assert!(Locks::with_store(store.clone()).try_lock("invoice", LONG).await.is_ok());
    assert_eq!(store.stats().calls_failed, 2, "it asks the member that has answered from then on");
}

#[tokio::test]
async fn an_etcd_that_cannot_be_reached_is_a_transient_error() {
    let url = format!("etcd://127.0.0.1:{}", tidegate_testing::redis_server::free_port());
    let error = EtcdStore::connect(settings(&url, super::setup::LONG)).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("(hint: "), "{error}");
    let store = EtcdStore::connect_lazy(settings(&url, super::setup::LONG)).unwrap();
    assert!(matches!(Locks::with_store(store).try_lock("invoice", LONG).await, Err(Refused::Store(_))));
}
