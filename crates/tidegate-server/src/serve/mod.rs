//! The server: listeners in front of one decision engine.
//!
//! ```text
//! listening/  a socket: TCP, TLS or Unix, so many connections at most        ->  Stream
//! http/ grpc/ resp/   bytes of one protocol                                  ->  Request
//! app.rs      the decision, counted and logged                               ->  Decided
//! http/ grpc/ resp/   the answer in the words of that protocol               ->  bytes
//! ```
//!
//! Listeners never see rules, only answers; nothing outside a listener knows its wire format.

pub mod admin;
pub mod app;
pub mod drain;
pub mod fleet;
pub mod grpc;
pub mod http;
pub mod headers;
pub mod listening;
pub mod logs;
pub mod metrics;
pub mod protocol;
pub mod reloads;
pub mod resp;
pub mod rls;
pub mod rounded;
mod run;
pub mod settings;
mod sleepers;
pub mod status;
#[cfg(test)]
mod wakes;
mod when_woken;

pub use app::App;
pub use drain::Drain;
pub use fleet::Fleet;
pub use protocol::Protocol;
pub use reloads::ReloadHandle;
pub use run::main;
pub use settings::{Bounds, Secret, ServeArgs};
pub use status::Status;
