//! All that is wrong with some files.

use std::fmt;
use std::sync::Arc;

use super::super::FileId;
use super::super::yaml::Node;
use super::{Colour, Diagnostic, Severity, json, render};

/// The most errors, and the most warnings, that a report keeps. It counts the others.
pub const DIAGNOSTICS_MAX: usize = 100;

/// Files and what is wrong with them. Written out by [`Display`](fmt::Display) as a compiler would, without colours.
#[derive(Clone, Debug, Default)]
pub struct Report {
    sources: Vec<SourceFile>,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

#[derive(Clone, Debug)]
struct SourceFile {
    name: String,
    text: Arc<str>,
}

impl Report {
    /// What is wrong, in the order of the files; of errors and of warnings [`DIAGNOSTICS_MAX`] at most.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// How many errors there are, also those that were not kept.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// How many warnings there are, also those that were not kept.
    pub fn warnings(&self) -> usize {
        self.warnings
    }

    /// What the files are called, in the order in which they were read.
    pub fn file_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.sources.iter().map(|source| &*source.name)
    }

    /// What a file is called.
    pub fn file_name(&self, file: FileId) -> &str {
        self.sources.get(file.0 as usize).map_or("", |source| &source.name)
    }

    /// As a compiler would write it, and how many there are.
    pub fn render(&self, colour: Colour) -> String {
        render::render(self, colour)
    }

    /// As a JSON document: `{"errors": 1, "warnings": 0, "diagnostics": [{"severity": "error", "code": ..,
    /// "message": .., "file": .., "line": .., "column": .., "end_line": .., "end_column": .., "field": ..,
    /// "label": .., "hint": .., "related": [..]}]}`. Lines and columns count from 1, columns in characters; they are
    /// null where there are none.
    pub fn to_json(&self) -> String {
        json::report_to_json(self).to_string()
    }

    /// Whether anything in it keeps the rules from being used.
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

    /// Puts text of the same length in the place of a file's own.
    pub(crate) fn replace_text(&mut self, file: FileId, text: &str) {
        if let Some(source) = self.sources.get_mut(file.0 as usize)
            && source.text.len() == text.len()
        {
            source.text = text.into();
        }
    }

    /// Takes note. What an alias repeats is noted once.
    pub(crate) fn push(&mut self, found: Diagnostic) {
        let same = |known: &Diagnostic| {
            (known.code, known.span, known.file) == (found.code, found.span, found.file)
                && known.message == found.message
        };
        if found.span.is_some() && self.diagnostics.iter().any(same) {
            return;
        }
        let count = match found.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count <= DIAGNOSTICS_MAX {
            self.diagnostics.push(found.truncated());
        }
    }

    /// Works out the fields of what was found in this file.
    pub(crate) fn fill_field_paths(&mut self, file: FileId, root: &Node) {
        for found in self.diagnostics.iter_mut().filter(|found| found.file == file) {
            if let (true, Some(span)) = (found.field.is_empty(), &found.span) {
                found.field = super::truncate_text(root.path_to(span));
            }
        }
    }

    /// In the order of the files and of their lines.
    pub(crate) fn sort(&mut self) {
        self.diagnostics.sort_by_key(|found| (found.file, found.span.map(|span| span.start), found.severity));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Colour::Never))
    }
}

impl std::error::Error for Report {}
