//! What is no command at all: said in the words of Redis where it has them, and then the connection is closed.

use std::fmt;

use super::parse::LengthErrors;

/// What is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// Another protocol is spoken. It gets no answer.
    Foreign(Foreign),
    /// The length of an array goes on and on.
    EndlessCount,
    /// The length of an array is no number, or there are too many arguments.
    InvalidCount,
    /// Too many arguments for somebody who has yet to say the password.
    StrangersArguments,
    /// The length of a bulk string goes on and on.
    EndlessBulk,
    /// The length of a bulk string is no number, or it is too long.
    InvalidBulk,
    /// A bulk string is too long for somebody who has yet to say the password.
    StrangersBulk,
    /// A bulk string is not where it ends by its length.
    BulkWithoutEnd,
    /// There is something else where a bulk string should be.
    NoBulk {
        /// How that begins.
        got: u8,
    },
    /// A line is too long.
    LongLine,
    /// A line has too many arguments.
    LineArguments,
    /// A quote is not closed, or something follows right after it.
    Quotes,
}

/// What is spoken instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// HTTP: maybe a browser that was talked into it by a page from elsewhere.
    Http,
    /// TLS, on a port without it.
    Tls,
}

impl ProtocolError {
    pub(super) const COUNT: LengthErrors =
        LengthErrors { endless: Self::EndlessCount, invalid: Self::InvalidCount };
    pub(super) const BULK: LengthErrors =
        LengthErrors { endless: Self::EndlessBulk, invalid: Self::InvalidBulk };
}

impl Foreign {
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
            Self::Foreign(foreign) => return write!(f, "this is {}", foreign.as_str()),
            Self::NoBulk { got } => {
                // A line break would end the message.
                let got = if got.is_ascii_graphic() { char::from(*got) } else { '?' };
                return write!(f, "expected '$', got '{got}'");
            }
            Self::EndlessCount => "too big mbulk count string",
            Self::InvalidCount => "invalid multibulk length",
            Self::StrangersArguments => "unauthenticated multibulk length",
            Self::EndlessBulk => "too big bulk count string",
            Self::InvalidBulk => "invalid bulk length",
            Self::StrangersBulk => "unauthenticated bulk length",
            Self::BulkWithoutEnd => "bulk string without CRLF at its end",
            Self::LongLine => "too big inline request",
            Self::LineArguments => "too many arguments in inline request",
            Self::Quotes => "unbalanced quotes in request",
        })
    }
}

impl std::error::Error for ProtocolError {}
