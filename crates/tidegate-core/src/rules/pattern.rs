//! What the value of an attribute has to be.

use std::net::IpAddr;

/// What a value has to be.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Whatever it is, as long as it is there.
    Any,
    /// This.
    Exact(Box<str>),
    /// Any of these. Sorted, none twice.
    OneOf(Box<[Box<str>]>),
    /// Beginning so.
    Prefix(Box<str>),
    /// Like this.
    Wildcard(Wildcard),
    /// Matched as a whole.
    Regex(regex::Regex),
    /// A path of this shape; of a `path` alone.
    Path(PathPattern),
    /// An address in any of these; of an `ip` alone.
    Nets(Box<[Net]>),
    /// Not this. Matches a descriptor without the attribute.
    Not(Box<Pattern>),
    /// Not there at all.
    Absent,
}

/// Text in which `*` stands for any characters, none included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    /// What stands between the stars: at least two parts, of which any may be empty.
    parts: Box<[Box<str>]>,
}

/// The shape of a path: segments, and whether more may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    /// The segments, without slashes.
    pub segments: Box<[Segment]>,
    /// Ends with `**`.
    pub open: bool,
}

/// A segment of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// This.
    Literal(Box<str>),
    /// Any that is not empty: `*`, or `{name}` with a name.
    Any(Option<Box<str>>),
}

/// A block of addresses. IPv4-mapped IPv6 is IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Net {
    /// Its first address.
    first: IpAddr,
    prefix_bits: u8,
}
