//! A server of plain hyper with a limit for each client address: `cargo run --example hyper_server --features tower`.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tidegate::Limiter;
use tidegate::tower::server::{PeerAddress, PeerLookup, PerIp, RateLimitLayer};
use tokio::net::TcpListener;
use tower::{Layer, ServiceExt, service_fn};

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
    // It finds the `PeerAddress` that is inserted below.
    let per_ip = PerIp::with_peer(PeerLookup::default());
    let service = RateLimitLayer::new(limiter, per_ip).layer(service_fn(hello));
    loop {
        let (stream, peer) = listener.accept().await?;
        let service = service.clone();
        let answer = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(PeerAddress(peer.ip()));
            service.clone().oneshot(request)
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello\n")))
}
