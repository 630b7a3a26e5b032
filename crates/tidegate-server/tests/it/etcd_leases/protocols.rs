//! Acquire, renew, release and expiry over each protocol.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use tidegate_testing::redis_server::RedisServer;

use super::{EtcdCluster, Node, token_of, wait_until};

const DOOR: &str = r#""door": "1""#;
/// The `overall_code` of a denied request.
const OVER_LIMIT: i32 = 2;

#[test]
fn leases_over_http_are_shared_by_all_nodes() {
    let cluster = EtcdCluster::start(1);
    let nodes = [(); 2].map(|()| Node::start_patient(&cluster));
    let (status, acquired) = nodes[0].post("/v1/acquire", DOOR, r#", "ttl": "30s""#);
    assert_eq!(status, 200, "{acquired}");
    let fence = acquired["lease"]["fence"].as_u64().unwrap();
    assert!((1..=30_000).contains(&acquired["lease"]["expires_in_ms"].as_u64().unwrap()));
    let (status, denied) = nodes[1].post("/v1/acquire", DOOR, "");
    assert_eq!((status, &denied["lease"]), (429, &serde_json::Value::Null));
    let with_token = |token: &str| format!(r#", "token": "{token}""#);
    let (status, renewed) = nodes[1].post("/v1/renew", DOOR, &with_token(&token_of(&acquired)));
    assert_eq!((status, renewed["lease"]["fence"].as_u64()), (200, Some(fence)));
    assert_eq!(nodes[0].post("/v1/release", DOOR, &with_token(&token_of(&renewed))).0, 200);
    assert_eq!(nodes[1].post("/v1/release", DOOR, &with_token(&token_of(&renewed))).0, 409);
    let (_, again) = nodes[1].post("/v1/acquire", DOOR, "");
    assert!(again["lease"]["fence"].as_u64().unwrap() > fence);
    let (_, short) = nodes[0].post("/v1/acquire", r#""door": "2""#, r#", "ttl": 100"#);
    wait_until("it has expired", || nodes[1].post("/v1/acquire", r#""door": "2""#, "").0 == 200);
    let (status, expired) = nodes[0].post("/v1/release", r#""door": "2""#, &with_token(&token_of(&short)));
    assert_eq!((status, &expired["result"]), (409, &"expired".into()));
    assert!(nodes[0].server.metric("tidegate_lease_store_operations_total") > 0);
    assert_eq!(nodes[0].server.metric("tidegate_lease_store_failures_total{reason=\"timed_out\"}"), 0);
    for node in nodes {
        let log = node.server.stop();
        assert!(
            log.contains(&format!("lease_store={}", &cluster.url())) || log.contains(&cluster.url()),
            "{log}"
        );
    }
}

#[test]
fn leases_over_the_redis_protocol() {
    let cluster = EtcdCluster::start(1);
    let nodes = [(); 2].map(|()| Node::start_patient(&cluster));
    let acquired = nodes[0].resp("TIDEGATE.ACQUIRE api door 1 TTL 30s");
    let token =
        acquired.iter().find(|line| line.len() == 80).unwrap_or_else(|| panic!("{acquired:?}")).clone();
    let denied = nodes[1].resp("TIDEGATE.ACQUIRE api door 1");
    assert!(denied.iter().all(|line| line.len() < 80), "{denied:?}");
    let renewed = nodes[1].resp(&format!("TIDEGATE.RENEW {token} api door 1"));
    assert!(renewed.iter().any(|line| line.contains("renewed")), "{renewed:?}");
    let released = nodes[1].resp(&format!("TIDEGATE.RELEASE {token} api door 1"));
    assert!(released.iter().any(|line| line.ends_with("released")), "{released:?}");
    assert_eq!(nodes[0].post("/v1/acquire", DOOR, "").0, 200, "it is the same lock over HTTP");
}

/// Envoy's protocol has no leases: a check takes a slot until the ttl of the limit ends.
#[test]
fn a_slot_over_grpc_is_free_when_its_ttl_ends() {
    let cluster = EtcdCluster::start(1);
    let nodes = [(); 2].map(|()| Node::start_patient(&cluster));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let code = |node: &Node| {
        runtime.block_on(async {
            let address = format!("http://{}", node.server.address("grpc"));
            let mut client = RateLimitServiceClient::connect(address).await.unwrap();
            let entries = vec![Entry { key: "slot".to_owned(), value: "1".to_owned() }];
            let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
            let request = RateLimitRequest { domain: "api".to_owned(), descriptors, hits_addend: 0 };
            client.should_rate_limit(request).await.unwrap().into_inner().overall_code
        })
    };
    assert_ne!(code(&nodes[0]), OVER_LIMIT);
    assert_eq!(code(&nodes[1]), OVER_LIMIT);
    wait_until("its ttl is over", || code(&nodes[1]) != OVER_LIMIT);
}

/// A lock in etcd and a rate in memory or in Redis: the request is charged in both or in neither.
#[test]
fn a_request_with_a_lock_and_a_rate_is_all_or_nothing() {
    let (cluster, redis) = (EtcdCluster::start(1), RedisServer::start(&[]));
    let redis_url = redis.url();
    for (door, store) in ["memory", &redis_url].into_iter().enumerate() {
        let url = cluster.url();
        let more = ["--store", store, "--store-timeout", "30s", "--lease-store-timeout", "30s"];
        let node = Node::start(&url, &more);
        let attributes = format!(r#""door": "both{door}", "user": "ann""#);
        let (_, held) = node.post("/v1/acquire", &attributes, "");
        let token = token_of(&held);
        for _ in 0..10 {
            assert_eq!(node.post("/v1/acquire", &attributes, "").0, 429, "the lock denies");
        }
        let release =
            |token: &str| node.post("/v1/release", &attributes, &format!(r#", "token": "{token}""#)).0;
        assert_eq!(release(&token), 200);
        // Five a day, one of them used: the denied requests took nothing of the rate.
        for _ in 0..4 {
            let (status, acquired) = node.post("/v1/acquire", &attributes, "");
            assert_eq!((status, release(&token_of(&acquired))), (200, 200));
        }
        assert_eq!(node.post("/v1/acquire", &attributes, "").0, 429, "the rate denies");
        let lock_only = format!(r#""door": "both{door}""#);
        assert_eq!(node.post("/v1/acquire", &lock_only, "").0, 200, "the lock was not taken");
        // The rate alone does not need etcd.
        assert_eq!(node.post("/v1/check", r#""user": "bob""#, "").0, 200);
    }
}
