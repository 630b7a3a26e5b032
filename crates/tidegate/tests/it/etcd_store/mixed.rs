//! Plans with leases in etcd, and other limits in memory or in Redis: all or nothing.

use std::sync::Arc;
use std::time::Duration;

use tidegate::store::{
    Ask, Charge, Counter, Fallback, LeaseReply, LeaseStore, Op, Plan, Reply, Store, StorePolicy,
};
use tidegate::{Clock as _, MemoryStore, OnStoreFailure, OutcomeKind, Release, StoreError, SystemClock};

use super::setup::{EtcdCluster, store, store_with};
use crate::lease_suite::{Node, charge, counter, lock, plan, wait_until};

fn rate() -> Counter {
    counter("rate", "10 per 1000d")
}

async fn in_memory(cluster: &EtcdCluster) -> LeaseStore<Arc<MemoryStore>> {
    LeaseStore::new(Arc::new(MemoryStore::bounded(1 << 20)), Arc::new(store(cluster).await))
}

async fn check_all_or_nothing<S: Store + Clone + 'static>(store: LeaseStore<S>) {
    let node = Node::new(store);
    let (lock, rate) = (lock(), rate());
    let both = |cost| plan(&[charge("door", &lock, 1), charge("key", &rate, cost)]);
    let remains = |reply: &Reply| reply.outcomes.iter().map(|outcome| outcome.remaining).collect::<Vec<_>>();
    let peeked = node.ask(Op::Peek, &both(3)).await;
    assert_eq!(remains(&peeked), [0, 7]);
    let admitted = node.ask(Op::Acquire { ttl: None }, &both(3)).await;
    assert_eq!(remains(&admitted), [0, 7]);
    let lease = admitted.lease.into_lease().unwrap();
    // The lock denies, and the rate is refunded.
    for op in [Op::Acquire { ttl: None }, Op::Check, Op::Peek] {
        let denied = node.ask(op, &both(1)).await;
        let kinds: Vec<OutcomeKind> = denied.outcomes.iter().map(|outcome| outcome.kind).collect();
        assert_eq!((kinds, remains(&denied)), (vec![OutcomeKind::Denied, OutcomeKind::Allowed], vec![0, 7]));
        assert_eq!(denied.lease, LeaseReply::None);
        assert_eq!(node.remaining("key", &rate).await, 7);
    }
    assert_eq!(node.release(&both(1), &lease.token).await, Release::Released);
    // The rate denies, and the lock is not taken.
    for op in [Op::Acquire { ttl: None }, Op::Check, Op::Peek] {
        let denied = node.ask(op, &both(8)).await;
        let kinds: Vec<OutcomeKind> = denied.outcomes.iter().map(|outcome| outcome.kind).collect();
        assert_eq!((kinds, remains(&denied)), (vec![OutcomeKind::Allowed, OutcomeKind::Denied], vec![1, 7]));
        assert_eq!((node.remaining("door", &lock).await, node.remaining("key", &rate).await), (1, 7));
    }
    let _ = node.ask(Op::Refund { charged_at: None }, &both(2)).await;
    assert_eq!(node.remaining("key", &rate).await, 9);
    let again = node.acquire(&both(1)).await.unwrap();
    assert!(again.fence > lease.fence);
    let _ = node.ask(Op::Reset, &both(1)).await;
    assert_eq!((node.remaining("door", &lock).await, node.remaining("key", &rate).await), (1, 10));
}

#[tokio::test]
async fn a_plan_is_charged_in_memory_and_in_etcd_or_in_neither() {
    let cluster = EtcdCluster::start(1);
    check_all_or_nothing(in_memory(&cluster).await).await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_plan_is_charged_in_redis_and_in_etcd_or_in_neither() {
    let cluster = EtcdCluster::start(1);
    let redis = tidegate_testing::redis_server::RedisServer::start(&[]);
    let mut settings = tidegate::redis::RedisSettings::new(redis.url().parse().unwrap());
    settings.timeout = super::setup::LONG;
    let counters = tidegate::redis::RedisStore::connect(settings).await.unwrap();
    check_all_or_nothing(LeaseStore::new(counters, Arc::new(store(&cluster).await))).await;
}

#[tokio::test]
async fn a_denied_attempt_counts_where_the_limit_says_so() {
    let cluster = EtcdCluster::start(1);
    let node = Node::new(in_memory(&cluster).await);
    let lock = lock();
    let counting = counter("log", "{algorithm: sliding_log, limit: 10, per: 1000d, count_denied: true}");
    let both = plan(&[charge("door", &lock, 1), charge("key", &counting, 1)]);
    assert!(node.acquire(&both).await.is_some());
    assert!(node.acquire(&both).await.is_none());
    assert_eq!(node.remaining("key", &counting).await, 8);
}

/// The caller is gone before etcd has answered.
#[tokio::test]
async fn an_abandoned_plan_is_given_back() {
    let cluster = EtcdCluster::start(1);
    let store = in_memory(&cluster).await;
    let (node, lock, rate) = (Node::new(store.clone()), lock(), rate());
    let both = plan(&[charge("door", &lock, 1), charge("key", &rate, 1)]);
    let held = node.acquire(&both).await.unwrap();
    drop(start(&store, Op::Acquire { ttl: None }, &both));
    wait_until(async || (node.remaining("key", &rate).await == 9).then_some(())).await;
    assert_eq!(node.release(&both, &held.token).await, Release::Released);
    drop(start(&store, Op::Acquire { ttl: None }, &both));
    wait_until(async || (node.remaining("key", &rate).await == 8).then_some(())).await;
    wait_until(async || (node.remaining("door", &lock).await == 1).then_some(())).await;
}

/// `on_store_failure` of the limits decides, and what was charged before is refunded.
#[tokio::test]
async fn a_plan_is_decided_by_the_fallback_while_etcd_does_not_answer() {
    let cluster = EtcdCluster::start(1);
    let memory = Arc::new(MemoryStore::bounded(1 << 20));
    let etcd = store_with(&cluster, Duration::from_millis(200)).await;
    let store = Fallback::new(LeaseStore::new(Arc::clone(&memory), Arc::new(etcd)), memory);
    let (lock, rate) = (lock(), rate());
    let deny = StorePolicy { on_store_failure: OnStoreFailure::Deny, ..StorePolicy::DEFAULT };
    let both = plan(&[Charge { policy: deny, ..charge("door", &lock, 1) }, charge("key", &rate, 1)]);
    cluster.pause(0);
    let error = start(&store, Op::Acquire { ttl: None }, &both).reply().await.unwrap_err();
    assert_eq!(error, StoreError::TimedOut);
    let ask =
        Ask { op: Op::Acquire { ttl: None }, plan: &both, now: SystemClock::new().now(), deadline: None };
    let reply = store.ask_fallback(&ask, &error).unwrap();
    assert_eq!(reply.lease, LeaseReply::None);
    let peeked = start(&store, Op::Peek, &plan(&[charge("key", &rate, 0)])).reply().await.unwrap();
    assert_eq!(peeked.outcomes[0].remaining, 10, "rates do not need etcd, and were refunded");
    cluster.resume(0);
}

fn start(store: &impl Store, op: Op, plan: &Plan<'_>) -> tidegate::store::Response {
    store.ask(&Ask { op, plan, now: SystemClock::new().now(), deadline: None })
}
