//! A gRPC server with a limit for each client address: `cargo run --example tonic_server --features tower`.

use std::time::Duration;

use tidegate::Limiter;
use tidegate::tower::server::{PeerLookup, PerIp, RateLimitLayer};
use tonic::transport::Server;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let incoming = TcpIncoming::bind("127.0.0.1:50051".parse()?)?;
    println!("serves grpc.health.v1.Health on {}", incoming.local_addr()?);
    serve(incoming).await
}

/// Serves until the listener fails.
pub async fn serve(incoming: TcpIncoming) -> Result<(), BoxError> {
    // Bursts of 2, then 1 a second. A caller over the limit gets RESOURCE_EXHAUSTED.
    let limiter = Limiter::new("1 per second burst 2")?;
    let peer = PeerLookup::by(|extensions| Some(extensions.get::<TcpConnectInfo>()?.remote_addr()?.ip()));
    let (health, service) = tonic_health::server::health_reporter();
    health.set_service_status("shop", tonic_health::ServingStatus::Serving).await;
    Server::builder()
        .timeout(Duration::from_secs(10))
        .layer(RateLimitLayer::new(limiter, PerIp::with_peer(peer)))
        .add_service(service)
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}
