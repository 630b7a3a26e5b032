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
pub use commands::{BadThrottle, Quota, Throttled, Throttles};
pub use parse::{
    ARGUMENTS_MAX, Arguments, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, Parsed, Parser, STRANGER_ARGUMENTS_MAX,
    STRANGER_BYTES_MAX, Trust,
};
pub use protocol_error::{Foreign, ProtocolError};
pub use reply::{Replies, Version};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use super::listening::{Serves, Stream};
use super::settings::Secret;
use super::{App, Protocol};
use foreigners::Foreigners;

/// Speaks the protocol of Redis.
pub struct Resp {
    server: Server,
}

/// What all connections share.
struct Server {
    app: Arc<App>,
    bounds: RespBounds,
    password: Option<Secret>,
    started: Instant,
    connections: AtomicU64,
    foreigners: Foreigners,
}

impl Resp {
    /// In front of this, without a password.
    pub fn new(app: Arc<App>) -> Self {
        Self::with(app, RespBounds::default(), None)
    }

    /// In front of this, for clients that say the password, if there is one.
    pub fn with(app: Arc<App>, bounds: RespBounds, password: Option<Secret>) -> Self {
        let server = Server {
            app,
            bounds,
            password,
            started: Instant::now(),
            connections: AtomicU64::new(0),
            foreigners: Foreigners::default(),
        };
        Self { server }
    }
}

impl Serves for Resp {
    const PROTOCOL: Protocol = Protocol::Resp;

    async fn serve(&self, stream: Stream) {
        let id = self.server.connections.fetch_add(1, Ordering::Relaxed) + 1;
        connection::serve(&self.server, stream, id).await;
    }
}

impl Server {
    /// What a connection is trusted with that was just opened.
    fn trust_at_first(&self) -> Trust {
        if self.password.is_some() { Trust::Stranger } else { Trust::Known }
    }
}
