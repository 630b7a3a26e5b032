//! The pattern of a value, of any kind.

use super::error::quoted;
use super::{CaseSensitivity, Net, NetSet, PathPattern, PathSet, PatternError, Regex, ValueSet, Wildcard};

/// The longest text of a pattern, and of each value in a set.
pub const PATTERN_TEXT_BYTES_MAX: usize = 4_096;
/// The most values, path patterns or address blocks in one set.
pub const SET_ENTRIES_MAX: usize = 100_000;

/// What a value has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Any value.
    Any,
    /// This value.
    Exact(Box<str>),
    /// One of these values.
    OneOf(ValueSet),
    /// A value with this prefix.
    Prefix(Box<str>),
    /// A value that matches this wildcard.
    Wildcard(Wildcard),
    /// A value that matches as a whole.
    Regex(Regex),
    /// A path that matches this pattern. Only for the attribute `path`.
    Path(PathPattern),
    /// A path that matches one of these patterns. Only for the attribute `path`.
    Paths(PathSet),
    /// An address in one of these blocks. Only for the attribute `ip`.
    Nets(NetSet),
    /// Not this. Also matches a descriptor without the attribute.
    Not(Box<Pattern>),
    /// The descriptor does not have the attribute.
    Absent,
}

impl Pattern {
    /// This value.
    pub fn exact(value: &str) -> Result<Self, PatternError> {
        check_length(value)?;
        Ok(Self::Exact(value.into()))
    }

    /// One of these values, in any order.
    pub fn one_of(values: impl IntoIterator<Item = impl Into<Box<str>>>) -> Result<Self, PatternError> {
        ValueSet::new(values).map(Self::OneOf)
    }

    /// Values with this prefix.
    pub fn prefix(prefix: &str) -> Result<Self, PatternError> {
        check_length(prefix)?;
        if prefix.is_empty() {
            return Err(PatternError::new("every value begins with nothing", "write `{ exists: true }`"));
        }
        Ok(Self::Prefix(prefix.into()))
    }

    /// Values that match this text, in which `*` stands for any characters, including none.
    pub fn wildcard(text: &str) -> Result<Self, PatternError> {
        Wildcard::new(text).map(Self::Wildcard)
    }

    /// Values that match this regular expression as a whole.
    /// [`Attribute::case`](crate::rules::Attribute::case) returns the case sensitivity.
    pub fn regex(text: &str, case: CaseSensitivity) -> Result<Self, PatternError> {
        Regex::new(text, case).map(Self::Regex)
    }

    /// Paths that match this pattern.
    pub fn path(text: &str) -> Result<Self, PatternError> {
        PathPattern::parse(text).map(Self::Path)
    }

    /// Paths that match one of these patterns, in any order.
    pub fn paths(paths: impl IntoIterator<Item = PathPattern>) -> Result<Self, PatternError> {
        PathSet::new(paths).map(Self::Paths)
    }

    /// Addresses in one of these blocks.
    pub fn nets(nets: impl IntoIterator<Item = Net>) -> Result<Self, PatternError> {
        NetSet::new(nets).map(Self::Nets)
    }

    /// The negation of this pattern. Negating twice returns the original.
    pub fn negated(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            pattern => Self::Not(Box::new(pattern)),
        }
    }
}

/// Refuses text that is too long for a pattern.
pub(super) fn check_length(text: &str) -> Result<(), PatternError> {
    if text.len() <= PATTERN_TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(PatternError::new(
        format!("{} is {} bytes long", quoted(text), text.len()),
        format!("at most {PATTERN_TEXT_BYTES_MAX} bytes are allowed"),
    ))
}
