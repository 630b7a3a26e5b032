//! What a counter's key is made of.

use std::fmt;

use super::{Attribute, EntryPatterns};
use crate::KeyForm;

/// The attributes whose values make a key. None of them: one counter for everyone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySpec {
    parts: Vec<KeyPart>,
}

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPart {
    /// The value of an attribute; of a name that stands twice, the first.
    Attribute(Attribute),
    /// The address: of IPv4 all of it, of IPv6 the first so many bits, 64 by default.
    Ip {
        /// 1 to 128.
        ipv6_prefix_bits: u8,
    },
    /// A segment of the path.
    PathSegment {
        /// What the rule calls it: `id` where a pattern has `{id}`, else its number, from 1. Counters are known by it,
        /// so that `{id}` may move.
        name: Box<str>,
        /// Its place, from 0.
        index: usize,
    },
    /// The value of an entry of the descriptor, counted from 0, whatever its name.
    Entry(usize),
}

/// What the names of attributes have in them whose values are secrets.
const SECRET_NAMES: [&str; 11] =
    ["auth", "cookie", "credential", "jwt", "key", "pass", "pwd", "secret", "session", "signature", "token"];

/// What happens if a descriptor lacks an attribute of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissingKey {
    /// The limit does not apply.
    Skip,
    /// The request is denied.
    Deny,
    /// All who lack it share a counter.
    #[default]
    Shared,
}

impl KeySpec {
    /// The bits of an IPv6 address that stand for one client.
    pub const IPV6_PREFIX_BITS_DEFAULT: u8 = 64;

    /// A key of these parts. Their order does not matter, and none counts twice.
    pub fn new(parts: impl IntoIterator<Item = KeyPart>) -> Self {
        let mut parts: Vec<KeyPart> = parts.into_iter().collect();
        parts.sort();
        parts.dedup();
        Self { parts }
    }

    /// What its parts are called, as text that is the same if and only if they are.
    pub(super) fn part_names(&self) -> String {
        self.parts.iter().map(ToString::to_string).collect::<Vec<_>>().join("\u{1e}")
    }

    /// What the bytes of such keys are, in a rule that has these entries.
    pub(super) fn key_form(&self, entries: Option<&EntryPatterns>) -> KeyForm {
        let is_secret = |part: &KeyPart| match part {
            KeyPart::Attribute(attribute) => may_be_secret(attribute),
            KeyPart::Ip { .. } => false,
            KeyPart::PathSegment { name, .. } => is_secret_name(name),
            KeyPart::Entry(place) => entries
                .and_then(|entries| entries.patterns.get(*place))
                .is_none_or(|(name, _)| may_be_secret(&Attribute::from_name(name))),
        };
        if self.parts.iter().any(is_secret) { KeyForm::Secret } else { KeyForm::Values }
    }

    /// Its parts, in an order of their own.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }
}

/// Whether the values of an attribute may be such that who knows them is let in somewhere. Of headers that is taken for
/// granted.
fn may_be_secret(attribute: &Attribute) -> bool {
    match attribute {
        Attribute::Header(_) => true,
        Attribute::Plain(name) => is_secret_name(name),
        Attribute::Method | Attribute::Path | Attribute::Host | Attribute::Ip => false,
    }
}

/// Whether something is called as secrets are.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// As rules write it.
impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attribute(attribute) => attribute.fmt(f),
            Self::Ip { ipv6_prefix_bits: KeySpec::IPV6_PREFIX_BITS_DEFAULT } => f.write_str("ip"),
            Self::Ip { ipv6_prefix_bits } => write!(f, "ip/{ipv6_prefix_bits}"),
            Self::PathSegment { name, .. } => write!(f, "path.{name}"),
            Self::Entry(place) => write!(f, "entry.{}", place + 1),
        }
    }
}
