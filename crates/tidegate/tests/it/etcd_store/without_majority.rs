//! etcd without a majority of its members grants nothing, and forgets nothing.

use std::time::Duration;

use tidegate::store::{Ask, Op, Plan, Store};
use tidegate::{Clock as _, StoreError, SystemClock};

use super::setup::{EtcdCluster, store, store_with};
use crate::lease_suite::{Node, charge, lock, plan};

async fn ask(store: &impl Store, op: Op, plan: &Plan<'_>) -> Result<tidegate::store::Reply, StoreError> {
    store.ask(&Ask { op, plan, now: SystemClock::new().now(), deadline: None }).reply().await
}

/// Two of three members are stopped: one with the leader among them, and one with the leader left alone, which may still
/// believe that it is the leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_neither_grants_nor_renews_a_lease() {
    let (cluster, lock) = (EtcdCluster::start(3), lock());
    let impatient = store_with(&cluster, Duration::from_secs(2)).await;
    let node = Node::new(store(&cluster).await);
    let (held, free) = (plan(&[charge("held", &lock, 1)]), plan(&[charge("free", &lock, 1)]));
    let lease = node.acquire(&held).await.unwrap();
    for keeps_leader in [true, false] {
        let leader = cluster.wait_for_leader();
        let followers: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
        let stopped = if keeps_leader { followers } else { vec![leader, followers[0]] };
        stopped.iter().for_each(|index| cluster.pause(*index));
        for plan in [&held, &free] {
            for op in [Op::Acquire { ttl: None }, Op::Check] {
                let refused = ask(&impatient, op, plan).await;
                assert!(refused.is_err(), "{op:?} is answered by a minority: {refused:?}");
            }
        }
        let renewed = ask(&impatient, Op::renew(lease.token, None), &held).await;
        assert!(renewed.is_err(), "a minority has renewed a lease: {renewed:?}");
        stopped.iter().for_each(|index| cluster.resume(*index));
        cluster.wait_for_leader();
        assert_eq!(node.remaining("held", &lock).await, 0, "it was not forgotten");
        assert_eq!(impatient.wait_for_revocations(super::setup::LONG).await, 0);
        // What was asked for without a majority was given up, and does not come back.
        let next = node.acquire(&free).await.unwrap();
        assert!(next.fence > lease.fence);
        assert_eq!(node.release(&free, &next.token).await.as_str(), "released");
    }
    assert_eq!(node.renew(&held, &lease.token, None).await.as_str(), "renewed");
    assert_eq!(node.release(&held, &lease.token).await.as_str(), "released");
}
