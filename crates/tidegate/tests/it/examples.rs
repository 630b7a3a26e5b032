//! Runs the examples.

#![allow(dead_code, unused_imports, reason = "an example has a main function, which its test does not call")]

#[cfg(feature = "tower")]
#[path = "../../examples/axum_per_ip.rs"]
mod axum_per_ip;
#[cfg(all(feature = "rules", feature = "tower"))]
#[path = "../../examples/axum_rules.rs"]
mod axum_rules;
#[cfg(feature = "redis")]
#[path = "../../examples/fleet.rs"]
mod fleet;
#[cfg(feature = "tower")]
#[path = "../../examples/hyper_server.rs"]
mod hyper_server;
#[path = "../../examples/limiter.rs"]
mod limiter;
#[cfg(feature = "redis")]
#[path = "../../examples/lock.rs"]
mod lock;
#[cfg(feature = "tower")]
#[path = "../../examples/polite_client.rs"]
mod polite_client;
#[cfg(feature = "rules")]
#[path = "../../examples/rules_reload.rs"]
mod rules_reload;
#[cfg(feature = "tower")]
#[path = "../../examples/tonic_server.rs"]
mod tonic_server;

#[test]
fn a_limiter_in_memory() {
    limiter::run().unwrap();
}

#[cfg(feature = "rules")]
#[test]
fn rules_that_are_replaced() {
    rules_reload::run().unwrap();
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_fleet_on_redis() {
    let server = tidegate_testing::redis_server::RedisServer::start(&[]);
    assert_eq!(fleet::run(&server.url()).await.unwrap(), 30);
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_lock_on_redis() {
    let server = tidegate_testing::redis_server::RedisServer::start(&[]);
    lock::run(&server.url()).await.unwrap();
}

#[cfg(feature = "tower")]
mod over_http {
    use tokio::net::TcpListener;

    async fn listen() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (listener, url)
    }

    #[tokio::test]
    async fn axum_with_a_limit_per_address() {
        let (listener, url) = listen().await;
        let server = tokio::spawn(super::axum_per_ip::serve(listener));
        assert_three_requests_pass(&url).await;
        server.abort();
    }

    #[tokio::test]
    async fn hyper_with_a_limit_per_address() {
        let (listener, url) = listen().await;
        let server = tokio::spawn(super::hyper_server::serve(listener));
        assert_three_requests_pass(&url).await;
        server.abort();
    }

    async fn assert_three_requests_pass(url: &str) {
        for remaining in ["2", "1", "0"] {
            let response = reqwest::get(url).await.unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["x-ratelimit-remaining"], remaining);
        }
        let denied = reqwest::get(url).await.unwrap();
        assert_eq!(denied.status(), 429);
        assert_eq!(denied.headers()["retry-after"], "10");
        assert_eq!(denied.headers()["content-type"], "application/problem+json");
    }

    #[cfg(feature = "rules")]
    #[tokio::test]
    async fn axum_with_rules() {
        let (listener, url) = listen().await;
        let server = tokio::spawn(super::axum_rules::serve(listener));
        let client = reqwest::Client::new();
        let login = |address: &'static str, path: &str| {
            let request = client.post(format!("{url}{path}"));
            request.header("x-forwarded-for", address).header("x-user", "ann").send()
        };
        for path in ["/login", "//login", "/%6cogin"] {
            // axum itself knows only the first spelling, but all of them are counted.
            assert_ne!(login("192.0.2.1", path).await.unwrap().status(), 429, "{path}");
        }
        let denied = login("192.0.2.1", "/login").await.unwrap();
        assert_eq!(denied.status(), 429);
        assert!(denied.text().await.unwrap().contains("login/1"));
        assert_eq!(login("192.0.2.2", "/login").await.unwrap().status(), 200, "another address");
        assert_eq!(login("192.0.2.2", "/%2flogin").await.unwrap().status(), 400);

        let search = || client.get(format!("{url}/search")).header("x-forwarded-for", "192.0.2.1").send();
        for expected in ["all results\n", "all results\n", "fewer results, because the request is soft\n"] {
            assert_eq!(search().await.unwrap().text().await.unwrap(), expected);
        }
        assert_eq!(search().await.unwrap().status(), 429);
        server.abort();
    }

    #[tokio::test]
    async fn a_polite_client_of_reqwest() {
        let (listener, url) = listen().await;
        let server = tokio::spawn(super::polite_client::serve(listener));
        assert_eq!(super::polite_client::run(&url).await.unwrap(), 10);
        server.abort();
    }

    #[tokio::test]
    async fn tonic_with_a_limit_per_address() {
        use tonic_health::pb::HealthCheckRequest;
        use tonic_health::pb::health_client::HealthClient;

        let incoming = tonic::transport::server::TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = format!("http://{}", incoming.local_addr().unwrap());
        let server = tokio::spawn(super::tonic_server::serve(incoming));
        let channel = tonic::transport::Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let mut client = HealthClient::new(channel);
        let mut check = async || client.check(HealthCheckRequest { service: "shop".to_owned() }).await;
        check().await.unwrap();
        check().await.unwrap();
        let denied = check().await.unwrap_err();
        assert_eq!(denied.code(), tonic::Code::ResourceExhausted);
        assert_eq!(denied.message(), "the limit is exceeded; try again in 1 s");
        assert_eq!(denied.metadata().get("retry-after").unwrap(), "1");
        server.abort();
    }

    #[tokio::test]
    async fn a_polite_client_of_tonic() {
        use tidegate::tower::client::{ReplayBody, RetryLayer};
        use tonic::body::Body;
        use tonic_health::pb::HealthCheckRequest;
        use tonic_health::pb::health_client::HealthClient;

        let incoming = tonic::transport::server::TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = format!("http://{}", incoming.local_addr().unwrap());
        let server = tokio::spawn(super::tonic_server::serve(incoming));
        let channel = tonic::transport::Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let channel = tower::ServiceBuilder::new()
            .layer(RetryLayer::new())
            .map_request(|request: http::Request<ReplayBody<Body>>| request.map(Body::new))
            .service(channel);
        let mut client = HealthClient::new(channel);
        // The server allows two at once, and then one a second.
        for _ in 0..3 {
            client.check(HealthCheckRequest { service: "shop".to_owned() }).await.unwrap();
        }
        server.abort();
    }
}
