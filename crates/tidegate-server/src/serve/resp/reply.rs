//! Encodes replies as RESP2 or RESP3 into one buffer.

use std::fmt;
use std::io::Write as _;

/// The protocol version of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RespVersion {
    /// The version of a new connection.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// Replies that are not written yet.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: Vec<u8>,
    version: RespVersion,
}

impl Replies {
    /// Empty, in this version.
    pub fn new(version: RespVersion) -> Self {
        Self { bytes: Vec::new(), version }
    }

    /// The encoded replies.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The buffer, for writing and clearing it.
    pub(super) fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The version of the next replies.
    pub fn version(&self) -> RespVersion {
        self.version
    }

    /// Changes the version of the next replies.
    pub fn set_version(&mut self, version: RespVersion) {
        self.version = version;
    }

    /// A simple string, such as `+OK`.
    pub fn simple_string(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error. Its first word is the error code, mostly `ERR`. Line breaks would end it and become spaces.
    pub fn error(&mut self, text: impl fmt::Display) {
        self.bytes.push(b'-');
        let start = self.bytes.len();
        // Writing to memory does not fail.
        let _ = write!(self.bytes, "{text}");
        for byte in &mut self.bytes[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.end();
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    /// A reply that is already encoded.
    #[inline]
    pub(super) fn encoded(&mut self, reply: &[u8]) {
        self.bytes.extend_from_slice(reply);
    }

    /// Text for people.
    pub fn verbatim(&mut self, text: &str) {
        match self.version {
            RespVersion::Resp2 => self.bulk(text.as_bytes()),
            RespVersion::Resp3 => {
                self.length(b'=', "txt:".len() + text.len());
                self.bytes.extend_from_slice(b"txt:");
                self.bytes.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// The null value.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(match self.version {
            RespVersion::Resp2 => b"$-1\r\n",
            RespVersion::Resp3 => b"_\r\n",
        });
    }

    /// Starts an array: the next `length` replies are its elements.
    #[inline]
    pub fn start_array(&mut self, length: usize) {
        self.length(b'*', length);
    }

    /// Starts a map: the next replies are its keys and values.
    pub fn start_map(&mut self, pairs: usize) {
        match self.version {
            RespVersion::Resp2 => self.length(b'*', 2 * pairs),
            RespVersion::Resp3 => self.length(b'%', pairs),
        }
    }

    /// Starts a set: the next `length` replies are its elements.
    pub fn start_set(&mut self, length: usize) {
        match self.version {
            RespVersion::Resp2 => self.length(b'*', length),
            RespVersion::Resp3 => self.length(b'~', length),
        }
    }

    /// Appends replies that were encoded separately, and empties `other`.
    #[inline]
    pub fn append(&mut self, other: &mut Self) {
        self.bytes.append(&mut other.bytes);
    }

    #[inline]
    fn length(&mut self, kind: u8, length: usize) {
        // No reply is that long.
        self.number(kind, i64::try_from(length).unwrap_or(i64::MAX));
    }

    #[inline]
    fn number(&mut self, kind: u8, number: i64) {
        // One digit is the most frequent case.
        match u8::try_from(number) {
            Ok(digit @ 0..=9) => self.bytes.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']),
            _ => self.long_number(kind, number),
        }
    }

    /// Separate, so that short numbers are written without a call.
    #[inline(never)]
    fn long_number(&mut self, kind: u8, number: i64) {
        self.line(kind, itoa::Buffer::new().format(number).as_bytes());
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}
