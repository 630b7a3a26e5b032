//! A raw HTTP/2 client that can send invalid data.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, StatusCode};
use prost::Message as _;
use tokio::net::TcpStream;

pub const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Timeout of all tests.
pub const LONG: Duration = Duration::from_secs(60);

pub struct RawClient {
    pub h2: SendRequest<Bytes>,
    pub closed: tokio::task::JoinHandle<Result<(), h2::Error>>,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub http: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: HeaderMap,
}

pub struct Call<'c> {
    pub method: Method,
    pub path: &'c str,
    pub headers: Vec<(&'static str, &'c str)>,
    /// The body, in pieces.
    pub body: Vec<Bytes>,
    /// Whether the end of the body is sent.
    pub ends: bool,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self {
            method: Method::POST,
            path: SHOULD_RATE_LIMIT,
            headers: vec![("content-type", "application/grpc")],
            body: Vec::new(),
            ends: true,
        }
    }
}

pub fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap();
    [&[0][..], &length.to_be_bytes(), message].concat().into()
}

pub fn framed_request(request: &RateLimitRequest) -> Bytes {
    framed(&request.encode_to_vec())
}

impl RawClient {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        // Room for many small responses: with little room, h2's client takes them for an attack.
        let mut builder = h2::client::Builder::new();
        builder.initial_connection_window_size(4 << 20);
        let (h2, connection) = builder.handshake(stream).await.unwrap();
        Self { h2, closed: tokio::spawn(connection) }
    }

    /// Another handle of the same connection, for a concurrent call.
    pub fn clone_connection(&self) -> Self {
        Self { h2: self.h2.clone(), closed: tokio::spawn(async { Ok(()) }) }
    }

    pub async fn call(&mut self, call: Call<'_>) -> Result<Answer, h2::Error> {
        let send = self.send(call);
        tokio::time::timeout(LONG, send).await.expect("no response in time")
    }

    async fn send(&mut self, call: Call<'_>) -> Result<Answer, h2::Error> {
        let mut request =
            Request::builder().method(call.method).uri(format!("http://localhost{}", call.path));
        for (name, value) in &call.headers {
            request = request.header(*name, *value);
        }
        let mut h2 = self.h2.clone().ready().await?;
        let (response, mut body) =
            h2.send_request(request.body(()).unwrap(), call.body.is_empty() && call.ends)?;
        let count = call.body.len();
        for (index, piece) in call.body.into_iter().enumerate() {
            // The server may have answered already and stopped reading.
            if body.send_data(piece, call.ends && index + 1 == count).is_err() {
                break;
            }
        }
        let (head, mut stream) = response.await?.into_parts();
        let mut received = Vec::new();
        while let Some(bytes) = stream.data().await {
            let bytes = bytes?;
            stream.flow_control().release_capacity(bytes.len())?;
            received.extend_from_slice(&bytes);
        }
        let trailers = stream.trailers().await?.unwrap_or_default();
        Ok(Answer { http: head.status, headers: head.headers, body: received, trailers })
    }
}

impl Answer {
    /// The code and the message, from the headers or the trailers.
    pub fn status(&self) -> (&str, &str) {
        let of = |name| {
            self.trailers.get(name).or(self.headers.get(name)).map_or("", |value| value.to_str().unwrap())
        };
        (of("grpc-status"), of("grpc-message"))
    }
}
