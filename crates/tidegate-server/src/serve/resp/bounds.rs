//! Timeouts and sizes of a connection.

use std::time::Duration;

/// Timeouts and sizes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespBounds {
    /// How long a connection may stay open without a command or with an incomplete one; `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// The same before the first command, or before the password if one is required.
    pub unused_timeout: Option<Duration>,
    /// How long a command may take to arrive after its first bytes.
    pub command_timeout: Duration,
    /// How long a client may leave replies unread, once they no longer fit into the socket's buffers.
    pub write_timeout: Duration,
    /// The server neither reads nor runs commands while this many bytes of replies are unread.
    pub output_bytes_max: usize,
    /// The connection yields to other tasks after this many commands.
    pub commands_per_turn_max: usize,
}

impl Default for RespBounds {
    fn default() -> Self {
        Self {
            idle_timeout: Some(Duration::from_secs(300)),
            unused_timeout: Some(Duration::from_secs(300)),
            command_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            output_bytes_max: 1 << 20,
            commands_per_turn_max: 1_024,
        }
    }
}
