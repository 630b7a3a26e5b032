//! Commands out of bytes, as they come in: arrays of bulk strings, and lines as a person types them.
//!
//! Nothing is copied out of what was read, but for the arguments of a line, which may be quoted. A command that is
//! there in part is gone on with where it ended: how far it was understood is kept, and what is looked at again is
//! never more than the digits of one length.

mod length;

pub(super) use length::LengthErrors;

use smallvec::SmallVec;

use super::inline;
use super::protocol_error::{WrongProtocol, ProtocolError};
use length::ParsedLength;

/// The most arguments of a command: its name, a domain, 64 attributes with their values, a cost.
pub const ARGUMENTS_MAX: usize = 2 + 2 * 64 + 2;
/// The most bytes of a command's arguments together.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;
/// The longest line, in bytes; as in Redis.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// The most arguments of who has yet to say the password; as in Redis.
pub const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;
/// The most bytes of a command of who has yet to say the password.
pub const UNAUTHENTICATED_BYTES_MAX: usize = 16 << 10;

/// Who is to be understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthState {
    /// Somebody who has yet to say the password, which takes few and short arguments.
    Unauthenticated,
    /// Somebody who may ask.
    #[default]
    Authenticated,
}

/// What was made out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Not the whole of a command yet.
    Partial,
    /// A command without even a name: an empty line or array, which asks for nothing.
    Empty {
        /// How many bytes it took.
        length: usize,
    },
    /// A command; [`Parser::arguments`] has what it consists of.
    Command {
        /// How many bytes it took.
        length: usize,
    },
}

/// Makes out one command after the other.
#[derive(Debug, Default)]
pub struct Parser {
    stage: Stage,
    /// How far the command was understood, from its first byte.
    at: usize,
    /// The arguments that an array has still to come with.
    arguments_left: usize,
    /// The bytes of the arguments that are there.
    bytes: usize,
    spans: Vec<Span>,
    /// The arguments of a line, freed of their quotes.
    unquoted: Vec<u8>,
    source: SpanSource,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Before a command's first byte.
    #[default]
    Start,
    /// In the length of an array.
    Count,
    /// Between arguments of an array.
    Arguments,
    /// In a line.
    Inline,
}

/// What spans point into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SpanSource {
    #[default]
    Input,
    Unquoted,
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub start: usize,
    pub end: usize,
}

/// The arguments of a command, its name first.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    spans: &'a [Span],
    bytes: &'a [u8],
}

/// The arguments of a command as text.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextArguments<'a> {
    arguments: Arguments<'a>,
    /// All bytes up to the end of the last argument, if they are text.
    whole: Option<&'a str>,
}

/// The same, with nothing borrowed.
#[derive(Clone, Debug)]
pub(super) struct OwnedArguments {
    spans: SmallVec<[Span; SPANS_INLINE]>,
    bytes: Box<[u8]>,
}

/// A command of so many arguments takes one allocation to be kept.
const SPANS_INLINE: usize = 8;

impl Parser {
    /// Looks for a command at the beginning of `bytes`. If it is there in part, the next call is to bring the same bytes
    /// and more; else those that come after it.
    #[inline]
    pub fn parse(&mut self, bytes: &[u8], trust: AuthState) -> Result<Parsed, ProtocolError> {
        if self.stage == Stage::Start {
            let Some(first) = bytes.first() else { return Ok(Parsed::Partial) };
            self.begin(*first)?;
        }
        let parsed = match self.stage {
            Stage::Inline => self.line(bytes),
            _ => self.array(bytes, trust),
        };
        if !matches!(parsed, Ok(Parsed::Partial)) {
            self.stage = Stage::Start;
        }
        parsed
    }

    /// The arguments of the command that was found at the beginning of these bytes.
    #[inline]
    pub fn arguments<'a>(&'a self, bytes: &'a [u8]) -> Arguments<'a> {
        let bytes = match self.source {
            SpanSource::Input => bytes,
            SpanSource::Unquoted => &self.unquoted,
        };
        Arguments { spans: &self.spans, bytes }
    }

