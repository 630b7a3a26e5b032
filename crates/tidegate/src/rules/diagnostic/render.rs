//! A report as a compiler would write it.

use std::fmt::Write as _;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Element, Level, Origin, Renderer, Snippet};

use super::super::Span;
use super::excerpt::{self, Excerpt};
use super::{DIAGNOSTICS_MAX, Diagnostic, Report, Severity};

/// Whether a report is written with the colours of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// For files, logs and pipes.
    #[default]
    Never,
    /// For a terminal.
    Always,
}

/// Further apart than this, two places are shown apart.
const LINES_TOGETHER_MAX: u32 = 40;

pub(super) fn render(report: &Report, colour: Colour) -> String {
    let renderer = match colour {
        Colour::Never => Renderer::plain(),
        Colour::Always => Renderer::styled(),
    };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut written = String::new();
    for found in report.diagnostics() {
        let _ = writeln!(written, "{}\n", render_one(report, found, &renderer));
    }
    for (count, what) in [(report.errors(), "error"), (report.warnings(), "warning")] {
        if count > DIAGNOSTICS_MAX {
            let _ =
                writeln!(written, "... and {}\n", pluralize(count - DIAGNOSTICS_MAX, &format!("more {what}")));
        }
    }
    let (errors, warnings) = (pluralize(report.errors(), "error"), pluralize(report.warnings(), "warning"));
    let _ = writeln!(written, "{errors}, {warnings}");
    written
}

fn pluralize(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

fn render_one(report: &Report, found: &Diagnostic, renderer: &Renderer) -> String {
    let level = match found.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = level.primary_title(&found.message).id(found.code).elements(Vec::<Element<'_>>::new());
    let mut corrections = Vec::new();
    match found.span {
        None => group = group.element(Origin::path(report.file_name(found.file))),
        Some(span) => {
            for (place, excerpt) in excerpts(report, found, span) {
                let path = report.file_name(place.file);
                corrections.extend(column_correction(path, &place, &excerpt));
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
    if !found.field.is_empty() {
        group = group.element(Level::NOTE.with_name("field").message(&found.field));
    }
    if let Some(hint) = &found.hint {
        group = group.element(Level::HELP.message(hint));
    }
    let mut written = renderer.render(&[group]);
    for (shown, true_place) in corrections {
        written = written.replacen(&shown, &true_place, 1);
    }
    written
}

/// The renderer counts columns in what it is shown, which of a long line is not its beginning.
fn column_correction(path: &str, place: &Span, excerpt: &Excerpt) -> Option<(String, String)> {
    let mark = excerpt.marks.iter().find(|mark| mark.span == *place)?;
    let before = &excerpt.text[..mark.bytes.start];
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let at = |column: usize| format!("{path}:{}:{column}", place.line);
    (column != place.column as usize).then(|| (at(column), at(place.column as usize)))
}

/// The place itself with what is near it in the same file, then each other place.
fn excerpts(report: &Report, found: &Diagnostic, span: Span) -> Vec<(Span, Excerpt)> {
    let near = |other: &Span| other.file == span.file && other.line.abs_diff(span.line) <= LINES_TOGETHER_MAX;
    let mut together = vec![(span, found.label.clone())];
    let mut apart = Vec::new();
    for related in &found.related {
        let place = (related.span, Some(related.label.clone()));
        if near(&related.span) { together.push(place) } else { apart.push(vec![place]) }
    }
    let all = std::iter::once(together).chain(apart);
    all.map(|places| (places[0].0, excerpt::excerpt(&report.text(places[0].0.file), places))).collect()
}
