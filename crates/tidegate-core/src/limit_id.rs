//! What identifies a limit within its rule.

use std::fmt;

use crate::Limit;

/// What identifies a limit within its rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitId {
    /// Its name.
    Name(Box<str>),
    /// Its position among the rule's limits, from 0.
    Position(usize),
}

impl LimitId {
    /// The name of a limit, or its position if it has no name.
    pub fn from_limit(limit: &Limit, position: usize) -> Self {
        limit.name().map_or(Self::Position(position), |name| Self::Name(name.into()))
    }
}

/// The name of the limit, or its position counted from 1.
impl fmt::Display for LimitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Position(position) => write!(f, "{}", position + 1),
        }
    }
}
