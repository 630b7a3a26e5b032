//! Many streams at the same time: the limit is exact.

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use prost::Message as _;

use super::raw_client::{Call, RawClient, framed_request};
use crate::grpc::server::{OK, OVER_LIMIT, Server, descriptor, request, send};

const RULES: &str = "
domain: api
rules:
  - { name: hundred, key: [user], limit: '{algorithm: fixed_window, limit: 100, per: 1d, align: first_hit}' }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_streams_on_one_connection() {
    let server = Server::with_rules(RULES).await;
    let client = server.client().await;
    let calls = (0..1_000).map(|_| {
        let mut client = client.clone();
        tokio::spawn(
            async move { send(&mut client, request([descriptor(&[("user", "42")])])).await.overall_code },
        )
    });
    let calls: Vec<_> = calls.collect();
    let mut codes = Vec::new();
    for call in calls {
        codes.push(call.await.unwrap());
    }
    assert_eq!(codes.iter().filter(|code| **code == OK).count(), 100);
    assert_eq!(codes.iter().filter(|code| **code == OVER_LIMIT).count(), 900);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_connections_with_many_streams() {
    let server = Server::with_rules(RULES).await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let client = server.client().await;
        for _ in 0..8 {
            let mut client = client.clone();
            tasks.push(tokio::spawn(async move {
                let mut passed = 0;
                for _ in 0..10 {
                    let answer = send(&mut client, request([descriptor(&[("user", "42")])])).await;
                    passed += u32::from(answer.overall_code == OK);
                }
                passed
            }));
        }
    }
    let mut passed = 0;
    for task in tasks {
        passed += task.await.unwrap();
    }
    assert_eq!(passed, 100);
}

/// Streams above the maximum wait in the client, and all are answered.
#[tokio::test]
async fn more_streams_than_allowed() {
    let server = Server::with_rules(RULES).await;
    let mut raw = RawClient::connect(server.address).await;
    // After the first response the client knows the maximum.
    let body = || vec![framed_request(&request([descriptor(&[("user", "first")])]))];
    assert_eq!(raw.call(Call { body: body(), ..Call::default() }).await.unwrap().status(), ("0", ""));
    let calls = (0..600).map(|user: u32| {
        let mut raw = raw.clone_connection();
        let body = vec![framed_request(&request([descriptor(&[("user", &user.to_string())])]))];
        tokio::spawn(async move { raw.call(Call { body, ..Call::default() }).await.unwrap() })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap().status(), ("0", ""));
    }
}

/// A unit comes back every microsecond, so each reading of the clock would show other units left.
#[tokio::test]
async fn calls_that_arrive_together_are_decided_at_one_instant() {
    let rules = "{ domain: api, rules: [ { name: all, key: [user], limit: 1000000 per second } ] }";
    let server = Server::with_rules(rules).await;
    let mut raw = RawClient::connect(server.address).await;
    let body = |user| vec![framed_request(&request([descriptor(&[("user", user)])]))];
    // The connection is open after the first response.
    raw.call(Call { body: body("first"), ..Call::default() }).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        // On one thread, all of them start before the connection writes.
        let mut raw = raw.clone_connection();
        let call = Call { body: body("42"), ..Call::default() };
        calls.spawn(async move { raw.call(call).await.unwrap().body });
    }
    let answers = calls.join_all().await;
    let remaining =
        |answer: &Vec<u8>| RateLimitResponse::decode(&answer[5..]).unwrap().statuses[0].limit_remaining;
    let mut left: Vec<u32> = answers.iter().map(remaining).collect();
    left.sort_unstable();
    assert_eq!(left, (999_992..=999_999).collect::<Vec<u32>>());
}
