//! All errors and warnings of some files.

use std::fmt;
use std::sync::Arc;

use super::{Colour, Diagnostic, Severity, json, render};
use crate::rules::FileId;
use crate::rules::yaml::Node;

/// Errors, and warnings, in a report at most. Further ones are only counted.
pub const DIAGNOSTICS_MAX: usize = 100;
/// Skipped files in a report at most. Further ones are only counted.
const SKIPPED_FILES_MAX: usize = 100;

/// Files with their errors and warnings. [`Display`](fmt::Display) writes them in the style of a compiler,
/// without colours.
#[derive(Clone, Debug, Default)]
pub struct Report {
    sources: Vec<SourceFile>,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    skipped: Vec<SkippedFile>,
    skipped_count: usize,
}

/// A file or a directory that was found but not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedFile {
    /// Its path.
    pub path: String,
    /// Why it was not loaded.
    pub reason: String,
}

#[derive(Clone, Debug)]
struct SourceFile {
    name: String,
    text: Arc<str>,
}

impl Report {
    /// The errors and warnings in the order of the files, at most [`DIAGNOSTICS_MAX`] of each.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The number of errors, including those that were dropped.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// The number of warnings, including those that were dropped.
    pub fn warnings(&self) -> usize {
        self.warnings
    }

    /// The files that were found in directories but not loaded, at most 100.
    pub fn skipped(&self) -> &[SkippedFile] {
        &self.skipped
    }

    /// The number of files that were found but not loaded, including those that are not listed.
    pub fn skipped_count(&self) -> usize {
        self.skipped_count
    }

    /// The names of the files, in the order in which they were read.
    pub fn file_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.sources.iter().map(|source| &*source.name)
    }

    /// The name of a file.
    pub fn file_name(&self, file: FileId) -> &str {
        self.sources.get(file.0 as usize).map_or("", |source| &source.name)
    }

    /// The text in the style of a compiler, with the counts at the end.
    pub fn render(&self, colour: Colour) -> String {
        render::render(self, colour)
    }

    /// A JSON document: `{"errors": 1, "warnings": 0, "diagnostics": [{"severity": "error", "code": ..,
    /// "message": .., "file": .., "line": .., "column": .., "end_line": .., "end_column": .., "field": ..,
    /// "label": .., "hint": .., "related": [..]}], "skipped": [{"path": .., "reason": ..}]}`. Lines and columns count from 1, columns in characters. They
    /// are null if there is no position.
    pub fn to_json(&self) -> String {
        json::report_to_json(self).to_string()
    }

    /// Whether there are errors, so that the rules cannot be used.
    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Whether the next error will only be counted.
    pub(crate) fn has_max_errors(&self) -> bool {
        self.errors >= DIAGNOSTICS_MAX
    }

    pub(crate) fn add_source(&mut self, name: &str, text: &str) -> FileId {
        self.sources.push(SourceFile { name: name.to_owned(), text: text.into() });
        FileId(u32::try_from(self.sources.len() - 1).unwrap_or(u32::MAX))
    }

    pub(crate) fn text(&self, file: FileId) -> Arc<str> {
        self.sources.get(file.0 as usize).map_or_else(|| "".into(), |source| source.text.clone())
    }

    /// Replaces the text of a file by one of the same length.
    pub(crate) fn replace_text(&mut self, file: FileId, text: &str) {
        if let Some(source) = self.sources.get_mut(file.0 as usize)
            && source.text.len() == text.len()
        {
            source.text = text.into();
        }
    }

    /// Adds a file that was found but not loaded.
    pub(crate) fn skip(&mut self, file: SkippedFile) {
        self.skipped_count += 1;
        if self.skipped.len() < SKIPPED_FILES_MAX {
            self.skipped.push(file);
        }
    }

    /// Adds an error or a warning. A problem that an alias repeats is added once.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        let is_duplicate = |other: &Diagnostic| {
            (other.code, other.span, other.file) == (diagnostic.code, diagnostic.span, diagnostic.file)
                && other.message == diagnostic.message
        };
        if diagnostic.span.is_some() && self.diagnostics.iter().any(is_duplicate) {
            return;
        }
        let count = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count <= DIAGNOSTICS_MAX {
            self.diagnostics.push(diagnostic.truncated());
        }
    }

    /// Computes the field paths of the diagnostics in this file.
    pub(crate) fn fill_field_paths(&mut self, file: FileId, root: &Node) {
        for diagnostic in self.diagnostics.iter_mut().filter(|diagnostic| diagnostic.file == file) {
            if let (true, Some(span)) = (diagnostic.field.is_empty(), &diagnostic.span) {
                diagnostic.field = super::truncate_text(root.path_to(span));
            }
        }
    }

    /// Sorts by file and position.
    pub(crate) fn sort(&mut self) {
        self.diagnostics.sort_by_key(|diagnostic| {
            (diagnostic.file, diagnostic.span.map(|span| span.start), diagnostic.severity)
        });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Colour::Never))
    }
}

impl std::error::Error for Report {}
