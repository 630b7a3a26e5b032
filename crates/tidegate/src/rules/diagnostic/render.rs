//! A report as text, in the style of a compiler.

use std::fmt::Write as _;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Element, Level, Origin, Renderer, Snippet};

use super::excerpt::{self, Excerpt};
use super::{DIAGNOSTICS_MAX, Diagnostic, Report, Severity};
use crate::rules::Span;
use crate::rules::yaml::printable;

/// Whether a report uses the colours of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// For files, logs and pipes.
    #[default]
    Never,
    /// For a terminal.
    Always,
}

/// Positions that are further apart than this are shown separately.
const LINES_TOGETHER_MAX: u32 = 40;

pub(super) fn render(report: &Report, colour: Colour) -> String {
    let renderer = match colour {
        Colour::Never => Renderer::plain(),
        Colour::Always => Renderer::styled(),
    };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut text = String::new();
    for diagnostic in report.diagnostics() {
        let _ = writeln!(text, "{}\n", render_one(report, diagnostic, &renderer));
    }
    for (count, what) in [(report.errors(), "error"), (report.warnings(), "warning")] {
        if count > DIAGNOSTICS_MAX {
            let _ =
                writeln!(text, "... and {}\n", pluralize(count - DIAGNOSTICS_MAX, &format!("more {what}")));
        }
    }
    for file in report.skipped() {
        let _ = writeln!(text, "note: not loaded: {}: {}", printable(&file.path), printable(&file.reason));
    }
    match report.skipped_count() {
        0 => {}
        count if count > report.skipped().len() => {
            let _ = writeln!(text, "... and {} more\n", count - report.skipped().len());
        }
        _ => text.push('\n'),
    }
    if report.errors() + report.warnings() == 0 && report.skipped_count() > 0 {
        return text;
    }
    let (errors, warnings) = (pluralize(report.errors(), "error"), pluralize(report.warnings(), "warning"));
    let _ = writeln!(text, "{errors}, {warnings}");
    text
}

fn pluralize(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

fn render_one(report: &Report, diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group =
        level.primary_title(&diagnostic.message).id(diagnostic.code).elements(Vec::<Element<'_>>::new());
    let mut corrections = Vec::new();
    match diagnostic.span {
        None => group = group.element(Origin::path(report.file_name(diagnostic.file))),
        Some(span) => {
            for (first, excerpt) in excerpts(report, diagnostic, span) {
                let path = report.file_name(first.file);
                corrections.extend(column_correction(path, &first, &excerpt));
                let annotations = excerpt.marks.into_iter().map(|mark| {
                    let kind =
                        if mark.span == span { AnnotationKind::Primary } else { AnnotationKind::Context };
                    kind.span(mark.bytes).label(mark.label)
                });
                let snippet =
                    Snippet::source(excerpt.text).path(path).line_start(excerpt.first_line as usize);
                group = group.element(snippet.annotations(annotations));
            }
        }
    }
    if !diagnostic.field.is_empty() {
        group = group.element(Level::NOTE.with_name("field").message(&diagnostic.field));
    }
    if let Some(hint) = &diagnostic.hint {
        group = group.element(Level::HELP.message(hint));
    }
    let mut text = renderer.render(&[group]);
    for (rendered, corrected) in corrections {
        text = text.replacen(&rendered, &corrected, 1);
    }
    text
}

/// Corrects the column: the renderer counts it in the text it is given, which may start inside a long line.
fn column_correction(path: &str, span: &Span, excerpt: &Excerpt) -> Option<(String, String)> {
    let mark = excerpt.marks.iter().find(|mark| mark.span == *span)?;
    let before = &excerpt.text[..mark.bytes.start];
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let at = |column: usize| format!("{path}:{}:{column}", span.line);
    (column != span.column as usize).then(|| (at(column), at(span.column as usize)))
}

/// The position itself with those near it in the same file, then each other position.
fn excerpts(report: &Report, diagnostic: &Diagnostic, span: Span) -> Vec<(Span, Excerpt)> {
    let is_near =
        |other: &Span| other.file == span.file && other.line.abs_diff(span.line) <= LINES_TOGETHER_MAX;
    let mut together = vec![(span, diagnostic.label.clone())];
    let mut apart = Vec::new();
    for related in &diagnostic.related {
        let labeled = (related.span, Some(related.label.clone()));
        if is_near(&related.span) { together.push(labeled) } else { apart.push(vec![labeled]) }
    }
    let all = std::iter::once(together).chain(apart);
    all.map(|labeled| (labeled[0].0, excerpt::excerpt(&report.text(labeled[0].0.file), labeled))).collect()
}
