//! The health service.

use std::collections::HashMap;

use prost::Message as _;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::raw_client::{Call, RawClient, framed};
use crate::grpc::server::Server;

const RULES: &str = "domain: api\nrules: []";

fn health_request(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn the_server_and_each_of_its_services() {
    let server = Server::with_rules(RULES).await;
    let mut client = HealthClient::new(server.channel().await);
    for service in ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"] {
        let answer = client.check(health_request(service)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let status = client.check(health_request("nope")).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().contains("there is no service `nope`"));
}

/// tonic's client does not have it yet.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthListResponse {
    #[prost(map = "string, message", tag = "1")]
    statuses: HashMap<String, HealthCheckResponse>,
}

#[tokio::test]
async fn list_returns_all_services() {
    let server = Server::with_rules(RULES).await;
    let mut raw = RawClient::connect(server.address).await;
    let call = Call { path: "/grpc.health.v1.Health/List", body: vec![framed(b"")], ..Call::default() };
    let answer = raw.call(call).await.unwrap();
    assert_eq!(answer.status().0, "0");
    let list = HealthListResponse::decode(&answer.body[5..]).unwrap();
    assert_eq!(list.statuses.len(), 5);
    assert!(list.statuses.values().all(|one| one.status() == ServingStatus::Serving));
}

#[tokio::test]
async fn a_watcher_is_told_of_the_drain() {
    let server = Server::with_rules(RULES).await;
    let mut client = HealthClient::new(server.channel().await);
    let mut watched = client.watch(health_request("")).await.unwrap().into_inner();
    let mut unknown = client.watch(health_request("nope")).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    assert_eq!(unknown.message().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    server.app.drain.begin();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert_eq!(watched.message().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(unknown.message().await.unwrap_err().code(), Code::Unavailable);
}
