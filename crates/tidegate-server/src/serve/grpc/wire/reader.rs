//! Reads fields from untrusted bytes without copying them.

use std::fmt;

/// Maximum depth of nested groups that are skipped. Groups are long deprecated.
const GROUPS_MAX: usize = 32;
const FIELD_NUMBER_MAX: u64 = (1 << 29) - 1;

#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of this message within the received one, for positions in errors.
    base: usize,
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub number: u32,
    /// The value, by its wire type.
    pub value: Value<'a>,
}

/// A value, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer, a bool or an enum.
    Varint(u64),
    /// Eight bytes.
    Fixed64([u8; 8]),
    /// A string, bytes or a message.
    Bytes {
        bytes: &'a [u8],
        /// Offset within the received message.
        at: usize,
    },
    /// Four bytes.
    Fixed32([u8; 4]),
}

/// The bytes are not protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError {
    pub what: &'static str,
    /// Offset in bytes, from 0.
    pub at: usize,
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const GROUP: u64 = 3;
const GROUP_END: u64 = 4;
const FIXED32: u64 = 5;

impl<'a> Reader<'a> {
    /// Reads a received message.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, base: 0 }
    }

    /// Reads a message inside another one, which starts at offset `at`.
    pub const fn nested(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at: 0, base: at }
    }

    /// The next field, or `None` at the end. Groups are skipped.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Field<'a>>, WireError> {
        while self.at < self.bytes.len() {
            let (number, kind) = self.tag()?;
            let value = match kind {
                VARINT => Value::Varint(self.varint()?),
                BYTES => self.length_delimited()?,
                FIXED64 => Value::Fixed64(self.array()?),
                FIXED32 => Value::Fixed32(self.array()?),
                GROUP => {
                    self.skip_group(number)?;
                    continue;
                }
                GROUP_END => return Err(self.error("a group end without a group start")),
                _ => return Err(self.error("an unknown wire type")),
            };
            return Ok(Some(Field { number, value }));
        }
        Ok(None)
    }

    #[inline]
    fn tag(&mut self) -> Result<(u32, u64), WireError> {
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 && tag >> 3 <= FIELD_NUMBER_MAX => Ok((number, tag & 7)),
            _ => Err(self.error("a field number out of range")),
        }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, WireError> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.bytes.get(self.at) else {
                return Err(self.error("a truncated number"));
            };
            self.at += 1;
            // The tenth byte holds only the highest bit.
            if shift == 63 && *byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.error("a number of more than 64 bits"))
    }

    #[inline]
    fn length_delimited(&mut self) -> Result<Value<'a>, WireError> {
        let length = self.varint()?;
        let at = self.at;
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
        match end.and_then(|end| self.bytes.get(at..end)) {
            Some(bytes) => {
                self.at += bytes.len();
                Ok(Value::Bytes { bytes, at: self.base + at })
            }
            None => Err(self.error("a length past the end")),
        }
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], WireError> {
        match self.bytes[self.at..].first_chunk() {
            Some(bytes) => {
                self.at += LENGTH;
                Ok(*bytes)
            }
            None => Err(self.error("a truncated number")),
        }
    }

    #[cold]
    fn skip_group(&mut self, number: u32) -> Result<(), WireError> {
        let mut open = vec![number];
        while let Some(innermost) = open.last() {
            let (number, kind) = self.tag()?;
            match kind {
                VARINT => drop(self.varint()?),
                BYTES => drop(self.length_delimited()?),
                FIXED64 => drop(self.array::<8>()?),
                FIXED32 => drop(self.array::<4>()?),
                GROUP if open.len() < GROUPS_MAX => open.push(number),
                GROUP => return Err(self.error("groups nested too deep")),
                GROUP_END if number == *innermost => drop(open.pop()),
                GROUP_END => return Err(self.error("a group end that matches no group start")),
                _ => return Err(self.error("an unknown wire type")),
            }
        }
        Ok(())
    }

    #[cold]
    fn error(&self, what: &'static str) -> WireError {
        WireError { what, at: self.base + self.at }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

impl std::error::Error for WireError {}
