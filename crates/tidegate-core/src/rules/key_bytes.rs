//! Encodes the key of a descriptor as bytes.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Range;

use smallvec::SmallVec;

use super::blake2b;
use super::client_address::parse_client_address;
use super::pattern::network_address;
use super::{Attribute, CaseSensitivity, Descriptor, KeyPart, KeySpec, path_segment};
use crate::key::values::{KeyValue, TAG_ABSENT, push_key_value};

/// A longer part is replaced by its digest (BLAKE2b with 32 bytes), so that clients cannot find two values with one key.
pub const KEY_PART_BYTES_MAX: usize = 1024;

/// The keys of a request, one after the other.
pub(super) type KeyBuffer = SmallVec<[u8; 192]>;

/// Whether a descriptor has all parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyCompleteness {
    Complete,
    Incomplete,
}

/// Appends the key of a descriptor to `buffer`. A missing part is written as missing. Values that are equal in
/// conditions are equal here, so that a client gets no fresh counter by writing `POST` as `post`, or by changing the
/// query of a path.
#[inline]
pub(super) fn write_key(
    key: &KeySpec,
    descriptor: &Descriptor<'_>,
    buffer: &mut KeyBuffer,
) -> (Range<usize>, KeyCompleteness) {
    write_key_of(key, |part| value(part, descriptor), buffer)
}

/// Like [`write_key`], with the values that `value` returns.
#[inline]
pub(super) fn write_key_of<'v>(
    key: &KeySpec,
    value: impl Fn(&KeyPart) -> Option<&'v str>,
    buffer: &mut KeyBuffer,
) -> (Range<usize>, KeyCompleteness) {
    let start = buffer.len();
    let mut completeness = KeyCompleteness::Complete;
    for part in key.parts() {
        match (part, value(part)) {
            (_, None) => {
                buffer.push(TAG_ABSENT);
                completeness = KeyCompleteness::Incomplete;
            }
            (KeyPart::Address { ipv6_prefix_bits, .. }, Some(text)) => match parse_client_address(text) {
                Some(address) => write_address(client_network(address, *ipv6_prefix_bits), buffer),
                // As text, each spelling would be a client with a counter of its own.
                None => {
                    buffer.push(TAG_ABSENT);
                    completeness = KeyCompleteness::Incomplete;
                }
            },
            (KeyPart::Attribute(attribute), Some(text)) => write_text(text, attribute.case(), buffer),
            (_, Some(text)) => write_text(text, CaseSensitivity::Sensitive, buffer),
        }
    }
    (start..buffer.len(), completeness)
}

/// Appends text unchanged, with its length, so that consecutive texts cannot run into each other.
pub(super) fn write_verbatim(text: &str, buffer: &mut KeyBuffer) {
    write_text(text, CaseSensitivity::Sensitive, buffer);
}

/// A value for people. It is quoted if it is empty or contains spaces, `=`, `"` or control characters.
pub fn value_text(value: &str) -> Cow<'_, str> {
    let needs_quotes = |c: char| c.is_control() || c.is_whitespace() || c == '=' || c == '"';
    if value.is_empty() || value.contains(needs_quotes) { format!("{value:?}").into() } else { value.into() }
}

/// A key for people: `user=42 ip=192.0.2.1`.
pub fn key_text(key: &KeySpec, descriptor: &Descriptor<'_>) -> String {
    let part = |part: &KeyPart| match (key_value(part, descriptor), value(part, descriptor)) {
        (Some(value), _) => format!("{part}={}", value_text(&value)),
        (None, Some(text)) => format!("{part}={} is not an address", value_text(text)),
        (None, None) => format!("{part} missing"),
    };
    key.parts().iter().map(part).collect::<Vec<_>>().join(" ")
}

/// The value of a key's part for people, as it is counted. `None` if the descriptor lacks it.
pub fn key_value<'a>(part: &KeyPart, descriptor: &Descriptor<'a>) -> Option<Cow<'a, str>> {
    value(part, descriptor).and_then(|text| counted_value(part, text))
}

