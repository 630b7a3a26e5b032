//! From the bytes of a key back to the values that it was made of, for those who show it to people.

use std::net::{IpAddr, Ipv6Addr};

// The byte that a part begins with, so that no two keys are written the same way.
pub(crate) const TAG_ABSENT: u8 = 0;
pub(crate) const TAG_TEXT: u8 = 1;
pub(crate) const TAG_DIGEST: u8 = 2;
pub(crate) const TAG_ADDRESS: u8 = 3;

/// One part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValue<'k> {
    /// The descriptor did not have it.
    Absent,
    /// Its value.
    Text(&'k [u8]),
    /// A digest of its value, which was too long.
    Digest(&'k [u8]),
    /// An address, or the first of those that count as one client.
    Address(IpAddr),
}

/// The parts of a key that [rules](crate::KeyForm::Values) made, in their order. Stops at bytes that are not a part.
pub fn key_values(key: &[u8]) -> impl Iterator<Item = KeyValue<'_>> {
    let mut rest = key;
    std::iter::from_fn(move || {
        let (kind, behind) = rest.split_first()?;
        if *kind == TAG_ABSENT {
            rest = behind;
            return Some(KeyValue::Absent);
        }
        let (length, behind) = behind.split_first_chunk::<2>()?;
        let (bytes, behind) = behind.split_at_checked(u16::from_le_bytes(*length).into())?;
        rest = behind;
        value(*kind, bytes)
    })
}

fn value(kind: u8, bytes: &[u8]) -> Option<KeyValue<'_>> {
    match kind {
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
