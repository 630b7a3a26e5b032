//! Text with stars in it.

use std::fmt;

use super::error::quoted;
use super::{CaseSensitivity, PatternError, check_length};

/// Text in which `*` stands for any characters, none included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    /// What stands between the stars: at least two parts, of which any may be empty.
    parts: Box<[Box<str>]>,
}

impl Wildcard {
    /// Reads text with at least one star.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        check_length(text)?;
        if !text.contains('*') {
            return Err(PatternError::new(
                format!("{} has no `*`", quoted(text)),
                "write a plain value for this value alone, or put `*` where any characters may stand",
            ));
        }
        Ok(Self { parts: text.split('*').map(Into::into).collect() })
    }

    /// What every value begins with; perhaps nothing.
    pub fn prefix(&self) -> &str {
        self.parts.first().map_or("", |part| part)
    }

    /// What every value ends with; perhaps nothing.
    pub fn suffix(&self) -> &str {
        self.parts.last().map_or("", |part| part)
    }

    /// How many stars it has.
    pub fn star_count(&self) -> usize {
        self.parts.len() - 1
    }

    /// Takes the first place at which each part stands: if that leaves no room for the rest, no later one does.
    pub(in crate::rules) fn is_match(&self, value: &str, case: CaseSensitivity) -> bool {
        let [first, middle @ .., last] = &*self.parts else { return false };
        let rest = case.strip_prefix(value, first).and_then(|rest| case.strip_suffix(rest, last));
        rest.and_then(|rest| middle.iter().try_fold(rest, |rest, part| case.skip_past(rest, part))).is_some()
    }
}

impl fmt::Display for Wildcard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            let star = if at == 0 { "" } else { "*" };
            write!(f, "{star}{part}")?;
        }
        Ok(())
    }
}
