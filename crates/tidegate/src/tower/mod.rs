//! Layers for HTTP servers and clients (feature `tower`).

pub mod client;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