    #[inline]
    fn begin(&mut self, first: u8) -> Result<(), ProtocolError> {
        self.spans.clear();
        (self.at, self.bytes) = (0, 0);
        (self.stage, self.source) = match first {
            b'*' => (Stage::Count, SpanSource::Input),
            inline::TLS_HANDSHAKE => return Err(ProtocolError::WrongProtocol(WrongProtocol::Tls)),
            _ => (Stage::Inline, SpanSource::Unquoted),
        };
        Ok(())
    }

    #[inline]
    fn array(&mut self, bytes: &[u8], trust: AuthState) -> Result<Parsed, ProtocolError> {
        if self.stage == Stage::Count {
            let Some(count) = ParsedLength::read(bytes, 1, ProtocolError::COUNT)? else {
                return Ok(Parsed::Partial);
            };
            let Ok(number @ 1..) = usize::try_from(count.number) else {
                return Ok(Parsed::Empty { length: count.end });
            };
            if trust == AuthState::Unauthenticated && number > UNAUTHENTICATED_ARGUMENTS_MAX {
                return Err(ProtocolError::UnauthenticatedArguments);
            }
            if number > ARGUMENTS_MAX {
                return Err(ProtocolError::InvalidCount);
            }
            (self.arguments_left, self.at, self.stage) = (number, count.end, Stage::Arguments);
        }
        while self.arguments_left > 0 {
            let Some(end) = self.bulk(bytes, trust)? else { return Ok(Parsed::Partial) };
            self.at = end;
            self.arguments_left -= 1;
        }
        Ok(Parsed::Command { length: self.at })
    }

    /// Takes the next bulk string, if it is there, and says where it ends.
    #[inline]
    fn bulk(&mut self, bytes: &[u8], trust: AuthState) -> Result<Option<usize>, ProtocolError> {
        match bytes.get(self.at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::ExpectedBulk { got: *other }),
        }
        let Some(length) = ParsedLength::read(bytes, self.at + 1, ProtocolError::BULK)? else { return Ok(None) };
        let room = match trust {
            AuthState::Authenticated => COMMAND_BYTES_MAX,
            AuthState::Unauthenticated => UNAUTHENTICATED_BYTES_MAX,
        } - self.bytes;
        let size = match usize::try_from(length.number) {
            Ok(size) if size <= room => size,
            Ok(size) if trust == AuthState::Unauthenticated && size <= COMMAND_BYTES_MAX => {
                return Err(ProtocolError::UnauthenticatedBulk);
            }
            _ => return Err(ProtocolError::InvalidBulkLength),
        };
        let span = Span { start: length.end, end: length.end + size };
        match bytes.get(span.end..span.end + 2) {
            Some([b'\r', b'\n']) => {
                self.spans.push(span);
                self.bytes += size;
                Ok(Some(span.end + 2))
            }
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

impl<'a> Arguments<'a> {
    /// How many there are, with the name.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is none, not even a name.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at this place; the name is at 0.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&'a [u8]> {
        self.spans.get(place).map(|span| &self.bytes[span.start..span.end])
    }

    /// All of them, the name first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.start..span.end])
    }

    /// The arguments as text. Checked all at once: most of what it costs to check an argument does not depend on its length.
    #[inline]
    pub(super) fn texts(&self) -> TextArguments<'a> {
        TextArguments { arguments: *self, whole: str::from_utf8(self.up_to_last()).ok() }
    }

    /// A copy that can be kept.
    pub(super) fn to_owned_arguments(&self) -> OwnedArguments {
        OwnedArguments { spans: self.spans.into(), bytes: self.up_to_last().into() }
    }

    /// All bytes up to the end of the last argument.
    #[inline]
    fn up_to_last(&self) -> &'a [u8] {
        &self.bytes[..self.spans.last().map_or(0, |span| span.end)]
    }
}

impl<'a> TextArguments<'a> {
    /// The argument at this place, empty if there is none; none if it is not UTF-8.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&'a str> {
        match (self.whole, self.arguments.spans.get(place)) {
            (_, None) => Some(""),
            (Some(whole), Some(span)) => whole.get(span.start..span.end),
            // Another argument may be at fault.
            (None, Some(_)) => str::from_utf8(self.arguments.get(place)?).ok(),
        }
    }
}

impl OwnedArguments {
    /// Lends them.
    pub fn as_arguments(&self) -> Arguments<'_> {
        Arguments { spans: &self.spans, bytes: &self.bytes }
    }

    /// How many bytes it keeps.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests;
