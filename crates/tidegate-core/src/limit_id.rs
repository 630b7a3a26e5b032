//! What a limit is known by within its rule.

use std::fmt;

use crate::Limit;

/// What a limit is known by within its rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitId {
    /// Its name.
    Name(Box<str>),
    /// Its place among the limits, from 0.
    Position(usize),
}

impl LimitId {
    /// The name of a limit; of one without a name its place.
    pub fn from_limit(limit: &Limit, place: usize) -> Self {
        limit.name().map_or(Self::Position(place), |name| Self::Name(name.into()))
    }
}

/// Its name; of one without a name its place, from 1.
impl fmt::Display for LimitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Position(place) => write!(f, "{}", place + 1),
        }
    }
}
