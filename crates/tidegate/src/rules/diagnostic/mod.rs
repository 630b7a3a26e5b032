//! Errors and warnings about rules, with positions: collected, then written like a compiler's or as JSON.

mod excerpt;
mod json;
mod render;
mod report;

pub use render::Colour;
pub use report::{DIAGNOSTICS_MAX, Report, SkippedFile};

use super::{FileId, Span};

/// An error or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Whether the rules can be used nevertheless.
    pub severity: Severity,
    /// The kind of problem, a name that never changes: `unknown-field`.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// The file.
    pub file: FileId,
    /// The position in the file; none if the file could not be read.
    pub span: Option<Span>,
    /// The path to the field, like `rules[3].limits[0].limit`; empty for the whole file.
    pub field: String,
    /// The text at the caret.
    pub label: Option<String>,
    /// How to fix it.
    pub hint: Option<String>,
    /// Other positions that are involved.
    pub related: Vec<Related>,
}

/// Another position that is involved in a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Related {
    /// The position.
    pub span: Span,
    /// What is there.
    pub label: String,
}

/// How serious a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Rules with an error are refused.
    Error,
    /// Legal, but most likely a mistake.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl Diagnostic {
    pub(crate) fn error(code: &'static str, at: Span, message: impl Into<String>) -> Self {
        Self { span: Some(at), ..Self::file_error(code, at.file, message) }
    }

    pub(crate) fn warning(code: &'static str, at: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, at, message) }
    }

    /// An error of a file that could not be read.
    pub(crate) fn file_error(code: &'static str, file: FileId, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            file,
            span: None,
            field: String::new(),
            label: None,
            hint: None,
            related: Vec::new(),
        }
    }

    #[must_use]
    pub(crate) fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    #[must_use]
    pub(crate) fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push(Related { span, label: label.into() });
        self
    }

    /// Truncates long texts: messages quote the file, in which a word may be as long as the file.
    fn truncated(mut self) -> Self {
        self.message = truncate_text(self.message);
        self.hint = self.hint.map(truncate_text);
        self.label = self.label.map(truncate_text);
        for related in &mut self.related {
            related.label = truncate_text(std::mem::take(&mut related.label));
        }
        self
    }
}

/// A message, hint, label or field at most, in characters.
const TEXT_CHARS_MAX: usize = 500;

fn truncate_text(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}
