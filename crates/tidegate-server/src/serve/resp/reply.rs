//! Answers, in the bytes of RESP2 or RESP3, one behind the other until they are written.

use std::fmt;
use std::io::Write as _;

/// Which of the two the client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RespVersion {
    /// As every client does at first.
    #[default]
    Resp2,
    /// Since a `HELLO 3`.
    Resp3,
}

/// Answers that have yet to be written.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: Vec<u8>,
    version: RespVersion,
}

impl Replies {
    /// None yet, in this version.
    pub fn new(version: RespVersion) -> Self {
        Self { bytes: Vec::new(), version }
    }

    /// What is to be written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The buffer itself, for who writes and empties it.
    pub(super) fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What those to come are written in.
    pub fn version(&self) -> RespVersion {
        self.version
    }

    /// From now on in this version.
    pub fn set_version(&mut self, version: RespVersion) {
        self.version = version;
    }

    /// A word: `+OK`.
    pub fn simple_string(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error. Its first word is its kind, mostly `ERR`. A line break in it would end it, so there is none.
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

    /// A number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// Text, or any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    /// Text for people to read.
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

    /// Nothing, where there could be something.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(match self.version {
            RespVersion::Resp2 => b"$-1\r\n",
            RespVersion::Resp3 => b"_\r\n",
        });
    }

    /// So many answers that follow are one.
    #[inline]
    pub fn start_array(&mut self, length: usize) {
        self.length(b'*', length);
    }

    /// So many pairs of answers that follow are one.
    pub fn start_map(&mut self, pairs: usize) {
        match self.version {
            RespVersion::Resp2 => self.length(b'*', 2 * pairs),
            RespVersion::Resp3 => self.length(b'%', pairs),
        }
    }

    /// So many answers that follow are one, in any order.
    pub fn start_set(&mut self, length: usize) {
        match self.version {
            RespVersion::Resp2 => self.length(b'*', length),
            RespVersion::Resp3 => self.length(b'~', length),
        }
    }

    /// An answer that was made apart.
    #[inline]
    pub fn append(&mut self, other: &mut Self) {
        self.bytes.append(&mut other.bytes);
    }

    #[inline]
    fn length(&mut self, kind: u8, length: usize) {
        // No answer comes near the end of i64.
        self.number(kind, i64::try_from(length).unwrap_or(i64::MAX));
    }

    #[inline]
    fn number(&mut self, kind: u8, number: i64) {
        // Most numbers of most answers.
        match u8::try_from(number) {
            Ok(digit @ 0..=9) => self.bytes.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']),
            _ => self.long_number(kind, number),
        }
    }

    /// Apart, so that short numbers are written without a call.
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
