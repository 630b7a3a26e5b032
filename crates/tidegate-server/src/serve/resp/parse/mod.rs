//! The RESP parser: commands from arrays of bulk strings and from lines.
//!
//! Written by hand: arguments point into the input without a copy (except those of a line, which may be quoted), bounds
//! and errors are those of Redis, and an incomplete command is resumed. The parser remembers how far it got, so at most
//! the digits of one length are read twice.

mod length;

use smallvec::SmallVec;

use super::inline;
use super::protocol_error::{ProtocolError, WrongProtocol};
use crate::json::request_bounds;
use length::ParsedLength;

pub(crate) use length::LengthErrors;

/// Every command may have this many arguments: the name, a token, a domain, an attribute with its value, a cost and a ttl.
const ARGUMENTS_ALWAYS: usize = 3 + 2 + 4;
/// Memory for this many arguments is kept from one command to the next.
const SPANS_KEPT_MAX: usize = 256;
/// The end of a bulk string.
const BULK_END: [u8; 2] = *b"\r\n";
/// Maximum total size of a command's arguments, in bytes.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a line, in bytes, as in Redis.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of arguments before authentication, as in Redis.
pub const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;
/// Maximum size of a command before authentication, in bytes.
pub const UNAUTHENTICATED_BYTES_MAX: usize = 16 << 10;

/// Maximum number of arguments: the name, a token, a domain, as many attributes with values as a request may have, a cost
/// and a ttl.
pub fn arguments_max() -> usize {
    3 + 2 * request_bounds().entries_max + 4
}

/// Whether the client has authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthState {
    /// It has not: only few and short arguments are allowed.
    Unauthenticated,
    /// It has, or needs no password.
    #[default]
    Authenticated,
}

/// The result of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The command is incomplete.
    Partial,
    /// An empty line or array, which is no command and gets no reply.
    Empty {
        /// Bytes that were consumed.
        length: usize,
    },
    /// A command. [`Parser::arguments`] returns its arguments.
    Command {
        /// Bytes that were consumed.
        length: usize,
    },
}

/// Parses one command after the other.
#[derive(Debug, Default)]
pub struct Parser {
    stage: Stage,
    /// How far the command was parsed, from its first byte.
    at: usize,
    /// Arguments of the array that are not parsed yet.
    arguments_left: usize,
    /// Total size of the arguments so far.
    bytes: usize,
    spans: Vec<Span>,
    /// The arguments of a line, without quotes.
    unquoted: Vec<u8>,
    source: SpanSource,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Before the first byte of a command.
    #[default]
    Start,
    /// In the length of an array.
    Count,
    /// Between arguments of an array.
    Arguments,
    /// In a line.
    Inline,
}

/// What the spans point into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SpanSource {
    #[default]
    Input,
    Unquoted,
}

/// The position of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
}

/// The arguments of a command, including its name.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    spans: &'a [Span],
    bytes: &'a [u8],
    /// The start of `bytes`, as far as it is already known to be UTF-8.
    text: &'a str,
}

/// The arguments of a command as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextArguments<'a> {
    arguments: Arguments<'a>,
    /// At least all bytes up to the end of the last argument, if they are UTF-8.
    whole: Option<&'a str>,
}

/// Arguments that borrow nothing.
#[derive(Clone, Debug)]
pub(crate) struct OwnedArguments {
    spans: SmallVec<[Span; SPANS_INLINE]>,
    bytes: Box<[u8]>,
}

/// Commands with up to this many arguments are copied with one allocation.
const SPANS_INLINE: usize = 8;

impl Parser {
    /// Parses a command at the start of `bytes`. If it is incomplete, the next call must pass the same bytes and more,
    /// else the bytes after the command.
    #[inline]
    pub fn parse(&mut self, bytes: &[u8], auth: AuthState) -> Result<Parsed, ProtocolError> {
        if self.stage == Stage::Start {
            let Some(first) = bytes.first() else { return Ok(Parsed::Partial) };
            self.begin(*first)?;
        }
        let parsed = match self.stage {
            Stage::Inline => self.line(bytes),
            _ => self.array(bytes, auth),
        };
        if !matches!(parsed, Ok(Parsed::Partial)) {
            self.stage = Stage::Start;
        }
        parsed
    }

