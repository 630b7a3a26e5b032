//! Which attributes make the key of a counter.

use std::fmt;

use super::{AddressAttribute, Attribute, EntryPatterns};
use crate::KeyForm;

/// The attributes whose values make a key. Without attributes, all requests share one counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySpec {
    parts: Vec<KeyPart>,
}

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPart {
    /// The value of an attribute. If the name occurs more than once, the first.
    Attribute(Attribute),
    /// An address. For IPv6 only a prefix, by default the first 64 bits.
    Address {
        /// Which address.
        attribute: AddressAttribute,
        /// 1 to 128.
        ipv6_prefix_bits: u8,
    },
    /// A segment of the path.
    PathSegment {
        /// The name in the rule: `id` if a pattern has `{id}`, otherwise the segment's number, from 1. The name is part
        /// of the counter's identity, so that `{id}` may move.
        name: Box<str>,
        /// The index of the segment, from 0.
        index: usize,
    },
    /// The value of a descriptor entry by index, from 0, whatever its name.
    Entry(usize),
    /// The name of a descriptor entry by index, from 0, where the rule has a wildcard for it.
    EntryName(usize),
}

/// An attribute whose name contains one of these is taken for a secret.
const SECRET_NAMES: [&str; 11] =
    ["auth", "cookie", "credential", "jwt", "key", "pass", "pwd", "secret", "session", "signature", "token"];

/// What happens if a descriptor lacks an attribute of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissingKey {
    /// The limit does not apply.
    Skip,
    /// The request is denied.
    Deny,
    /// All requests without it share a counter.
    #[default]
    Shared,
}

impl KeyPart {
    /// The address of the client, with the default prefix.
    pub const IP: Self = Self::Address {
        attribute: AddressAttribute::Ip,
        ipv6_prefix_bits: KeySpec::IPV6_PREFIX_BITS_DEFAULT,
    };

    /// The attribute that it is a value of. `None` for entries by index.
    pub fn attribute(&self) -> Option<Attribute> {
        match self {
            Self::Attribute(attribute) => Some(attribute.clone()),
            Self::Address { attribute, .. } => Some(Attribute::Address(*attribute)),
            Self::PathSegment { .. } => Some(Attribute::Path),
            Self::Entry(_) | Self::EntryName(_) => None,
        }
    }
}

impl KeySpec {
    /// The default prefix of an IPv6 client, in bits.
    pub const IPV6_PREFIX_BITS_DEFAULT: u8 = 64;

    /// A key of these parts. The order does not matter, and duplicates are dropped.
    pub fn new(parts: impl IntoIterator<Item = KeyPart>) -> Self {
        let mut parts: Vec<KeyPart> = parts.into_iter().collect();
        parts.sort();
        parts.dedup();
        Self { parts }
    }

    /// The names of its parts, as text that is equal if and only if the parts are.
    pub(super) fn part_names(&self) -> String {
        self.parts.iter().map(ToString::to_string).collect::<Vec<_>>().join("\u{1e}")
    }

    /// The form of such keys, in a rule with these entries.
    pub(super) fn key_form(&self, entries: Option<&EntryPatterns>) -> KeyForm {
        let is_secret = |part: &KeyPart| match part {
            KeyPart::Attribute(attribute) => may_be_secret(attribute),
            KeyPart::Address { .. } | KeyPart::EntryName(_) => false,
            KeyPart::PathSegment { name, .. } => is_secret_name(name),
            KeyPart::Entry(index) => entries
                .and_then(|entries| entries.patterns.get(*index))
                .is_none_or(|(name, _)| may_be_secret(&Attribute::from_name(name))),
        };
        if self.parts.iter().any(is_secret) { KeyForm::Secret } else { KeyForm::Values }
    }

    /// The parts, sorted.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }
}

/// Whether the values of an attribute may be secrets that grant access. Headers always may.
fn may_be_secret(attribute: &Attribute) -> bool {
    match attribute {
        Attribute::Header(_) => true,
        Attribute::Plain(name) => is_secret_name(name),
        Attribute::Method | Attribute::Path | Attribute::Host | Attribute::Address(_) => false,
    }
}

/// Whether a name sounds like that of a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// As written in rules.
impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attribute(attribute) => attribute.fmt(f),
            Self::Address { attribute, ipv6_prefix_bits: KeySpec::IPV6_PREFIX_BITS_DEFAULT } => {
                f.write_str(attribute.name())
            }
            Self::Address { attribute, ipv6_prefix_bits } => {
                write!(f, "{}/{ipv6_prefix_bits}", attribute.name())
            }
            Self::PathSegment { name, .. } => write!(f, "path.{name}"),
            Self::Entry(index) => write!(f, "entry.{}", index + 1),
            Self::EntryName(index) => write!(f, "entry.{}.name", index + 1),
        }
    }
}
