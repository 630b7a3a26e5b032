//! The layers for servers and clients. Most tests run on a manual clock, without sockets; `examples` runs real servers.

mod cache;
mod fleet;
mod retry;
mod server;
mod shared_store;
mod slots;

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use tower::{Service, ServiceExt};

/// A request without a body.
pub type EmptyRequest = Request<Empty<Bytes>>;

pub fn get(uri: &str) -> EmptyRequest {
    Request::get(uri).body(Empty::new()).unwrap()
}

pub fn text_response(text: &'static str) -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from_static(text.as_bytes())))
}

/// Calls a service when it is ready.
pub async fn call<S, R>(service: &S, request: R) -> S::Response
where
    S: Service<R, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

/// The text of a response.
pub async fn text<B>(response: Response<B>) -> String
where
    B: http_body::Body,
    B::Error: std::fmt::Debug,
{
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}
