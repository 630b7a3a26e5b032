//! What a connection may take.

use std::time::Duration;

use crate::json::REQUEST_BYTES_MAX;

/// What a connection may take, in time and in bytes. The same for all listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long a request may take to arrive, from its first byte to its last.
    pub header_timeout: Duration,
    /// How long a connection may stay open with nothing asked on it.
    pub idle_timeout: Duration,
    /// The largest body of a request, in bytes.
    pub body_bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            body_bytes_max: REQUEST_BYTES_MAX,
        }
    }
}
