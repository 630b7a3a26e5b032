//! Envoy's rate limit service on tonic, like its generated code. It always sends the same answer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use http::{Request, Response};
use prost::Message;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic_prost::ProstCodec;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const OK: i32 = 1;

#[derive(Clone, PartialEq, Message)]
struct RateLimitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<DescriptorStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(uint32, tag = "3")]
    limit_remaining: u32,
}

#[derive(Clone)]
struct RateLimitService;

/// The only method of the service.
struct ShouldRateLimit;

/// Serves until the process is killed.
pub(super) async fn serve(address: SocketAddr) -> Result<(), tonic::transport::Error> {
    // tonic sets TCP_NODELAY by default.
    Server::builder().add_service(RateLimitService).serve(address).await
}

impl NamedService for RateLimitService {
    const NAME: &'static str = "envoy.service.ratelimit.v3.RateLimitService";
}

impl tonic::codegen::Service<Request<Body>> for RateLimitService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move {
            if request.uri().path() != SHOULD_RATE_LIMIT {
                return Ok(tonic::Status::unimplemented("").into_http());
            }
            Ok(Grpc::new(ProstCodec::default()).unary(ShouldRateLimit, request).await)
        })
    }
}

impl UnaryService<RateLimitRequest> for ShouldRateLimit {
    type Response = RateLimitResponse;
    type Future = BoxFuture<tonic::Response<RateLimitResponse>, tonic::Status>;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> Self::Future {
        Box::pin(async move {
            let status = DescriptorStatus { code: OK, limit_remaining: 999 };
            let statuses = vec![status; request.into_inner().descriptors.len()];
            Ok(tonic::Response::new(RateLimitResponse { overall_code: OK, statuses }))
        })
    }
}
