//! Decodes the bytes of a key into the values that the key was made of, to show them to people.

use std::net::{IpAddr, Ipv6Addr};

use smallvec::SmallVec;

// Each part begins with one of these bytes, so that no two keys have the same encoding.
pub(crate) const TAG_ABSENT: u8 = 0;
pub(crate) const TAG_TEXT: u8 = 1;
pub(crate) const TAG_DIGEST: u8 = 2;
pub(crate) const TAG_ADDRESS: u8 = 3;

/// One part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValue<'k> {
    /// The descriptor did not have the attribute.
    Absent,
    /// The value.
    Text(&'k [u8]),
    /// A digest of a value that was too long.
    Digest(&'k [u8]),
    /// An address, or the first address of the network that counts as one client.
    Address(IpAddr),
}

/// The parts of a key made by [rules](crate::KeyForm::Values), in order. Stops at bytes that are not a part.
pub fn key_values(key: &[u8]) -> impl Iterator<Item = KeyValue<'_>> {
    let mut rest = key;
    std::iter::from_fn(move || {
        let (tag, after_tag) = rest.split_first()?;
        if *tag == TAG_ABSENT {
            rest = after_tag;
            return Some(KeyValue::Absent);
        }
        let (length, after_length) = after_tag.split_first_chunk::<2>()?;
        let (bytes, after_value) = after_length.split_at_checked(u16::from_le_bytes(*length).into())?;
        rest = after_value;
        value(*tag, bytes)
    })
}

/// Appends a part to a key, in the form that [`key_values`] reads.
#[inline]
pub fn push_key_value<const N: usize>(key: &mut SmallVec<[u8; N]>, value: KeyValue<'_>) {
    let mut push = |tag: u8, bytes: &[u8]| {
        let [low, high, ..] = (bytes.len() as u64).to_le_bytes();
        key.extend_from_slice(&[tag, low, high]);
        key.extend_from_slice(bytes);
    };
    match value {
        KeyValue::Absent => key.push(TAG_ABSENT),
        KeyValue::Text(text) => push(TAG_TEXT, text),
        KeyValue::Digest(digest) => push(TAG_DIGEST, digest),
        KeyValue::Address(IpAddr::V4(address)) => push(TAG_ADDRESS, &address.octets()),
        KeyValue::Address(IpAddr::V6(address)) => push(TAG_ADDRESS, &address.octets()),
    }
}

fn value(tag: u8, bytes: &[u8]) -> Option<KeyValue<'_>> {
    match tag {
        TAG_TEXT => Some(KeyValue::Text(bytes)),
        TAG_DIGEST => Some(KeyValue::Digest(bytes)),
        TAG_ADDRESS => match *bytes {
            [a, b, c, d] => Some(KeyValue::Address([a, b, c, d].into())),
            _ => <[u8; 16]>::try_from(bytes)
                .ok()
                .map(|octets| KeyValue::Address(Ipv6Addr::from(octets).into())),
        },
        _ => None,
    }
}
