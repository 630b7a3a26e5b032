//! A client of reqwest that keeps to the limits of a server: `cargo run --example polite_client --features tower`.

use std::sync::Arc;
use std::time::Duration;

use axum::{Router, http::header::CACHE_CONTROL, routing::get};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use tidegate::tower::client::{CacheLayer, PacerLayer, ReplayBody, RetryLayer};
use tidegate::tower::server::{OneKey, RateLimitLayer};
use tidegate::{Limiter, Pacer};
use tokio::net::TcpListener;
use tower::{Service, ServiceBuilder, ServiceExt};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(serve(listener));
    println!("{} pages", run(&url).await?);
    Ok(())
}

/// Reads pages. Returns how many.
pub async fn run(url: &str) -> Result<usize, BoxError> {
    let pacer = Arc::new(Pacer::new("200/s")?);
    let mut client = ServiceBuilder::new()
        .layer(CacheLayer::new())
        .layer(RetryLayer::new().deadline(Duration::from_secs(20)))
        .layer(PacerLayer::new(pacer))
        // reqwest has request and response types of its own.
        .map_request(|request: Request<ReplayBody<Empty<Bytes>>>| {
            reqwest::Request::try_from(request.map(reqwest::Body::wrap)).expect("the URL is complete")
        })
        .map_response(Response::<reqwest::Body>::from)
        .service(reqwest::Client::new());
    let mut pages = 0;
    for page in ["/1", "/2", "/3", "/4", "/5", "/1", "/2", "/3", "/4", "/5"] {
        // The server allows 3 a second. The client waits, and reads no page twice.
        let request = Request::get(format!("{url}{page}")).body(Empty::new())?;
        let response = client.ready().await?.call(request).await?;
        assert_eq!(response.status(), 200);
        let text = response.into_body().collect().await?.to_bytes();
        println!("{page}: {}", String::from_utf8_lossy(&text));
        pages += 1;
    }
    Ok(pages)
}

/// A server with a limit, whose pages may be cached.
pub async fn serve(listener: TcpListener) -> Result<(), BoxError> {
    let limits = RateLimitLayer::new(Limiter::new("3 per second")?, OneKey);
    let page = get(async || ([(CACHE_CONTROL, "max-age=60")], "a page"));
    axum::serve(listener, Router::new().route("/{page}", page).layer(limits)).await?;
    Ok(())
}
