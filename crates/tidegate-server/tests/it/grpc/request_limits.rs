//! Limits in descriptors.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use tonic::Code;

use crate::grpc::server::{OK, OVER_LIMIT, Server, call_error, descriptor, request, send};

const RULES: &str = "
domain: api
rules:
  - { name: closed, limit: '{algorithm: fixed_window, limit: 0, per: 1h}' }
";

fn limited(user: &str, requests_per_unit: u32, unit: i32) -> RateLimitDescriptor {
    let limit = Some(RateLimitOverride { requests_per_unit, unit });
    RateLimitDescriptor { limit, ..descriptor(&[("user", user), ("plan", "gold")]) }
}

#[tokio::test]
async fn a_request_limit_replaces_the_rules() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let year = Unit::Year as i32;
    for (code, remaining) in [(OK, 1), (OK, 0), (OVER_LIMIT, 0)] {
        let answer = send(&mut client, request([limited("a", 2, year)])).await;
        assert_eq!((answer.overall_code, answer.statuses[0].limit_remaining), (code, remaining));
        let echoed = answer.statuses[0].current_limit.clone().unwrap();
        assert_eq!((echoed.requests_per_unit, echoed.unit, &*echoed.name), (2, year, ""));
    }
    // A higher limit keeps the count. Another key has its own count.
    let raised = send(&mut client, request([limited("a", 5, year)])).await;
    assert_eq!((raised.overall_code, raised.statuses[0].limit_remaining), (OK, 2));
    let other = send(&mut client, request([limited("b", 2, year)])).await;
    assert_eq!(other.statuses[0].limit_remaining, 1);
    // Without a limit in the descriptor, the rules apply.
    assert_eq!(send(&mut client, request([descriptor(&[("user", "a")])])).await.overall_code, OVER_LIMIT);
}

#[tokio::test]
async fn a_request_limit_needs_a_domain_but_no_rule() {
    let server = Server::with_rules("domain: api\nrules: []").await;
    let mut client = server.client().await;
    let known = request([limited("a", 1, Unit::Year as i32)]);
    assert_eq!(send(&mut client, known.clone()).await.overall_code, OK);
    assert_eq!(send(&mut client, known.clone()).await.overall_code, OVER_LIMIT);
    let mut unknown = known;
    unknown.domain = "elsewhere".to_owned();
    for _ in 0..3 {
        let answer = send(&mut client, unknown.clone()).await;
        assert_eq!((answer.overall_code, answer.statuses[0].code), (OK, OK));
        assert_eq!(answer.statuses[0].current_limit, None);
    }
}

#[tokio::test]
async fn valid_and_invalid_units() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    for unit in 1..=7 {
        let answer = send(&mut client, request([limited("u", 1_000, unit)])).await;
        assert_eq!(answer.statuses[0].current_limit.as_ref().unwrap().unit, unit);
    }
    for unit in [0, 8, -1, i32::MAX] {
        let status = call_error(&mut client, request([limited("u", 1, unit)])).await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("has the unknown unit"), "{}", status.message());
    }
    let none = send(&mut client, request([limited("n", 0, 1)])).await;
    assert_eq!(none.overall_code, OVER_LIMIT, "a limit of 0 denies everything");
}

/// A rule may have any name.
#[tokio::test]
async fn a_rule_may_be_named_override() {
    let rules = "domain: api\nrules: [ { name: override, key: [user], missing: skip, limit: 5 per day } ]";
    let server = Server::with_rules(rules).await;
    let mut client = server.client().await;
    let both = request([descriptor(&[("user", "a")]), limited("a", 2, Unit::Year as i32)]);
    let answer = send(&mut client, both).await;
    let names = answer.statuses.iter().map(|status| &*status.current_limit.as_ref().unwrap().name);
    assert_eq!(names.collect::<Vec<_>>(), ["override", ""]);
}
