//! The part of protobuf's encoding that requests and checks of their answers need.

/// Encodes a field with a number.
pub(crate) fn varint_field(field: u8, number: u64) -> Vec<u8> {
    let mut encoded = vec![field << 3];
    put_varint(&mut encoded, number);
    encoded
}

/// Encodes a field with text or a message.
pub(crate) fn bytes_field(field: u8, content: &[u8]) -> Vec<u8> {
    let mut encoded = vec![(field << 3) | 2];
    put_varint(&mut encoded, content.len() as u64);
    encoded.extend(content);
    encoded
}

/// The number in a field of a message.
pub(crate) fn varint(message: &[u8], field: u64) -> Option<u64> {
    fields(message).find_map(|(found, value)| match value {
        Value::Number(number) if found == field => Some(number),
        _ => None,
    })
}

/// The bytes in a field of a message.
pub(crate) fn bytes(message: &[u8], field: u64) -> Option<&[u8]> {
    fields(message).find_map(|(found, value)| match value {
        Value::Bytes(bytes) if found == field => Some(bytes),
        _ => None,
    })
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A fixed-width field, which is skipped.
    Other,
}

fn put_varint(encoded: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        encoded.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    encoded.push(number.to_le_bytes()[0]);
}

/// All fields up to the end or the first invalid one.
fn fields(mut message: &[u8]) -> impl Iterator<Item = (u64, Value<'_>)> {
    std::iter::from_fn(move || {
        let tag = take_varint(&mut message)?;
        let value = match tag & 7 {
            0 => Value::Number(take_varint(&mut message)?),
            1 => take(&mut message, 8).map(|_| Value::Other)?,
            2 => {
                let length = take_varint(&mut message)?;
                Value::Bytes(take(&mut message, usize::try_from(length).ok()?)?)
            }
            5 => take(&mut message, 4).map(|_| Value::Other)?,
            _ => return None,
        };
        Some((tag >> 3, value))
    })
}

fn take_varint(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(message, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(message: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::{bytes, bytes_field, varint, varint_field};

    #[test]
    fn encoded_fields_are_read() {
        let inner = bytes_field(2, b"x");
        let message = [varint_field(1, 300), bytes_field(2, &inner), varint_field(3, u64::MAX)].concat();
        assert_eq!(varint(&message, 1), Some(300));
        assert_eq!(varint(&message, 3), Some(u64::MAX));
        assert_eq!(bytes(&message, 2).and_then(|inner| bytes(inner, 2)), Some(&b"x"[..]));
        assert_eq!((varint(&message, 2), bytes(&message, 1)), (None, None));
    }

    #[test]
    fn truncated_fields_are_not_found() {
        let message = bytes_field(1, b"four");
        assert_eq!(bytes(&message[..4], 1), None);
        assert_eq!(varint(&[0x08, 0x80], 1), None);
        assert_eq!(varint(&[0x08; 40], 9), None);
    }
}
