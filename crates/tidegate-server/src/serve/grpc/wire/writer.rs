//! Appends fields to a buffer.

use bytes::{BufMut, BytesMut};

/// A length up to this takes one byte.
const LENGTH_OF_ONE_BYTE_MAX: usize = 127;

/// Appends fields to a buffer. Like proto3, it omits default values.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut BytesMut,
}

/// Protobuf's wire types.
#[derive(Clone, Copy)]
#[repr(u32)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

impl<'b> Writer<'b> {
    /// Appends to `out`.
    pub const fn new(out: &'b mut BytesMut) -> Self {
        Self { out }
    }

    /// An integer, a bool or an enum, unless it is zero.
    #[inline]
    pub fn varint(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.varint_or_zero(field, number);
        }
    }

    /// The same, even if it is zero, as needed in a list or a oneof.
    #[inline]
    pub fn varint_or_zero(&mut self, field: u32, number: u64) {
        self.tag(field, WireType::Varint);
        self.raw_varint(number);
    }

    /// A double, even if it is zero.
    pub fn double_or_zero(&mut self, field: u32, number: f64) {
        self.tag(field, WireType::Fixed64);
        self.out.put_f64_le(number);
    }

    /// A string, unless it is empty.
    #[inline]
    pub fn text(&mut self, field: u32, text: &str) {
        if !text.is_empty() {
            self.bytes_or_empty(field, text.as_bytes());
        }
    }

    /// Bytes, even if they are empty, as needed in a list.
    #[inline]
    pub fn bytes_or_empty(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, WireType::Bytes);
        self.raw_varint(bytes.len() as u64);
        self.out.put_slice(bytes);
    }

    /// A message, even if it is empty.
    #[inline]
    pub fn message(&mut self, field: u32, write: impl FnOnce(&mut Writer<'_>)) {
        self.tag(field, WireType::Bytes);
        // Most lengths take one byte. A longer message is moved afterwards.
        let length_at = self.out.len();
        self.out.put_u8(0);
        write(&mut Writer { out: self.out });
        let length = self.out.len() - length_at - 1;
        match u8::try_from(length) {
            Ok(byte) if length <= LENGTH_OF_ONE_BYTE_MAX => self.out[length_at] = byte,
            _ => self.widen_length(length_at),
        }
    }

    /// Moves the message to make room for a length of more than one byte.
    #[cold]
    fn widen_length(&mut self, length_at: usize) {
        let content_at = length_at + 1;
        let length = self.out.len() - content_at;
        let mut number = [0; 10];
        let width = encode_varint(length as u64, &mut number);
        self.out.put_bytes(0, width - 1);
        self.out.copy_within(content_at..content_at + length, length_at + width);
        self.out[length_at..length_at + width].copy_from_slice(&number[..width]);
    }

    #[inline]
    fn tag(&mut self, field: u32, kind: WireType) {
        self.raw_varint(u64::from(field << 3 | kind as u32));
    }

    #[inline]
    fn raw_varint(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(byte) if byte < 0x80 => self.out.put_u8(byte),
            _ => {
                let mut bytes = [0; 10];
                let width = encode_varint(number, &mut bytes);
                self.out.put_slice(&bytes[..width]);
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn encode_varint(mut number: u64, bytes: &mut [u8; 10]) -> usize {
    let mut width = 0;
    loop {
        bytes[width] = (number & 0x7f) as u8;
        number >>= 7;
        width += 1;
        if number == 0 {
            return width;
        }
        bytes[width - 1] |= 0x80;
    }
}
