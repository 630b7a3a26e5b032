//! Fencing tokens of etcd: revisions above a base.

use tidegate::store::Op;
use tidegate::{Clock as _, Release, StoreError, SystemClock};

use super::setup::{EtcdCluster, settings, store};
use crate::lease_suite::{Node, charge, counter, lock, plan};

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, index| bits << 8 | u32::from(*chunk.get(index).unwrap_or(&0)));
        for digit in 0..4 {
            let is_padding = digit > chunk.len();
            let at = usize::try_from(bits >> (18 - 6 * digit) & 63).unwrap();
            encoded.push(if is_padding { '=' } else { char::from(DIGITS[at]) });
        }
    }
    encoded
}

/// The loss of all data, as far as fencing tokens are concerned: the base is gone, and revisions go on from a low number.
#[tokio::test]
async fn tokens_grow_over_the_loss_of_the_base() {
    let (old, lock) = (EtcdCluster::start(1), lock());
    let door = plan(&[charge("door", &lock, 1)]);
    let before_us = SystemClock::new().now().as_nanos() / 1_000;
    let node = Node::new(store(&old).await);
    let lease = node.acquire(&door).await.unwrap();
    assert!(lease.fence.get() > before_us, "it is above every token that Redis has handed out");
    drop(old);
    let new = EtcdCluster::start(1);
    let node = Node::new(store(&new).await);
    let next = node.acquire(&door).await.unwrap();
    assert!(next.fence > lease.fence, "{:?} after {:?}", next.fence, lease.fence);
}

/// An operator who restores a backup deletes the base, so that tokens do not repeat.
#[tokio::test]
async fn a_deleted_base_is_created_again_above_all_tokens() {
    let (cluster, lock) = (EtcdCluster::start(1), lock());
    let node = Node::new(store(&cluster).await);
    let door = plan(&[charge("door", &lock, 1)]);
    let lease = node.acquire(&door).await.unwrap();
    let deleted = cluster.post("/v3/kv/deleterange", &format!("{{\"key\":\"{}\"}}", base64("tg:fence-base")));
    assert!(deleted.contains("\"deleted\":\"1\""), "{deleted}");
    assert_eq!(node.release(&door, &lease.token).await, Release::Released);
    assert!(node.acquire(&door).await.unwrap().fence > lease.fence);
}

/// Every lease has a key of its own, which etcd removes with it, so nothing stays behind except the base.
#[tokio::test]
async fn a_released_lease_leaves_nothing_in_etcd() {
    let (cluster, lock) = (EtcdCluster::start(1), lock());
    let store = store(&cluster).await;
    let node = Node::new(store.clone());
    let door = plan(&[charge("door", &lock, 1)]);
    let keys = || {
        let range = format!("{{\"key\":\"{}\",\"range_end\":\"{}\"}}", base64("tg:"), base64("tg;"));
        cluster.post("/v3/kv/range", &range).matches("\"create_revision\"").count()
    };
    for _ in 0..3 {
        let lease = node.acquire(&door).await.unwrap();
        assert_eq!(keys(), 2);
        assert_eq!(node.release(&door, &lease.token).await, Release::Released);
        assert_eq!(keys(), 1);
    }
    assert_eq!(store.wait_for_revocations(super::setup::LONG).await, 0);
    assert!(!cluster.post("/v3/lease/leases", "{}").contains("\"ID\""), "no etcd lease is left");
}

#[tokio::test]
async fn a_value_that_is_not_a_lease_is_an_error_with_its_key() {
    let (cluster, lock) = (EtcdCluster::start(1), lock());
    let node = Node::new(store(&cluster).await);
    let door = plan(&[charge("door", &lock, 1)]);
    assert!(node.acquire(&door).await.is_some());
    let range = format!("{{\"key\":\"{}\",\"range_end\":\"{}\"}}", base64("tg:1"), base64("tg:2"));
    let found = cluster.post("/v3/kv/range", &range);
    let (_, key) = found.split_once("\"key\":\"").unwrap();
    let key = key.split_once('"').unwrap().0;
    cluster
        .post("/v3/kv/put", &format!("{{\"key\":\"{key}\",\"value\":\"{}\"}}", base64("one lease, please")));
    let store = store(&cluster).await;
    let error = ask_error(&store, Op::Acquire { ttl: None }, &door).await;
    assert!(matches!(&error, StoreError::Unreadable(key) if key.starts_with("tg:1{door}")), "{error}");
    assert_eq!(store.stats().failures.iter().find(|(reason, _)| *reason == "unreadable").unwrap().1, 1);
}

#[tokio::test]
async fn only_leases_are_kept() {
    let cluster = EtcdCluster::start(1);
    let store =
        tidegate::etcd::EtcdStore::connect(settings(&cluster.url(), super::setup::LONG)).await.unwrap();
    let rate = counter("rate", "5 per minute");
    let error = ask_error(&store, Op::Check, &plan(&[charge("key", &rate, 1)])).await;
    assert!(error.to_string().contains("(hint: "), "{error}");
}

async fn ask_error(
    store: &impl tidegate::store::Store,
    op: Op,
    plan: &tidegate::store::Plan<'_>,
) -> StoreError {
    let ask = tidegate::store::Ask { op, plan, now: SystemClock::new().now(), deadline: None };
    store.ask(&ask).reply().await.unwrap_err()
}