    /// The arguments of the command that was parsed at the start of `bytes`.
    #[inline]
    pub fn arguments<'a>(&'a self, bytes: &'a [u8]) -> Arguments<'a> {
        let bytes = match self.source {
            SpanSource::Input => bytes,
            SpanSource::Unquoted => &self.unquoted,
        };
        Arguments { spans: &self.spans, bytes, text: "" }
    }

    /// As [`arguments`](Self::arguments). `text` is the start of `bytes`, as far as it is known to be UTF-8.
    #[inline]
    pub(crate) fn arguments_with_text<'a>(&'a self, bytes: &'a [u8], text: &'a str) -> Arguments<'a> {
        match self.source {
            SpanSource::Input => Arguments { spans: &self.spans, bytes, text },
            SpanSource::Unquoted => self.arguments(bytes),
        }
    }

    #[inline]
    fn begin(&mut self, first: u8) -> Result<(), ProtocolError> {
        self.spans.clear();
        self.spans.shrink_to(SPANS_KEPT_MAX);
        (self.at, self.bytes) = (0, 0);
        (self.stage, self.source) = match first {
            b'*' => (Stage::Count, SpanSource::Input),
            inline::TLS_HANDSHAKE => return Err(ProtocolError::WrongProtocol(WrongProtocol::Tls)),
            _ => (Stage::Inline, SpanSource::Unquoted),
        };
        Ok(())
    }

    #[inline]
    fn array(&mut self, bytes: &[u8], auth: AuthState) -> Result<Parsed, ProtocolError> {
        if self.stage == Stage::Count {
            let Some(count) = ParsedLength::read(bytes, 1, ProtocolError::COUNT)? else {
                return Ok(Parsed::Partial);
            };
            let Ok(number @ 1..) = usize::try_from(count.number) else {
                return Ok(Parsed::Empty { length: count.end });
            };
            if auth == AuthState::Unauthenticated && number > UNAUTHENTICATED_ARGUMENTS_MAX {
                return Err(ProtocolError::UnauthenticatedArguments);
            }
            if number > ARGUMENTS_ALWAYS && number > arguments_max() {
                return Err(ProtocolError::InvalidCount);
            }
            (self.arguments_left, self.at, self.stage) = (number, count.end, Stage::Arguments);
        }
        while self.arguments_left > 0 {
            let span = match Span::read_short(bytes, self.at) {
                Some(span) if span.length() <= self.room(auth) => span,
                _ => match self.bulk(bytes, auth)? {
                    Some(span) => span,
                    None => return Ok(Parsed::Partial),
                },
            };
            self.spans.push(span);
            self.bytes += span.length();
            self.at = span.end + BULK_END.len();
            self.arguments_left -= 1;
        }
        Ok(Parsed::Command { length: self.at })
    }

    /// How many bytes further arguments may have.
    #[inline]
    fn room(&self, auth: AuthState) -> usize {
        let bytes_max = match auth {
            AuthState::Authenticated => COMMAND_BYTES_MAX,
            AuthState::Unauthenticated => UNAUTHENTICATED_BYTES_MAX,
        };
        bytes_max - self.bytes
    }

    /// Parses the next bulk string, if it is complete. Separate, so that [`Span::read_short`] is inlined without it.
    #[inline(never)]
    fn bulk(&self, bytes: &[u8], auth: AuthState) -> Result<Option<Span>, ProtocolError> {
        match bytes.get(self.at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::ExpectedBulk { got: *other }),
        }
        let Some(length) = ParsedLength::read(bytes, self.at + 1, ProtocolError::BULK)? else {
            return Ok(None);
        };
        let size = match usize::try_from(length.number) {
            Ok(size) if size <= self.room(auth) => size,
            Ok(size) if auth == AuthState::Unauthenticated && size <= COMMAND_BYTES_MAX => {
                return Err(ProtocolError::UnauthenticatedBulk);
            }
            _ => return Err(ProtocolError::InvalidBulkLength),
        };
        let span = Span { start: length.end, end: length.end + size };
        match bytes.get(span.end..span.end + BULK_END.len()) {
            Some(end) if *end == BULK_END => Ok(Some(span)),
            Some(_) => Err(ProtocolError::MissingBulkEnd),
            None => Ok(None),
        }
    }

    fn line(&mut self, bytes: &[u8]) -> Result<Parsed, ProtocolError> {
        let Some(rest) = bytes[self.at..].iter().position(|byte| *byte == b'\n') else {
            self.at = bytes.len();
            return if self.at > INLINE_BYTES_MAX {
                Err(ProtocolError::LineTooLong)
            } else {
                Ok(Parsed::Partial)
            };
        };
        let end = self.at + rest;
        if end > INLINE_BYTES_MAX {
            return Err(ProtocolError::LineTooLong);
        }
        let line = &bytes[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        inline::split_line(line, &mut self.unquoted, &mut self.spans)?;
        let length = end + 1;
        if self.spans.is_empty() {
            return Ok(Parsed::Empty { length });
        }
        inline::reject_http(&self.arguments(bytes))?;
        Ok(Parsed::Command { length })
    }
}

