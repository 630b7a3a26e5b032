//! Reads fields, as they are, from bytes that anybody may have sent.

use std::fmt;

/// The most groups within groups that are stepped over. Nobody has written any for fifteen years.
const GROUPS_MAX: usize = 32;
/// The largest number of a field.
const FIELD_NUMBER_MAX: u64 = (1 << 29) - 1;

/// Reads the fields of a message.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the message begins within the one that was received.
    base: usize,
}

/// A field with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its number.
    pub number: u32,
    /// Its value, by how it is written.
    pub value: Value<'a>,
}

/// A value, by how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number of any size, a truth value or an enum.
    Varint(u64),
    /// Eight bytes.
    Fixed64([u8; 8]),
    /// Text, bytes or a message.
    Bytes {
        /// The bytes.
        bytes: &'a [u8],
        /// Where they begin within what was received.
        at: usize,
    },
    /// Four bytes.
    Fixed32([u8; 4]),
}

/// It is not protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError {
    /// What was found.
    pub what: &'static str,
    /// Where, in bytes from 0.
    pub at: usize,
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const GROUP: u64 = 3;
const GROUP_END: u64 = 4;
const FIXED32: u64 = 5;

impl<'a> Reader<'a> {
    /// Of a message that was received.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, base: 0 }
    }

    /// Of a message within another.
    pub const fn nested(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at: 0, base: at }
    }

    /// The next field; none at the end. Groups are stepped over.
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
                GROUP_END => return Err(self.error("the end of a group that did not begin")),
                _ => return Err(self.error("a kind of value that does not exist")),
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
                return Err(self.error("the end in the middle of a number"));
            };
            self.at += 1;
            // The tenth byte holds the last bit.
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
            None => Err(self.error("a length beyond the end")),
        }
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], WireError> {
        match self.bytes[self.at..].first_chunk() {
            Some(bytes) => {
                self.at += LENGTH;
                Ok(*bytes)
            }
            None => Err(self.error("the end in the middle of a number")),
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
                GROUP => return Err(self.error("too many groups within groups")),
                GROUP_END if number == *innermost => drop(open.pop()),
                GROUP_END => return Err(self.error("the end of another group")),
                _ => return Err(self.error("a kind of value that does not exist")),
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
