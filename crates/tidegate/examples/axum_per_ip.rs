//! An axum server with a limit for each client address: `cargo run --example axum_per_ip --features tower`.

use std::net::SocketAddr;

use axum::{Router, body::Body, extract::ConnectInfo, routing::get};
use tidegate::Limiter;
use tidegate::tower::server::{PerIp, RateLimitLayer};
use tokio::net::TcpListener;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("try: curl -i http://{}/", listener.local_addr()?);
    serve(listener).await
}

/// Serves until the listener fails.
pub async fn serve(listener: TcpListener) -> Result<(), BoxError> {
    // Bursts of 3, then 1 every ten seconds.
    let limiter = Limiter::new("6 per minute burst 3")?;
    let per_ip = PerIp::of(|info: &ConnectInfo<SocketAddr>| info.0.ip());
    let limits = RateLimitLayer::new(limiter, per_ip).keep_body(Body::new);
    let app = Router::new().route("/", get(async || "hello\n")).layer(limits);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