impl Span {
    /// Reads a bulk string of fewer than 100 bytes, as nearly all are. `None` if there is none, or not all of it.
    #[inline]
    fn read_short(bytes: &[u8], at: usize) -> Option<Self> {
        let (start, length) = match bytes.get(at..)? {
            [b'$', one @ b'0'..=b'9', b'\r', b'\n', ..] => (at + 4, usize::from(one - b'0')),
            [b'$', ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
                (at + 5, usize::from(ten - b'0') * 10 + usize::from(one - b'0'))
            }
            _ => return None,
        };
        let end = start + length;
        (bytes.get(end..end + BULK_END.len())? == BULK_END).then_some(Self { start, end })
    }

    #[inline]
    fn length(self) -> usize {
        self.end - self.start
    }
}

impl<'a> Arguments<'a> {
    /// Number of arguments, including the name.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is not even a name.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at this index; the name is at 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.bytes[span.start..span.end])
    }

    /// All arguments, including the name.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.start..span.end])
    }

    /// The arguments as text. Validates all of them together, because the cost per argument hardly depends on its
    /// length.
    #[inline]
    pub(crate) fn texts(&self) -> TextArguments<'a> {
        let bytes = self.up_to_last();
        let whole = if bytes.len() <= self.text.len() { Some(self.text) } else { str::from_utf8(bytes).ok() };
        TextArguments { arguments: *self, whole }
    }

    /// A copy.
    pub(crate) fn to_owned_arguments(self) -> OwnedArguments {
        OwnedArguments { spans: self.spans.into(), bytes: self.up_to_last().into() }
    }

    /// All bytes up to the end of the last argument.
    #[inline]
    fn up_to_last(&self) -> &'a [u8] {
        &self.bytes[..self.spans.last().map_or(0, |span| span.end)]
    }
}

impl<'a> TextArguments<'a> {
    /// The argument at this index, or an empty string if it does not exist. `None` if it is not UTF-8.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a str> {
        match (self.whole, self.arguments.spans.get(index)) {
            (_, None) => Some(""),
            (Some(whole), Some(span)) => whole.get(span.start..span.end),
            // Only another argument may be invalid.
            (None, Some(_)) => str::from_utf8(self.arguments.get(index)?).ok(),
        }
    }
}

impl OwnedArguments {
    /// Borrows them.
    pub fn as_arguments(&self) -> Arguments<'_> {
        Arguments { spans: &self.spans, bytes: &self.bytes, text: "" }
    }

    /// Bytes of the arguments.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Heap bytes that are kept.
    pub fn heap_bytes(&self) -> usize {
        let spans = if self.spans.spilled() { self.spans.capacity() * size_of::<Span>() } else { 0 };
        self.bytes.len() + spans
    }
}

#[cfg(test)]
mod tests;
