//! What a counter's key is made of.

use std::fmt;

use super::Attribute;

/// The attributes whose values make a key. None of them: one counter for everyone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
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
        place: usize,
    },
    /// The value of an entry of the descriptor, counted from 0, whatever its name.
    Entry(usize),
}

/// What happens if a descriptor lacks an attribute of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The limit does not apply.
    Skip,
    /// The request is denied.
    Deny,
    /// All who lack it share a counter.
    #[default]
    Shared,
}

impl Key {
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
    pub(super) fn names(&self) -> String {
        self.parts.iter().map(ToString::to_string).collect::<Vec<_>>().join("\u{1e}")
    }

    /// Its parts, in an order of their own.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }
}

/// As rules write it.
impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attribute(attribute) => attribute.fmt(f),
            Self::Ip { ipv6_prefix_bits: Key::IPV6_PREFIX_BITS_DEFAULT } => f.write_str("ip"),
            Self::Ip { ipv6_prefix_bits } => write!(f, "ip/{ipv6_prefix_bits}"),
            Self::PathSegment { name, .. } => write!(f, "path.{name}"),
            Self::Entry(place) => write!(f, "entry.{}", place + 1),
        }
    }
}
