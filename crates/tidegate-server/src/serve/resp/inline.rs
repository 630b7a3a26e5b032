//! Lines as a person types them, and lines that are not meant for us.

use super::parse::{ARGUMENTS_MAX, Arguments, Span};
use super::protocol_error::{WrongProtocol, ProtocolError};

/// How a TLS connection begins. No command does.
pub(super) const TLS_HANDSHAKE: u8 = 0x16;

/// Words that lines of HTTP begin with. Redis closes the connection on the first two wherever they stand.
const ALWAYS_HTTP: [&[u8]; 2] = [b"POST", b"Host:"];
const HTTP_WITH_MORE: [&[u8]; 9] =
    [b"GET", b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"CONNECT", b"PATCH", b"TRACE", b"PRI"];

/// Splits a line as a shell would: at spaces that are not quoted. `"` knows `\n`, `\x41` and the like, `'` only `\'`.
pub(super) fn split_line(line: &[u8], text: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), ProtocolError> {
    text.clear();
    spans.clear();
    let mut rest = line;
    loop {
        while let [space, after @ ..] = rest
            && is_space(*space)
        {
            rest = after;
        }
        if rest.is_empty() {
            return Ok(());
        }
        if spans.len() == ARGUMENTS_MAX {
            return Err(ProtocolError::TooManyLineArguments);
        }
        let start = text.len();
        rest = take_argument(rest, text)?;
        spans.push(Span { start, end: text.len() });
    }
}

/// Takes one argument, and hands back what follows it.
fn take_argument<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Ok(rest),
            [space, ..] if is_space(*space) => return Ok(rest),
            [quote @ (b'"' | b'\''), quoted @ ..] => {
                let rest =
                    if *quote == b'"' { take_double_quoted(quoted, text) } else { take_single_quoted(quoted, text) };
                let rest = rest.ok_or(ProtocolError::UnbalancedQuotes)?;
                // What is quoted ends there.
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

/// Up to the closing quote; none if there is none.
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

/// Up to the closing quote; none if there is none.
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

/// A web page can make a browser of somebody who may reach this port send a form to it, with commands in its lines. So
/// what looks like HTTP ends the connection before any of them is run.
pub(super) fn reject_http(arguments: &Arguments<'_>) -> Result<(), ProtocolError> {
    let name = arguments.get(0).unwrap_or_default();
    let among = |words: &[&[u8]]| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    if is_http(name) || (arguments.len() > 1 && among(&HTTP_WITH_MORE)) {
        return Err(ProtocolError::WrongProtocol(WrongProtocol::Http));
    }
    Ok(())
}

/// Whether this is never a command, in a line or an array.
pub(super) fn is_http(name: &[u8]) -> bool {
    ALWAYS_HTTP.iter().any(|word| word.eq_ignore_ascii_case(name))
}
