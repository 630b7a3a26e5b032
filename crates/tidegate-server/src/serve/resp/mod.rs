//! The Redis protocol, RESP2 and RESP3, for existing Redis clients.
//!
//! ```text
//! connection.rs   reads, runs all commands that were read, writes their replies together
//! parse/          bytes  ->  arguments, which point into the input; inline.rs for lines typed by hand
//! commands/       arguments  ->  a reply, or a request to decide
//! reply.rs        replies  ->  bytes
//! in_flight.rs    commands that are answered later
//! transaction.rs  commands between `MULTI` and `EXEC`
//! read_ahead.rs   reads while replies are pending, to notice that a client has gone
//! ```
//!
//! A connection is one task; nothing is spawned for a command. Replies are appended to one buffer, so commands that
//! were read together are answered with one write.
//!
//! A command that is not decided immediately, because a rule delays it or a shared store is asked, becomes a future
//! without borrows. Up to 256 such commands of a connection are in flight together, and their replies keep the order of
//! the commands. Peeks are never in flight together with commands that charge, and a command after a release or a refund
//! waits for it. The futures are polled whether the connection reads or writes, so a client that does not read its
//! replies delays no other client.
//!
//! A connection does not set a timer or take a lock for each command: its idle timer counts ticks, and whether the
//! server drains is an atomic flag.

mod bounds;
mod buffer;
mod commands;
mod connection;
mod decision_counts;
mod idle;
mod in_flight;
mod inline;
mod input;
mod output;
mod parse;
mod protocol_error;
mod read_ahead;
mod reply;
mod session;
mod text_window;
mod transaction;
mod wrong_protocol;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use super::listen::{ConnectionHandler, Stream};
use super::settings::Secret;
use super::{App, Protocol};
use wrong_protocol::WrongProtocolLog;

pub use bounds::RespBounds;
pub use commands::{Quota, ThrottleAnswer, ThrottleCache, ThrottleError};
pub use parse::{
    Arguments, AuthState, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, Parsed, Parser, UNAUTHENTICATED_ARGUMENTS_MAX,
    UNAUTHENTICATED_BYTES_MAX, arguments_max,
};
pub use protocol_error::{ProtocolError, WrongProtocol};
pub use reply::{Replies, RespVersion};

/// What clients authenticate with.
#[derive(Clone, Debug, Default)]
pub struct RespSecrets {
    /// The password that all clients must send, if there is one.
    pub password: Option<Secret>,
    /// The token with which a client may also send the commands of operators.
    pub admin_token: Option<Secret>,
}

/// The RESP listener.
pub struct Resp {
    shared: RespShared,
}

/// State shared by all connections.
struct RespShared {
    app: Arc<App>,
    bounds: RespBounds,
    secrets: RespSecrets,
    started: Instant,
    connections: AtomicU64,
    wrong_protocol_log: WrongProtocolLog,
}

impl Resp {
    /// Without secrets.
    pub fn new(app: Arc<App>) -> Self {
        Self::with_options(app, RespBounds::default(), RespSecrets::default())
    }

    /// With these bounds and secrets.
    pub fn with_options(app: Arc<App>, bounds: RespBounds, secrets: RespSecrets) -> Self {
        let shared = RespShared {
            app,
            bounds,
            secrets,
            started: Instant::now(),
            connections: AtomicU64::new(0),
            wrong_protocol_log: WrongProtocolLog::default(),
        };
        Self { shared }
    }
}

impl ConnectionHandler for Resp {
    const PROTOCOL: Protocol = Protocol::Resp;

    async fn serve(&self, stream: Stream) {
        let id = self.shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        connection::serve(&self.shared, stream, id).await;
    }
}

impl RespShared {
    /// Whether a new connection still has to authenticate.
    fn initial_auth(&self) -> AuthState {
        if self.secrets.password.is_some() { AuthState::Unauthenticated } else { AuthState::Authenticated }
    }
}
