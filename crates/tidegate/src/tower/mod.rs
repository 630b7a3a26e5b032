//! Layers for HTTP servers and clients (feature `tower`): axum, tonic, hyper, reqwest.
//!
//! [`server`] limits the requests of a server. [`client`] keeps a client within the limits of other servers. Both work on
//! any runtime. `docs/tower.md` in the repository shows programs.

pub mod client;
pub mod server;

pub use tidegate_core::AnswerKind;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
