//! What is wrong with a limit, and what would be right.

use std::fmt;

/// A limit that is not one. Says what is wrong and gives a hint at what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    problem: String,
    hint: String,
    field: Option<&'static str>,
}

impl LimitError {
    pub(crate) fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: hint.into(), field: None }
    }

    /// The same, about this field.
    pub(crate) fn with_field(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// `found` is none of the `known` words that can stand for `what`.
    pub(crate) fn unknown(what: &str, found: &str, known: &[&str]) -> Self {
        let hint = did_you_mean(found, known).unwrap_or_else(|| format!("known are: {}", known.join(", ")));
        Self::new(format!("unknown {what} `{found}`"), hint)
    }

    /// What is wrong.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What would be right.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The field of the long form it is about, if it is about one.
    pub fn field(&self) -> Option<&'static str> {
        self.field
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (hint: {})", self.problem, self.hint)
    }
}

impl std::error::Error for LimitError {}

/// A hint at the known word that `found` was most likely meant to be, if it is close to any.
pub fn did_you_mean(found: &str, known: &[&str]) -> Option<String> {
    closest(found, known).map(|word| format!("did you mean `{word}`?"))
}

/// The known word that `found` was most likely meant to be.
fn closest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    const EDITS_MAX: usize = 3;
    const FOUND_CHARS_MAX: usize = 32;
    if found.chars().count() > FOUND_CHARS_MAX {
        return None;
    }
    let (distance, word) = known.iter().map(|word| (edit_distance(found, word), *word)).min()?;
    (distance <= EDITS_MAX && distance < word.len()).then_some(word)
}

/// Levenshtein distance: insertions, deletions and replacements from one word to the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}
