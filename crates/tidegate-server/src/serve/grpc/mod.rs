//! The gRPC listener: Envoy's rate limit service, health and reflection.
//!
//! ```text
//! connection.rs   HTTP/2 by the crate h2; everything of a connection in one task       ->  streams
//! bell.rs         what wakes that task; idle.rs when it is about to end
//! head.rs         which method, from the headers                                       ->  Method
//! framing.rs      a message out of a body                                              ->  bytes
//! messages/       protobuf, by wire/                                                   ->  RlsRequest
//! serve/rls       the decision                                                         ->  RlsResponse
//! messages/, framing.rs, status.rs                                                     ->  frames
//! calls/          what takes longer: half a body, a request that is held, a stream of answers
//! ```
//!
//! A connection first takes all streams that have arrived, then answers all of them, and only then writes: so what
//! came together leaves together, with one call of the kernel. Nothing is spawned for a stream.

mod bell;
mod calls;
mod connection;
mod framing;
mod head;
mod health;
mod idle;
mod messages;
mod reflection;
mod status;
mod wire;

use std::sync::Arc;

use super::listening::{ConnectionHandler, Stream};
use super::rls::Details;
use super::{App, Bounds, Protocol};
pub use connection::{HEADER_LIST_BYTES_MAX, KEPT_BYTES_MAX, STREAMS_MAX};
use status::GrpcStatus;

/// Speaks gRPC.
pub struct Grpc {
    shared: Arc<GrpcShared>,
}

/// What all connections share.
struct GrpcShared {
    app: Arc<App>,
    bounds: Bounds,
    details: Details,
}

impl Grpc {
    /// In front of this.
    pub fn new(app: Arc<App>) -> Self {
        Self::with_options(app, Bounds::default(), Details::default())
    }

    /// In front of this, within these bounds, with so much said in headers and metadata.
    pub fn with_options(app: Arc<App>, bounds: Bounds, details: Details) -> Self {
        Self { shared: Arc::new(GrpcShared { app, bounds, details }) }
    }
}

impl GrpcShared {
    /// A call came to nothing, for this reason.
    fn count_rejected(&self, status: &GrpcStatus) {
        self.app.metrics.count_rejected_request(Protocol::Grpc, status.code.as_str());
    }
}

impl ConnectionHandler for Grpc {
    const PROTOCOL: Protocol = Protocol::Grpc;

    async fn serve(&self, stream: Stream) {
        connection::serve(stream, Arc::clone(&self.shared)).await;
    }
}
