//! From the bytes of a key back to the values that it was made of, for those who show it to people.

use std::net::{IpAddr, Ipv6Addr};

use super::key_bytes::{ABSENT, ADDRESS, DIGEST, TEXT};

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

/// The parts of a key that [rules](crate::KeyForm::Values) made, in their order. Ends where bytes are none.
pub fn key_values(key: &[u8]) -> impl Iterator<Item = KeyValue<'_>> {
    let mut rest = key;
    std::iter::from_fn(move || {
        let (kind, behind) = rest.split_first()?;
        if *kind == ABSENT {
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
        TEXT => Some(KeyValue::Text(bytes)),
        DIGEST => Some(KeyValue::Digest(bytes)),
        ADDRESS => match *bytes {
            [a, b, c, d] => Some(KeyValue::Address([a, b, c, d].into())),
            _ => <[u8; 16]>::try_from(bytes)
                .ok()
                .map(|octets| KeyValue::Address(Ipv6Addr::from(octets).into())),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::key_bytes::{self, KEY_PART_BYTES_MAX, KeyBuffer};
    use crate::rules::{Attribute, Descriptor, Entry, Key, KeyPart};

    #[test]
    fn a_key_is_taken_apart_into_what_it_was_made_of() {
        let attribute = |name| KeyPart::Attribute(Attribute::named(name));
        let ip = KeyPart::Ip { ipv6_prefix_bits: 64 };
        let key =
            Key::new([attribute("method"), attribute("long"), attribute("none"), attribute("user"), ip]);
        let long = "x".repeat(KEY_PART_BYTES_MAX + 1);
        let entry = |key, value| Entry { key, value };
        for (ip, address) in [("192.0.2.1", "192.0.2.1"), ("2001:db8::1:2:3:4", "2001:db8::")] {
            let entries =
                [entry("method", "GET"), entry("long", &long), entry("user", "Ann"), entry("ip", ip)];
            let mut buffer = KeyBuffer::new();
            key_bytes::write(&key, &Descriptor::new(&entries, 1), &mut buffer);
            let values: Vec<KeyValue<'_>> = key_values(&buffer).collect();
            let [
                KeyValue::Text(b"get"),
                KeyValue::Digest(digest),
                KeyValue::Absent,
                KeyValue::Text(b"Ann"),
                last,
            ] = values[..]
            else {
                panic!("{values:?}");
            };
            assert_eq!(digest.len(), 16);
            assert_eq!(last, KeyValue::Address(address.parse().unwrap()));
            // Whatever is cut off, nothing is made up.
            for length in 0..buffer.len() {
                assert!(key_values(&buffer[..length]).count() < values.len());
            }
        }
    }
}
