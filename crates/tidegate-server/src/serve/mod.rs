//! The server: listeners in front of one decision engine.
//!
//! A check over HTTP goes through these functions:
//!
//! ```text
//! listen/accept.rs     Listener::run      accepts a connection, within --connections-max, and spawns its task
//!                      accept_tls         does the TLS handshake, if the address has `tls:`       ->  Stream
//! http/connection.rs   serve              reads requests one after the other, within time and size bounds
//! http/mod.rs          Http::handle       finds the route and reads the body                      ->  bytes
//! http/check.rs        check              parses the JSON                                         ->  Request
//! app.rs               App::check_with    asks the engine (Engine::decide_with)                   ->  DecideOutput
//!                      App::finish_check  waits for the decision, if it is not ready              ->  DecideOutput
//!                      App::record        counts the decision and logs a denial
//! http/answer_reply.rs answer_reply       status, headers and JSON                                ->  bytes
//! ```
//!
//! gRPC takes the same path from `grpc/connection.rs` over `rls/decide.rs`, and RESP from `resp/connection.rs` over
//! `resp/commands/`. Listeners see answers, never rules. Only a listener knows its wire format.
//!
//! A connection is one task. No task is spawned for a request. Requests that arrive together are answered with one
//! write. A request that is not decided immediately, because a rule delays it or a shared store is asked, is a future
//! that borrows nothing and stays with its connection. `run/` starts and stops all of this.

pub mod app;
pub mod connections_memory;
pub mod denial_log;
pub mod drain;
pub mod failed_logins;
pub mod fleet;
mod future_set;
pub mod grpc;
pub mod headers;
pub mod http;
mod lease_store;
mod line_limiter;
pub mod listen;
pub mod log;
mod matched_counts;
pub mod metrics;
pub mod override_edits;
mod poll_on_wake;
pub mod protocol;
pub mod reload_handle;
pub mod resp;
pub mod rls;
pub mod rounding;
mod run;
pub mod settings;
mod shared_instant;
pub mod status;
pub mod stored_rules;
pub mod token_keys;
pub mod unknown_domains;

pub use app::App;
pub use drain::Drain;
pub use fleet::Fleet;
pub use lease_store::LeaseStore;
pub use protocol::Protocol;
pub use reload_handle::ReloadHandle;
pub use run::main;
pub use settings::{Bounds, CountingMode, ForwardAuthSource, Secret, ServeArgs};
pub use shared_instant::{DECISIONS_PER_READING_MAX, SharedInstant};
pub use status::Status;
