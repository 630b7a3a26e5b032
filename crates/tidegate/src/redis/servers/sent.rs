//! What is sent to a server, and what becomes of it.

/// A command, and the slot that its keys are in.
#[derive(Clone, Debug)]
pub(in crate::redis) struct SlotCommand {
    pub slot: u16,
    pub command: redis::Cmd,
}

/// Why there is no reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::redis) enum SendError {
    /// No reply in time, or the connection went away before it. It may have been carried out, and is never sent again.
    NoReply,
    /// It was not sent: the server has not answered for a while, or there is no connection to it.
    Away,
    /// It was not sent: too many rounds are in flight to this server already.
    Overloaded,
    /// The server said that it cannot, and did nothing.
    Refused(Box<str>),
}
