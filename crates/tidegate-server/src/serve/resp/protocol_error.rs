//! What is no command at all: said in the words of Redis where it has them, and then the connection is closed.

use std::fmt;

use super::parse::LengthErrors;

/// What is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// Another protocol is spoken. It gets no answer.
    WrongProtocol(WrongProtocol),
    /// The length of an array goes on and on.
    CountTooLong,
    /// The length of an array is no number, or there are too many arguments.
    InvalidCount,
    /// Too many arguments for somebody who has yet to say the password.
    UnauthenticatedArguments,
    /// The length of a bulk string goes on and on.
    BulkLengthTooLong,
    /// The length of a bulk string is no number, or it is too long.
    InvalidBulkLength,
    /// A bulk string is too long for somebody who has yet to say the password.
    UnauthenticatedBulk,
    /// A bulk string is not where it ends by its length.
    MissingBulkEnd,
    /// There is something else where a bulk string should be.
    ExpectedBulk {
        /// How that begins.
        got: u8,
    },
    /// A line is too long.
    LineTooLong,
    /// A line has too many arguments.
    TooManyLineArguments,
    /// A quote is not closed, or something follows right after it.
    UnbalancedQuotes,
}

/// What is spoken instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongProtocol {
    /// HTTP: maybe a browser that was talked into it by a page from elsewhere.
    Http,
    /// TLS, on a port without it.
    Tls,
}

impl ProtocolError {
    pub(super) const COUNT: LengthErrors =
        LengthErrors { too_long: Self::CountTooLong, invalid: Self::InvalidCount };
    pub(super) const BULK: LengthErrors =
        LengthErrors { too_long: Self::BulkLengthTooLong, invalid: Self::InvalidBulkLength };
}

impl WrongProtocol {
    /// As it is written in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Tls => "tls",
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        f.write_str(match self {
            Self::WrongProtocol(foreign) => return write!(f, "this is {}", foreign.as_str()),
            Self::ExpectedBulk { got } => {
                // A line break would end the message.
                let got = if got.is_ascii_graphic() { char::from(*got) } else { '?' };
                return write!(f, "expected '$', got '{got}'");
            }
            Self::CountTooLong => "too big mbulk count string",
            Self::InvalidCount => "invalid multibulk length",
            Self::UnauthenticatedArguments => "unauthenticated multibulk length",
            Self::BulkLengthTooLong => "too big bulk count string",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::UnauthenticatedBulk => "unauthenticated bulk length",
            Self::MissingBulkEnd => "bulk string without CRLF at its end",
            Self::LineTooLong => "too big inline request",
            Self::TooManyLineArguments => "too many arguments in inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
        })
    }
}

impl std::error::Error for ProtocolError {}