/// A value of a key's part as it is counted: in lower case, or as the network of a client. `None` if the part is an
/// address and the value is none: it counts as missing.
pub fn counted_value<'a>(part: &KeyPart, text: &'a str) -> Option<Cow<'a, str>> {
    Some(match part {
        KeyPart::Address { attribute, ipv6_prefix_bits } => {
            match parse_client_address(Attribute::Address(*attribute).comparable_part(text))? {
                address @ IpAddr::V6(_) if *ipv6_prefix_bits < 128 => {
                    format!("{}/{ipv6_prefix_bits}", client_network(address, *ipv6_prefix_bits)).into()
                }
                address => address.to_string().into(),
            }
        }
        KeyPart::Attribute(attribute) if attribute.case() == CaseSensitivity::Insensitive => {
            text.to_ascii_lowercase().into()
        }
        _ => text.into(),
    })
}

/// The parts of a key that a descriptor lacks.
pub fn missing_key_parts<'k>(key: &'k KeySpec, descriptor: &Descriptor<'_>) -> Vec<&'k KeyPart> {
    key.parts().iter().filter(|part| key_value(part, descriptor).is_none()).collect()
}

fn value<'a>(part: &KeyPart, descriptor: &Descriptor<'a>) -> Option<&'a str> {
    match part {
        KeyPart::Attribute(attribute) => {
            descriptor.value(attribute).map(|value| attribute.comparable_part(value))
        }
        KeyPart::Address { attribute, .. } => {
            let attribute = Attribute::Address(*attribute);
            descriptor.value(&attribute).map(|value| attribute.comparable_part(value))
        }
        KeyPart::PathSegment { index, .. } => {
            descriptor.value(&Attribute::Path).and_then(|path| path_segment(path, *index))
        }
        KeyPart::Entry(index) => descriptor.entries.get(*index).map(|entry| entry.value),
        KeyPart::EntryName(index) => descriptor.entries.get(*index).map(|entry| entry.key),
    }
}

/// The first address of the network that counts as one client.
fn client_network(address: IpAddr, ipv6_prefix_bits: u8) -> IpAddr {
    if address.is_ipv4() { address } else { network_address(address, ipv6_prefix_bits) }
}

fn write_address(address: IpAddr, buffer: &mut KeyBuffer) {
    push_key_value(buffer, KeyValue::Address(address));
}

fn write_text(text: &str, case: CaseSensitivity, buffer: &mut KeyBuffer) {
    if text.len() <= KEY_PART_BYTES_MAX {
        push_key_value(buffer, KeyValue::Text(text.as_bytes()));
        if case == CaseSensitivity::Insensitive {
            let start = buffer.len() - text.len();
            buffer[start..].make_ascii_lowercase();
        }
        return;
    }
    let digest = match case {
        CaseSensitivity::Sensitive => blake2b::digest(text.as_bytes()),
        CaseSensitivity::Insensitive => blake2b::digest(text.to_ascii_lowercase().as_bytes()),
    };
    push_key_value(buffer, KeyValue::Digest(&digest));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Entry;
    use crate::{KeyValue, key_values};

    #[test]
    fn key_values_are_decoded_from_key_bytes() {
        let attribute = |name| KeyPart::Attribute(Attribute::from_name(name));
        let ip = KeyPart::IP;
        let key =
            KeySpec::new([attribute("method"), attribute("long"), attribute("none"), attribute("user"), ip]);
        let long = "x".repeat(KEY_PART_BYTES_MAX + 1);
        let entry = |key, value| Entry { key, value };
        for (ip, address) in [("192.0.2.1", "192.0.2.1"), ("2001:db8::1:2:3:4", "2001:db8::")] {
            let entries =
                [entry("method", "GET"), entry("long", &long), entry("user", "Ann"), entry("ip", ip)];
            let mut buffer = KeyBuffer::new();
            write_key(&key, &Descriptor::new(&entries, 1), &mut buffer);
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
            assert_eq!(digest, blake2b::digest(long.as_bytes()));
            assert_eq!(last, KeyValue::Address(address.parse().unwrap()));
            // A truncated key never yields more values.
            for length in 0..buffer.len() {
                assert!(key_values(&buffer[..length]).count() < values.len());
            }
        }
    }
}
