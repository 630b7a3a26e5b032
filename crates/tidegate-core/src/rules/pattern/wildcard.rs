//! Wildcards: text with stars.

use std::fmt;

use super::error::quoted;
use super::value_pattern::check_length;
use super::{CaseSensitivity, PatternError};

/// Text in which `*` stands for any characters, including none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    /// The text between the stars: at least two parts, each possibly empty.
    parts: Box<[Box<str>]>,
}

impl Wildcard {
    /// Reads text with at least one star.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        check_length(text)?;
        if !text.contains('*') {
            return Err(PatternError::new(
                format!("{} has no `*`", quoted(text)),
                "write a plain value to match only this value, or put `*` where any characters may be",
            ));
        }
        Ok(Self { parts: text.split('*').map(Into::into).collect() })
    }

    /// The prefix of every value that matches, possibly empty.
    pub fn prefix(&self) -> &str {
        self.parts.first().map_or("", |part| part)
    }

    /// The suffix of every value that matches, possibly empty.
    pub fn suffix(&self) -> &str {
        self.parts.last().map_or("", |part| part)
    }

    /// The number of stars.
    pub fn star_count(&self) -> usize {
        self.parts.len() - 1
    }

    /// Uses the first occurrence of each part. If the rest does not fit after it, it fits after no later one either.
    pub(crate) fn is_match(&self, value: &str, case: CaseSensitivity) -> bool {
        let [first, middle @ .., last] = &*self.parts else { return false };
        let rest = case.strip_prefix(value, first).and_then(|rest| case.strip_suffix(rest, last));
        rest.and_then(|rest| middle.iter().try_fold(rest, |rest, part| case.skip_past(rest, part))).is_some()
    }
}

impl fmt::Display for Wildcard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.parts.iter().enumerate() {
            let star = if index == 0 { "" } else { "*" };
            write!(f, "{star}{part}")?;
        }
        Ok(())
    }
}
