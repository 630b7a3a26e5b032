//! The names of attributes, and how values of the reserved attributes are compared.

use std::fmt;

use super::CaseSensitivity;
use super::pattern::path_without_query;

/// The name of an attribute, as a rule writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// `method`, not case-sensitive.
    Method,
    /// `path`, up to `?` or `#`.
    Path,
    /// `host`, not case-sensitive.
    Host,
    /// `ip`, and Envoy's names for it, compared as an address.
    Address(AddressAttribute),
    /// `header.NAME`, with NAME in lower case. NAME is not case-sensitive.
    Header(Box<str>),
    /// Any other descriptor key, unchanged.
    Plain(Box<str>),
}

/// An attribute whose values are addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressAttribute {
    /// `ip`.
    Ip,
    /// `remote_address`, as Envoy names it.
    RemoteAddress,
    /// `masked_remote_address`, as Envoy names it. Its values are blocks, `10.1.0.0/16`, which stand for their first
    /// address.
    MaskedRemoteAddress,
}

const HEADER: &str = "header.";

impl AddressAttribute {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ip, Self::RemoteAddress, Self::MaskedRemoteAddress];

    /// The name in descriptors and rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::RemoteAddress => "remote_address",
            Self::MaskedRemoteAddress => "masked_remote_address",
        }
    }
}

impl Attribute {
    /// The attribute with this name.
    pub fn from_name(name: &str) -> Self {
        match name {
            "method" => Self::Method,
            "path" => Self::Path,
            "host" => Self::Host,
            "ip" => Self::Address(AddressAttribute::Ip),
            "remote_address" => Self::Address(AddressAttribute::RemoteAddress),
            "masked_remote_address" => Self::Address(AddressAttribute::MaskedRemoteAddress),
            _ => match Self::header_name(name) {
                Some(header) => Self::Header(header.to_ascii_lowercase().into()),
                None => Self::Plain(name.into()),
            },
        }
    }

    /// Whether a descriptor entry with this key is this attribute.
    pub fn matches_key(&self, key: &str) -> bool {
        match self {
            Self::Method => key == "method",
            Self::Path => key == "path",
            Self::Host => key == "host",
            Self::Address(address) => key == address.name(),
            Self::Header(name) => {
                Self::header_name(key).is_some_and(|header| header.eq_ignore_ascii_case(name))
            }
            Self::Plain(name) => **name == *key,
        }
    }

    /// The text after `header.` in a descriptor key, if the key is that of a header.
    pub(super) fn header_name(key: &str) -> Option<&str> {
        key.strip_prefix(HEADER).filter(|header| !header.is_empty())
    }

    /// Whether its values are case-sensitive.
    pub fn case(&self) -> CaseSensitivity {
        match self {
            Self::Method | Self::Host => CaseSensitivity::Insensitive,
            Self::Path | Self::Address(_) | Self::Header(_) | Self::Plain(_) => CaseSensitivity::Sensitive,
        }
    }

    /// The part of a value that patterns are compared with.
    pub fn comparable_part<'a>(&self, value: &'a str) -> &'a str {
        match self {
            Self::Path => path_without_query(value),
            Self::Address(AddressAttribute::MaskedRemoteAddress) => address_of_block(value),
            _ => value,
        }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method => f.write_str("method"),
            Self::Path => f.write_str("path"),
            Self::Host => f.write_str("host"),
            Self::Address(address) => f.write_str(address.name()),
            Self::Header(name) => write!(f, "{HEADER}{name}"),
            Self::Plain(name) => f.write_str(name),
        }
    }
}

/// The address in `10.1.0.0/16`.
fn address_of_block(value: &str) -> &str {
    match value.rsplit_once('/') {
        Some((address, bits)) if !bits.is_empty() && bits.bytes().all(|bit| bit.is_ascii_digit()) => address,
        _ => value,
    }
}
