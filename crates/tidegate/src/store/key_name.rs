//! The names of keys in a shared store: `tg:1{42}Zm9vYmFyMTI`.
//!
//! ```text
//! <namespace>:1{<entity>}<counter>
//! ```
//!
//! - The namespace separates installations that share one store.
//! - `1` is the version of the state format. Another version would count under other names, beside this one.
//! - The entity is the values of the limit's key. They are readable if they are short and not secret, and a
//!   hash otherwise. The entity is the hash tag, so all limits of one entity are in one slot of a Redis
//!   cluster.
//! - The counter says which limit it is.

use std::fmt::Write;

use ring::digest;
use smallvec::SmallVec;
use tidegate_core::{Charge, KeyForm, KeyValue, key_values};

/// The name of a key. Most need no allocation.
pub(crate) type KeyName = SmallVec<[u8; 40]>;

/// The version of the state format.
const STATE_VERSION: u8 = b'1';
/// A longer entity is hashed.
const ENTITY_BYTES_MAX: usize = 24;
/// How much of a digest is used.
const DIGEST_BYTES: usize = 16;

/// The entity of a limit that has no key.
const NO_KEY: u8 = b'*';
/// The prefix of a hashed entity.
const HASHED_PREFIX: u8 = b'#';
/// The separator of values, and the mark of a missing value. Neither is allowed in a readable value.
const VALUE_SEPARATOR: u8 = b'|';
const ABSENT_VALUE: u8 = b'!';

const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The name of the key for a charge.
pub(crate) fn key_name(namespace: &str, charge: &Charge<'_>) -> KeyName {
    let mut name = KeyName::new();
    name.extend_from_slice(namespace.as_bytes());
    name.extend_from_slice(&[b':', STATE_VERSION, b'{']);
    let entity_at = name.len();
    if write_entity(charge, &mut name).is_none() {
        name.truncate(entity_at);
        name.push(HASHED_PREFIX);
        let digest = digest::digest(&digest::SHA256, charge.key);
        write_base64(&digest.as_ref()[..DIGEST_BYTES], &mut name);
    }
    name.push(b'}');
    write_base64(&charge.counter.id().get().to_be_bytes(), &mut name);
    name
}

/// Writes the entity in readable form; none if it is too long, secret or ambiguous.
fn write_entity(charge: &Charge<'_>, name: &mut KeyName) -> Option<()> {
    let start = name.len();
    match charge.counter.key_form() {
        _ if charge.key.is_empty() => name.push(NO_KEY),
        KeyForm::Plain => write_value(charge.key, name)?,
        KeyForm::Values => write_values(charge.key, name)?,
        KeyForm::Secret => return None,
    }
    (1..=ENTITY_BYTES_MAX).contains(&(name.len() - start)).then_some(())
}

fn write_values(key: &[u8], name: &mut KeyName) -> Option<()> {
    // Bytes that are not values are hashed.
    let mut bytes_read = 0;
    for value in key_values(key) {
        if bytes_read > 0 {
            name.push(VALUE_SEPARATOR);
        }
        bytes_read += match value {
            KeyValue::Absent => {
                name.push(ABSENT_VALUE);
                1
            }
            KeyValue::Text(text) => {
                write_value(text, name)?;
                3 + text.len()
            }
            KeyValue::Address(address) => {
                let mut text = String::new();
                write!(text, "{address}").ok()?;
                write_value(text.as_bytes(), name)?;
                3 + if address.is_ipv4() { 4 } else { 16 }
            }
            KeyValue::Digest(_) => return None,
        };
    }
    (bytes_read == key.len()).then_some(())
}

fn write_value(text: &[u8], name: &mut KeyName) -> Option<()> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._:@/,=+-".contains(byte);
    if text.len() > ENTITY_BYTES_MAX || !text.iter().all(is_plain) {
        return None;
    }
    name.extend_from_slice(text);
    Some(())
}

fn write_base64(bytes: &[u8], name: &mut KeyName) {
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            name.push(BASE64_URL[(bits >> (18 - 6 * digit) & 63) as usize]);
        }
    }
}
