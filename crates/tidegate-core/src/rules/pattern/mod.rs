//! What the value of an attribute has to be.
//!
//! ```text
//! value_set, wildcard, regex    the shapes a value can be asked to have
//! path, path_set, net, net_set  those of paths and addresses
//! case                          whether upper and lower case differ
//! display                       patterns as a file writes them
//! error                         what is wrong with one that is none
//! ```
//!
//! Text becomes a pattern through checked constructors alone. Each takes time and memory in proportion to the text
//! it is given, whatever the text is.

mod case;
mod display;
mod error;
mod net;
mod net_set;
mod path;
mod path_set;
mod regex;
mod value_set;
mod wildcard;

pub use case::CaseSensitivity;
pub use error::PatternError;
pub use net::Net;
pub use net_set::NetSet;
pub use path::{PATH_SEGMENTS_MAX, PathPattern, Segment, path_segment, path_without_query};
pub use path_set::PathSet;
pub use regex::{REGEX_COMPILED_BYTES_MAX, REGEX_NESTING_MAX, Regex};
pub use value_set::ValueSet;
pub use wildcard::Wildcard;

pub(super) use display::Shortened;
pub(super) use net::network_address;
pub(super) use path::path_segments;

use error::quoted;

/// The longest text of a pattern, and of each value of a set.
pub const PATTERN_TEXT_BYTES_MAX: usize = 4_096;
/// The most values, shapes of paths, or blocks of addresses, of one set.
pub const SET_ENTRIES_MAX: usize = 100_000;

/// What a value has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Whatever it is, as long as it is there.
    Any,
    /// This.
    Exact(Box<str>),
    /// Any of these.
    OneOf(ValueSet),
    /// Beginning so.
    Prefix(Box<str>),
    /// Like this.
    Wildcard(Wildcard),
    /// Matched as a whole.
    Regex(Regex),
    /// A path of this shape; of a `path` alone.
    Path(PathPattern),
    /// A path of any of these shapes; of a `path` alone.
    Paths(PathSet),
    /// An address in any of these; of an `ip` alone.
    Nets(NetSet),
    /// Not this. Matches a descriptor without the attribute.
    Not(Box<Pattern>),
    /// Not there at all.
    Absent,
}

impl Pattern {
    /// This value.
    pub fn exact(value: &str) -> Result<Self, PatternError> {
        check_length(value)?;
        Ok(Self::Exact(value.into()))
    }

    /// Any of these values, in whatever order.
    pub fn one_of(values: impl IntoIterator<Item = impl Into<Box<str>>>) -> Result<Self, PatternError> {
        ValueSet::new(values).map(Self::OneOf)
    }

    /// Values that begin so.
    pub fn prefix(beginning: &str) -> Result<Self, PatternError> {
        check_length(beginning)?;
        if beginning.is_empty() {
            return Err(PatternError::new("every value begins with nothing", "write `{ exists: true }`"));
        }
        Ok(Self::Prefix(beginning.into()))
    }

    /// Values like this text, in which `*` stands for any characters, none included.
    pub fn wildcard(text: &str) -> Result<Self, PatternError> {
        Wildcard::new(text).map(Self::Wildcard)
    }

    /// Values that match this regular expression as a whole. The attribute knows its
    /// [`case`](super::Attribute::case).
    pub fn regex(text: &str, case: CaseSensitivity) -> Result<Self, PatternError> {
        Regex::new(text, case).map(Self::Regex)
    }

    /// Paths of this shape.
    pub fn path(text: &str) -> Result<Self, PatternError> {
        PathPattern::parse(text).map(Self::Path)
    }

    /// Paths of any of these shapes, in whatever order.
    pub fn paths(paths: impl IntoIterator<Item = PathPattern>) -> Result<Self, PatternError> {
        PathSet::new(paths).map(Self::Paths)
    }

    /// Addresses in any of these blocks.
    pub fn nets(nets: impl IntoIterator<Item = Net>) -> Result<Self, PatternError> {
        NetSet::new(nets).map(Self::Nets)
    }

    /// Whatever does not match this one. What is denied twice is what it was.
    pub fn negated(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            pattern => Self::Not(Box::new(pattern)),
        }
    }
}

/// Refuses text that is longer than a pattern may be.
fn check_length(text: &str) -> Result<(), PatternError> {
    if text.len() <= PATTERN_TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(PatternError::new(
        format!("{} is {} bytes long", quoted(text), text.len()),
        format!("at most {PATTERN_TEXT_BYTES_MAX} bytes are possible"),
    ))
}
