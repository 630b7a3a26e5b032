//! The Redis protocol: RESP2 and RESP3, for clients that are there already.
//!
//! ```text
//! connection.rs   reads, and answers all that was read with one write
//! parse.rs        bytes  ->  arguments, which point into what was read; inline.rs for what is typed by hand
//! commands/       arguments  ->  an answer, or a request to be decided
//! reply.rs        answers  ->  bytes
//! deciding.rs     a request that is decided in this process; held.rs while a rule holds it, and its client may go away
//! together.rs     requests that a store is asked together, where it is not in this process
//! ```

mod bounds;
mod buffer;
mod commands;
mod connection;
mod decisions;
mod foreigners;
mod held;
mod idle;
mod inline;
mod input;
mod output;
mod parse;
mod protocol_error;
mod reply;
mod session;
mod together;

pub use bounds::RespBounds;
pub use commands::{ThrottleError, Quota, ThrottleAnswer, ThrottleCache};
pub use parse::{
    ARGUMENTS_MAX, Arguments, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, Parsed, Parser, UNAUTHENTICATED_ARGUMENTS_MAX,
    UNAUTHENTICATED_BYTES_MAX, AuthState,
};
pub use protocol_error::{WrongProtocol, ProtocolError};
pub use reply::{Replies, RespVersion};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use super::listening::{ConnectionHandler, Stream};
use super::settings::Secret;
use super::{App, Protocol};
use foreigners::WrongProtocolLog;

/// Speaks the protocol of Redis.
pub struct Resp {
    shared: RespShared,
}

/// What all connections share.
struct RespShared {
    app: Arc<App>,
    bounds: RespBounds,
    password: Option<Secret>,
    started: Instant,
    connections: AtomicU64,
    wrong_protocol_log: WrongProtocolLog,
}

impl Resp {
    /// In front of this, without a password.
    pub fn new(app: Arc<App>) -> Self {
        Self::with_options(app, RespBounds::default(), None)
    }

    /// In front of this, for clients that say the password, if there is one.
    pub fn with_options(app: Arc<App>, bounds: RespBounds, password: Option<Secret>) -> Self {
        let server = RespShared {
            app,
            bounds,
            password,
            started: Instant::now(),
            connections: AtomicU64::new(0),
            wrong_protocol_log: WrongProtocolLog::default(),
        };
        Self { shared: server }
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
    /// What a connection is trusted with that was just opened.
    fn initial_auth(&self) -> AuthState {
        if self.password.is_some() { AuthState::Unauthenticated } else { AuthState::Authenticated }
    }
}
