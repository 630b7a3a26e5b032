//! An axum server with rules: `cargo run --example axum_rules --features tower,rules`.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::{get, post};
use axum::{Extension, Router};
use tidegate::Engine;
use tidegate::identity::{ClientAddress, ForwardedHeader, Identity, Source};
use tidegate::rules;
use tidegate::tower::server::{PeerLookup, RateLimitLayer, RequestAnswer};
use tokio::net::TcpListener;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const RULES: &str = "
domain: api
rules:
  # For each address and user together, so that guessing cannot lock the real user out.
  - name: login
    match: { method: POST, path: /login }
    limits:
      - { key: [ip, user], limit: 3 per minute, algorithm: sliding_window }
  # Half as much again passes, marked.
  - { name: search, match: { path: /search }, key: [ip], limit: 2 per minute, action: { soft: { margin: 50% } } }
  # One at a time for each user, until the response has been sent.
  - { name: reports, match: { path: /report }, key: [user], limit: { algorithm: concurrency, limit: 1, ttl: 1m } }
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("try: curl -i -H 'X-User: ann' -X POST http://{}/login", listener.local_addr()?);
    serve(listener).await
}

/// Serves until the listener fails.
pub async fn serve(listener: TcpListener) -> Result<(), BoxError> {
    let engine = Engine::new(rules::parse("api.yaml", RULES).map_err(|error| error.to_string())?.domains)?;
    // One proxy in front, which appends the client's address and sets the user.
    let identity = Identity::default()
        .with_client_address(ClientAddress::trusted_hops(ForwardedHeader::XForwardedFor, 1))
        .with_user(Source::header("x-user"));
    let limits = RateLimitLayer::by_rules(engine, "api")
        .identity(identity)
        .peer(PeerLookup::in_extension(|info: &ConnectInfo<SocketAddr>| info.0.ip()))
        .keep_body(Body::new);
    let app = Router::new()
        .route("/login", post(async || "welcome\n"))
        .route("/search", get(search))
        .route("/report", get(async || "a report\n"))
        .layer(limits);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// A request that is over a limit, and passes, is marked.
async fn search(answer: Option<Extension<RequestAnswer>>) -> String {
    match answer {
        Some(Extension(answer)) => {
            format!("fewer results, because the request is {}\n", answer.kind.as_str())
        }
        None => "all results\n".to_owned(),
    }
}
