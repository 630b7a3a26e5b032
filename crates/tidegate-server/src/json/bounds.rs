//! The bounds of a request, in JSON and in protobuf.

use std::sync::OnceLock;

/// The bounds of a request. envoyproxy/ratelimit has none besides the size of a gRPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestBounds {
    /// Maximum size, in bytes of JSON or protobuf.
    pub request_bytes_max: usize,
    /// Maximum number of descriptors.
    pub descriptors_max: usize,
    /// Maximum number of entries in a descriptor.
    pub entries_max: usize,
}

impl Default for RequestBounds {
    fn default() -> Self {
        Self { request_bytes_max: 4 << 20, descriptors_max: 1_000, entries_max: 1_000 }
    }
}

/// Set once, before the server listens. Global, because each reader of a request, on each listener and in the other
/// commands, has the same bounds, and the visitors of a parser have no other way to them.
static BOUNDS: OnceLock<RequestBounds> = OnceLock::new();

/// The bounds of all requests.
#[inline]
pub fn request_bounds() -> RequestBounds {
    BOUNDS.get().copied().unwrap_or_default()
}

/// Sets the bounds of all requests. Later calls change nothing.
pub fn set_request_bounds(bounds: RequestBounds) {
    // Already set: a process has one server.
    let _ = BOUNDS.set(bounds);
}
