//! Protocol errors. Their texts are those of Redis where Redis has one. The connection is closed after the error.

use std::fmt;

use super::parse::LengthErrors;

/// Why input is not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The client speaks another protocol. It gets no reply.
    WrongProtocol(WrongProtocol),
    /// The length of an array has too many digits.
    CountTooLong,
    /// The length of an array is not a number, or there are too many arguments.
    InvalidCount,
    /// Too many arguments before authentication.
    UnauthenticatedArguments,
    /// The length of a bulk string has too many digits.
    BulkLengthTooLong,
    /// The length of a bulk string is not a number or too large.
    InvalidBulkLength,
    /// A bulk string is too long before authentication.
    UnauthenticatedBulk,
    /// A bulk string does not end with CRLF.
    MissingBulkEnd,
    /// Another type where a bulk string is expected.
    ExpectedBulk {
        /// Its first byte.
        got: u8,
    },
    /// A line is too long.
    LineTooLong,
    /// A line has too many arguments.
    TooManyLineArguments,
    /// A quote is not closed, or not followed by a space.
    UnbalancedQuotes,
}

/// The protocol that the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongProtocol {
    /// HTTP, possibly from a browser that a web page abuses.
    Http,
    /// TLS on a port without TLS.
    Tls,
}

impl ProtocolError {
    pub(super) const COUNT: LengthErrors =
        LengthErrors { too_long: Self::CountTooLong, invalid: Self::InvalidCount };
    pub(super) const BULK: LengthErrors =
        LengthErrors { too_long: Self::BulkLengthTooLong, invalid: Self::InvalidBulkLength };
}

impl WrongProtocol {
    /// The name in logs and metrics.
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
            Self::WrongProtocol(protocol) => return write!(f, "this is {}", protocol.as_str()),
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
