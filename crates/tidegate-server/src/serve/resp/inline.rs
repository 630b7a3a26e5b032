//! Inline commands, as typed by a person, and detection of HTTP.

use super::parse::{Arguments, Span, arguments_max};
use super::protocol_error::{ProtocolError, WrongProtocol};

/// First byte of a TLS handshake. No command starts with it.
pub(super) const TLS_HANDSHAKE: u8 = 0x16;

/// First words of HTTP lines. Redis closes the connection on these two, also in arrays.
const ALWAYS_HTTP: [&[u8]; 2] = [b"POST", b"Host:"];
/// First words of HTTP lines that are rejected only if more words follow.
const HTTP_WITH_MORE: [&[u8]; 9] =
    [b"GET", b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"CONNECT", b"PATCH", b"TRACE", b"PRI"];

/// Splits a line at unquoted spaces, as a shell does. `"` supports escapes such as `\n` and `\x41`, `'` only `\'`.
pub(super) fn split_line(
    line: &[u8],
    text: &mut Vec<u8>,
    spans: &mut Vec<Span>,
) -> Result<(), ProtocolError> {
    text.clear();
    spans.clear();
    let mut rest = line;
    let arguments_max = arguments_max();
    loop {
        while let [space, after @ ..] = rest
            && is_space(*space)
        {
            rest = after;
        }
        if rest.is_empty() {
            return Ok(());
        }
        if spans.len() == arguments_max {
            return Err(ProtocolError::TooManyLineArguments);
        }
        let start = text.len();
        rest = take_argument(rest, text)?;
        spans.push(Span { start, end: text.len() });
    }
}

/// Takes one argument, and returns what follows it.
fn take_argument<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Ok(rest),
            [space, ..] if is_space(*space) => return Ok(rest),
            [quote @ (b'"' | b'\''), quoted @ ..] => {
                let rest = if *quote == b'"' {
                    take_double_quoted(quoted, text)
                } else {
                    take_single_quoted(quoted, text)
                };
                let rest = rest.ok_or(ProtocolError::UnbalancedQuotes)?;
                // A closing quote must end the argument.
                return match rest {
                    [next, ..] if !is_space(*next) => Err(ProtocolError::UnbalancedQuotes),
                    rest => Ok(rest),
                };
            }
            [byte, rest @ ..] => {
                text.push(*byte);
                rest
            }
        }
    }
}

/// Takes text up to the closing quote; `None` if there is none.
fn take_double_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'x', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), rest)
            }
            [b'\\', escaped, rest @ ..] => (unescape(*escaped), rest),
            [byte, rest @ ..] => (*byte, rest),
        };
        text.push(byte);
        rest = after;
    }
}

/// Takes text up to the closing quote; `None` if there is none.
fn take_single_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [b'\'', rest @ ..] => return Some(rest),
            [b'\\', b'\'', rest @ ..] => (b'\'', rest),
            [byte, rest @ ..] => (*byte, rest),
        };
        text.push(byte);
        rest = after;
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// A web page can make a visitor's browser send a form to this port, with commands in its lines. So anything that looks
/// like HTTP closes the connection before a command runs.
pub(super) fn reject_http(arguments: &Arguments<'_>) -> Result<(), ProtocolError> {
    let name = arguments.get(0).unwrap_or_default();
    let among = |words: &[&[u8]]| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    if is_http(name) || (arguments.len() > 1 && among(&HTTP_WITH_MORE)) {
        return Err(ProtocolError::WrongProtocol(WrongProtocol::Http));
    }
    Ok(())
}

/// Whether this name is HTTP, both in a line and in an array.
pub(super) fn is_http(name: &[u8]) -> bool {
    ALWAYS_HTTP.iter().any(|word| word.eq_ignore_ascii_case(name))
}
