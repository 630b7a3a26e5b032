//! One status per descriptor, in order, with every field.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{DescriptorStatus, RateLimit};

use crate::grpc::server::{OK, OVER_LIMIT, Server, descriptor, request, send};

const RULES: &str = "
domain: api
rules:
  - name: per-user
    key: [user]
    missing: skip
    limits: [ { name: few, limit: 3, per: 7d, algorithm: fixed_window, align: first_hit } ]
  - { name: odd, key: [odd], missing: skip, limit: '{algorithm: fixed_window, limit: 5, per: 90s, align: first_hit}' }
  - { name: vast, key: [vast], missing: skip, limit: 10000000000 per year }
  - { name: closed, key: [closed], missing: skip, limit: '{algorithm: fixed_window, limit: 0, per: 1h}' }
  - { name: seats, key: [seat], missing: skip, limit: '{algorithm: concurrency, limit: 2, ttl: 1h}' }
";

fn limit(name: &str, requests_per_unit: u32, unit: Unit) -> Option<RateLimit> {
    Some(RateLimit { name: name.to_owned(), requests_per_unit, unit: unit as i32 })
}

fn seconds(status: &DescriptorStatus) -> i64 {
    let duration = status.duration_until_reset.as_ref().unwrap();
    assert_eq!(duration.nanos, 0, "whole seconds, because Envoy truncates the rest");
    duration.seconds
}

#[tokio::test]
async fn one_status_for_each_descriptor_in_order() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let both = || request([descriptor(&[("nobody", "knows")]), descriptor(&[("user", "42"), ("path", "/")])]);
    for remaining in [2, 1, 0] {
        let answer = send(&mut client, both()).await;
        assert_eq!(answer.overall_code, OK);
        let [unknown, user] = &answer.statuses[..] else { panic!("{answer:?}") };
        assert_eq!(*unknown, DescriptorStatus { code: OK, ..DescriptorStatus::default() });
        assert_eq!(user.code, OK);
        assert_eq!(user.current_limit, limit("few", 3, Unit::Week));
        assert_eq!(user.limit_remaining, remaining);
        assert!((1..=7 * 86_400).contains(&seconds(user)), "{user:?}");
        assert!(answer.response_headers_to_add.is_empty() && answer.dynamic_metadata.is_none(), "{answer:?}");
    }
    let denied = send(&mut client, both()).await;
    assert_eq!(denied.overall_code, OVER_LIMIT);
    assert_eq!([denied.statuses[0].code, denied.statuses[1].code], [OK, OVER_LIMIT]);
    assert_eq!(denied.statuses[1].limit_remaining, 0);
    assert!(seconds(&denied.statuses[1]) > 6 * 86_400);
    // Another user has another counter.
    let other = send(&mut client, request([descriptor(&[("user", "43")])])).await;
    assert_eq!(other.statuses[0].limit_remaining, 2);
}

#[tokio::test]
async fn limits_without_an_rls_unit() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let all = ["odd", "vast", "seat"].map(|key| descriptor(&[(key, "x")]));
    let answer = send(&mut client, request(all)).await;
    let [odd, vast, seat] = &answer.statuses[..] else { panic!("{answer:?}") };
    assert_eq!((&odd.current_limit, odd.limit_remaining), (&limit("odd", 5, Unit::Unknown), 4));
    assert_eq!((&vast.current_limit, vast.limit_remaining), (&limit("vast", u32::MAX, Unit::Year), u32::MAX));
    assert_eq!((&seat.current_limit, seat.limit_remaining), (&limit("seats", 2, Unit::Unknown), 1));

    let closed = send(&mut client, request([descriptor(&[("closed", "x")])])).await;
    assert_eq!((closed.overall_code, closed.statuses[0].code), (OVER_LIMIT, OVER_LIMIT));
    let seconds = closed.statuses[0].duration_until_reset.unwrap().seconds;
    assert!((1..=3_600).contains(&seconds), "until the window ends, although it never admits anything");
}

#[tokio::test]
async fn a_denied_request_charges_nothing() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let both = request([descriptor(&[("user", "1")]), descriptor(&[("closed", "x")])]);
    for _ in 0..5 {
        let answer = send(&mut client, both.clone()).await;
        assert_eq!([answer.overall_code, answer.statuses[0].code, answer.statuses[1].code], [2, 1, 2]);
    }
    let user = send(&mut client, request([descriptor(&[("user", "1")])])).await;
    assert_eq!(user.statuses[0].limit_remaining, 2);
}

#[tokio::test]
async fn unknown_domains_descriptors_and_keys_are_not_limited() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let mut elsewhere = request([descriptor(&[("user", "1")])]);
    elsewhere.domain = "elsewhere".to_owned();
    let empty = request([descriptor(&[]), descriptor(&[("", "")])]);
    for request_sent in [elsewhere, empty] {
        let answer = send(&mut client, request_sent).await;
        assert_eq!(answer.overall_code, OK);
        assert!(answer.statuses.iter().all(|status| status.code == OK && status.current_limit.is_none()));
    }
}
