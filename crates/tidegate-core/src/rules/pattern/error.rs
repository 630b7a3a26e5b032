//! What is wrong with a pattern, and what would be right.

use std::fmt;

use super::Shortened;

/// A pattern that is not one. Says what is wrong and gives a hint at what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    problem: String,
    hint: String,
}

impl PatternError {
    pub(super) fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: hint.into() }
    }

    /// What is wrong.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What would be right.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (hint: {})", self.problem, self.hint)
    }
}

impl std::error::Error for PatternError {}

/// The text in backticks, or the beginning of it.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", Shortened(text))
}
