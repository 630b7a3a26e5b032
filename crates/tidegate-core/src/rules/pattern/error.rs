//! What is wrong with a pattern, and a hint how to fix it.

use std::fmt;

use super::Shortened;

/// A pattern is not valid. Has a description of the problem and a hint how to fix it.
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

    /// How to fix it.
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

/// The text in backticks, shortened if it is long.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", Shortened(text))
}
