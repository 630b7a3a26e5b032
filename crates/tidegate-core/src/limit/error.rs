//! What is wrong with a limit, and a hint how to fix it.

use std::fmt;

/// A limit is not valid. Has a description of the problem and a hint how to fix it.
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

    /// Adds the field that the error is about.
    pub(crate) fn with_field(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// `word` is not one of the `known` words for `what`.
    pub(super) fn unknown(what: &str, word: &str, known: &[&str]) -> Self {
        let hint =
            did_you_mean(word, known).unwrap_or_else(|| format!("expected one of: {}", known.join(", ")));
        Self::new(format!("unknown {what} `{word}`"), hint)
    }

    /// What is wrong.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// How to fix it.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The field of the long form that the error is about, if any.
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

/// Suggests the known word that `word` was most likely meant to be, if one is similar.
pub fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    closest(word, known).map(|closest| format!("did you mean `{closest}`?"))
}

/// The known word that is most similar to `word`.
fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    const EDITS_MAX: usize = 3;
    const WORD_CHARS_MAX: usize = 32;
    if word.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let (distance, closest) = known.iter().map(|known| (edit_distance(word, known), *known)).min()?;
    (distance <= EDITS_MAX && distance < closest.len()).then_some(closest)
}

/// Levenshtein distance: the insertions, deletions and replacements that turn one word into the other.
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
