//! The names of attributes, and how the values of the reserved ones are compared.

use std::fmt;

use super::CaseSensitivity;
use super::pattern::path_without_query;

/// The name of an attribute, as a rule writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// `method`, compared without regard to case.
    Method,
    /// `path`, up to `?` or `#`.
    Path,
    /// `host`, compared without regard to case.
    Host,
    /// `ip`, compared as an address.
    Ip,
    /// `header.NAME`, in lower case here; NAME is compared without regard to case.
    Header(Box<str>),
    /// Any other descriptor key, as it is.
    Plain(Box<str>),
}

const HEADER: &str = "header.";

impl Attribute {
    /// The attribute of this name.
    pub fn from_name(name: &str) -> Self {
        match name {
            "method" => Self::Method,
            "path" => Self::Path,
            "host" => Self::Host,
            "ip" => Self::Ip,
            _ => match Self::header_name(name) {
                Some(header) => Self::Header(header.to_ascii_lowercase().into()),
                None => Self::Plain(name.into()),
            },
        }
    }

    /// Whether a descriptor's entry with this key is this attribute.
    pub fn matches_key(&self, key: &str) -> bool {
        match self {
            Self::Method => key == "method",
            Self::Path => key == "path",
            Self::Host => key == "host",
            Self::Ip => key == "ip",
            Self::Header(name) => {
                Self::header_name(key).is_some_and(|header| header.eq_ignore_ascii_case(name))
            }
            Self::Plain(name) => **name == *key,
        }
    }

    /// What follows `header.` in a descriptor's key, if it is a header's.
    pub(super) fn header_name(key: &str) -> Option<&str> {
        key.strip_prefix(HEADER).filter(|header| !header.is_empty())
    }

    /// Whether upper and lower case of its values differ.
    pub fn case(&self) -> CaseSensitivity {
        match self {
            Self::Method | Self::Host => CaseSensitivity::Insensitive,
            Self::Path | Self::Ip | Self::Header(_) | Self::Plain(_) => CaseSensitivity::Sensitive,
        }
    }

    /// The part of a value that patterns are compared with.
    pub fn comparable_part<'a>(&self, value: &'a str) -> &'a str {
        match self {
            Self::Path => path_without_query(value),
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
            Self::Ip => f.write_str("ip"),
            Self::Header(name) => write!(f, "{HEADER}{name}"),
            Self::Plain(name) => f.write_str(name),
        }
    }
}
