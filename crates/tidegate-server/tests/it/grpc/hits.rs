//! The hits of descriptors, and refunds.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::google::protobuf::UInt64Value;

use tonic::Code;

use crate::grpc::server::{OK, OVER_LIMIT, Server, call_error, descriptor, request, send};

const RULES: &str = "
domain: api
rules:
  - { name: ten, key: [user], limit: '{algorithm: fixed_window, limit: 10, per: 1d, align: first_hit}' }
";

fn hits(user: &str, value: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(UInt64Value { value }), ..descriptor(&[("user", user)]) }
}

fn refunded_hits(user: &str, value: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..hits(user, value) }
}

#[tokio::test]
async fn request_hits_and_descriptor_hits() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let mut request_sent = request([descriptor(&[("user", "a")]), hits("b", 7), hits("c", 0)]);
    request_sent.hits_addend = 4;
    let answer = send(&mut client, request_sent.clone()).await;
    let remaining = |answer: &envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse| {
        answer.statuses.iter().map(|status| status.limit_remaining).collect::<Vec<_>>()
    };
    assert_eq!(remaining(&answer), [6, 3, 10]);
    // Seven more are too many for b, so nothing is charged.
    let answer = send(&mut client, request_sent).await;
    assert_eq!(answer.overall_code, OVER_LIMIT);
    assert_eq!(answer.statuses.iter().map(|status| status.code).collect::<Vec<_>>(), [OK, OVER_LIMIT, OK]);
    let peek = send(&mut client, request([hits("a", 0), hits("b", 0), hits("c", 0)])).await;
    assert_eq!(remaining(&peek), [6, 3, 10]);
    let beyond = send(&mut client, request([hits("c", u64::MAX)])).await;
    assert_eq!(beyond.overall_code, OVER_LIMIT);
}

#[tokio::test]
async fn a_peek_charges_nothing() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    for _ in 0..20 {
        let answer = send(&mut client, request([hits("a", 0)])).await;
        assert_eq!((answer.overall_code, answer.statuses[0].limit_remaining), (OK, 10));
    }
}

/// Any client could refund what it used. The error names the setting, and the other descriptors are not charged.
#[tokio::test]
async fn negative_hits_are_refused_by_default() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    send(&mut client, request([hits("a", 10)])).await;
    for request_sent in [request([refunded_hits("a", 4)]), request([hits("b", 1), refunded_hits("a", 4)])] {
        let status = call_error(&mut client, request_sent).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains("--negative-hits refund"), "{status:?}");
    }
    let peek = send(&mut client, request([hits("a", 0), hits("b", 0)])).await;
    assert_eq!(peek.statuses.iter().map(|status| status.limit_remaining).collect::<Vec<_>>(), [0, 10]);
    assert_eq!(server.metric_lines("tidegate_operations_total{"), [""; 0]);
    assert_eq!(
        server.metric_lines("tidegate_requests_rejected_total{"),
        [r#"tidegate_requests_rejected_total{protocol="grpc",reason="invalid_argument"} 2"#]
    );
}

#[tokio::test]
async fn hits_are_refunded() {
    let server = Server::with_refunds(RULES).await;
    let mut client = server.client().await;
    let spent = send(&mut client, request([hits("a", 10)])).await;
    assert_eq!((spent.overall_code, spent.statuses[0].limit_remaining), (OK, 0));
    let back = send(&mut client, request([refunded_hits("a", 4)])).await;
    assert_eq!((back.overall_code, back.statuses[0].code, back.statuses[0].limit_remaining), (OK, OK, 4));
    // More than was ever charged.
    let back = send(&mut client, request([refunded_hits("a", 1_000)])).await;
    assert_eq!((back.overall_code, back.statuses[0].limit_remaining), (OK, 10));
}

