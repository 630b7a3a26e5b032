//! The gRPC listener: Envoy's rate limit service, health and reflection.
//!
//! ```text
//! connection.rs   HTTP/2 by the crate h2; one task per connection    ->  streams
//! method.rs       the method, from the headers                       ->  GrpcMethod
//! framing.rs      splits a body into messages                        ->  bytes
//! messages/       decodes protobuf with wire/                        ->  RlsRequest
//! serve/rls       decides                                            ->  RlsResponse
//! messages/, framing.rs, status.rs   encode the response             ->  frames
//! calls/          calls that are not answered immediately: incomplete bodies, waiting requests, streams
//! unsent.rs       counts the bytes of responses that h2 has not written yet
//! wake_flag.rs    wakes the connection's task; idle.rs closes or pings idle connections
//! ```
//!
//! The listener uses h2 and not tonic, because tonic answers stream by stream, which costs one write each. A connection
//! accepts all streams that have arrived, answers them, and only then lets h2 write, so their responses leave with one
//! system call. (h2 writes whenever it is polled for the next stream.) Nothing is spawned for a stream.
//!
//! Protobuf is read and written by hand (`wire/`). A request borrows from the bytes of its message, so its fields need
//! no allocation. The descriptors for reflection are tables (`reflection/`), so the build needs no protobuf compiler.
//! Tests compare messages and descriptors with the published ones.
//!
//! A call that has to wait, for a rule with `delay` or for a shared store, does not block other calls of its
//! connection. Its future stays with the connection and leaves the wait queue when the client goes away. Each waiting
//! call has its own waker (`serve/future_set.rs`), so only calls that were woken are polled.
//!
//! A connection has one timer, which is set again when it fires and not for each request. It checks for a drain only
//! when it is woken for one: a shared lock for each request would be most of what a connection costs.

mod calls;
mod connection;
mod framing;
mod health;
mod idle;
mod messages;
mod method;
mod reflection;
mod status;
mod unsent;
mod wake_flag;
mod wire;

use std::sync::Arc;

use super::listen::{ConnectionHandler, Stream};
use super::rls::Details;
use super::{App, Bounds, Protocol};
use status::GrpcStatus;

pub use connection::{HEADER_LIST_BYTES_MAX, KEPT_BYTES_MAX, STREAMS_MAX};

/// The gRPC listener.
pub struct Grpc {
    shared: Arc<GrpcShared>,
}

/// State shared by all connections.
struct GrpcShared {
    app: Arc<App>,
    bounds: Bounds,
    details: Details,
}

impl Grpc {
    /// With the default bounds and details.
    pub fn new(app: Arc<App>) -> Self {
        Self::with_options(app, Bounds::default(), Details::default())
    }

    /// With these bounds. `details` selects the headers and metadata of responses.
    pub fn with_options(app: Arc<App>, bounds: Bounds, details: Details) -> Self {
        Self { shared: Arc::new(GrpcShared { app, bounds, details }) }
    }
}

impl GrpcShared {
    /// Counts a call that ended with an error.
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
