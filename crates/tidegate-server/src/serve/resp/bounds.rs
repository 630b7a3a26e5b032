//! What a connection may take.

use std::time::Duration;

/// What a connection may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespBounds {
    /// How long it may stay open with nothing asked on it, or with a command that does not come to its end; none for as
    /// long as it likes.
    pub idle_timeout: Option<Duration>,
    /// The same before it asked anything, or said the password if there is one.
    pub unused_timeout: Option<Duration>,
    /// How long a command may take to arrive, once its beginning is there.
    pub command_timeout: Duration,
    /// How long a client may leave its answers unread, if there are more than fit on the way.
    pub write_timeout: Duration,
    /// No more is answered, nor read, while so many bytes of answers wait to be read.
    pub output_bytes_max: usize,
    /// After so many commands in a row it is others' turn.
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