#[tokio::test]
async fn refunds_and_charges_in_one_request() {
    let server = Server::with_refunds(RULES).await;
    let mut client = server.client().await;
    send(&mut client, request([hits("a", 10), hits("b", 9)])).await;
    let mixed = || {
        request([refunded_hits("a", 1), hits("b", 1), refunded_hits("a", 1), descriptor(&[("user", "c")])])
    };
    let answer = send(&mut client, mixed()).await;
    assert_eq!(answer.overall_code, OK);
    assert_eq!(answer.statuses.iter().map(|status| status.limit_remaining).collect::<Vec<_>>(), [2, 0, 2, 9]);
    // Now b is over its limit: b and c are not charged, and a is refunded anyway.
    let answer = send(&mut client, mixed()).await;
    assert_eq!(answer.overall_code, OVER_LIMIT);
    assert_eq!(
        answer.statuses.iter().map(|status| status.code).collect::<Vec<_>>(),
        [OK, OVER_LIMIT, OK, OK]
    );
    assert_eq!(answer.statuses.iter().map(|status| status.limit_remaining).collect::<Vec<_>>(), [4, 0, 4, 9]);
}

/// A waiting request refunds once, when it is decided.
#[tokio::test]
async fn a_waiting_request_refunds_once() {
    let rules = "
domain: api
rules:
  - { name: ten, key: [user], missing: skip, limit: '{algorithm: fixed_window, limit: 10, per: 1d, align: first_hit}' }
  - { name: slow, key: [slow], missing: skip, limit: '{algorithm: gcra, limit: 1, per: 100ms}', action: { delay: { max_wait: 20s } } }
";
    let server = Server::with_refunds(rules).await;
    let mut client = server.client().await;
    send(&mut client, request([hits("a", 10), descriptor(&[("slow", "x")])])).await;
    let answer = send(&mut client, request([refunded_hits("a", 3), descriptor(&[("slow", "x")])])).await;
    assert_eq!((answer.overall_code, answer.statuses[0].limit_remaining), (OK, 3));
}

/// Refunds are counted. The peek that the server does after a refund is not.
#[tokio::test]
async fn refunds_are_counted() {
    let server = Server::with_refunds(RULES).await;
    let mut client = server.client().await;
    send(&mut client, request([hits("a", 10)])).await;
    send(&mut client, request([refunded_hits("a", 4)])).await;
    send(&mut client, request([refunded_hits("a", 1), hits("b", 1)])).await;
    assert_eq!(
        server.metric_lines("tidegate_operations_total"),
        [r#"tidegate_operations_total{operation="refund",result="done"} 2"#]
    );
}

/// 30 limits per user: those of three users are too many for one request, for charges and for refunds.
#[tokio::test]
async fn too_many_limits_to_refund_charge_nothing() {
    let limits = "10 per day, ".repeat(30);
    let rules = format!(
        "domain: api\nrules: [ {{ name: few, key: [few], missing: skip, limit: 10 per day }}, \
         {{ name: many, key: [user], missing: skip, limits: [ {limits} ] }} ]"
    );
    let server = Server::with_refunds(&rules).await;
    let mut client = server.client().await;
    let few =
        || RateLimitDescriptor { hits_addend: Some(UInt64Value { value: 3 }), ..descriptor(&[("few", "x")]) };
    // 1,050 limits.
    let all_back = || (0..35).map(|user| refunded_hits(&user.to_string(), 1));
    for request_sent in [request(all_back()), request(all_back().chain([few()]))] {
        let status = call_error(&mut client, request_sent).await;
        assert_eq!(status.code(), Code::Internal, "{status:?}");
    }
    let answer = send(&mut client, request([few(), refunded_hits("a", 1)])).await;
    assert_eq!((answer.overall_code, answer.statuses[0].limit_remaining), (OK, 7), "only this was charged");
    assert_eq!(
        server.metric_lines("tidegate_requests_rejected_total"),
        [r#"tidegate_requests_rejected_total{protocol="grpc",reason="too_many_limits"} 2"#]
    );
}
