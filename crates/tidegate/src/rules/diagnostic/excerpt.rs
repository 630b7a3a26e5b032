//! The lines of a file that a message shows, cut to the width of a screen.

use std::ops::Range;

use tidegate_core::text::truncated;

use crate::rules::Span;

/// Some consecutive lines, as they are shown.
pub(super) struct Excerpt {
    pub text: String,
    pub first_line: u32,
    pub marks: Vec<Mark>,
}

/// A position in an excerpt.
pub(super) struct Mark {
    /// Its position in the file.
    pub span: Span,
    /// Its position in the excerpt's text.
    pub bytes: Range<usize>,
    pub label: Option<String>,
}

/// Longer lines are cut around the mark.
const LINE_CHARS_MAX: usize = 120;
/// How much of a cut line is shown before the mark.
const BEFORE_CHARS_MAX: usize = 40;
const CUT: &str = "…";

/// The lines from the first of these positions to the last. There is at least one, and all are in this text.
pub(super) fn excerpt(text: &str, mut labeled: Vec<(Span, Option<String>)>) -> Excerpt {
    labeled.sort_by_key(|(span, _)| span.start);
    let mut excerpt = Excerpt { text: String::new(), first_line: labeled[0].0.line, marks: Vec::new() };
    let mut labeled = labeled.into_iter().peekable();
    let mut line_number = excerpt.first_line;
    let mut line_start = labeled.peek().map_or(0, |(span, _)| start_of_line(text, span.start as usize));
    while labeled.peek().is_some() {
        let rest = text.get(line_start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        let mut on_line = Vec::new();
        while let Some(mark) = labeled.next_if(|(span, _)| span.line <= line_number) {
            on_line.push(mark);
        }
        excerpt.add_line(line, line_start, on_line);
        line_start = (line_start + line.len() + 1).min(text.len());
        line_number += 1;
    }
    excerpt
}

impl Excerpt {
    fn add_line(&mut self, line: &str, line_start: usize, on_line: Vec<(Span, Option<String>)>) {
        if !self.text.is_empty() || !self.marks.is_empty() {
            self.text.push('\n');
        }
        let line = line.strip_suffix('\r').unwrap_or(line);
        let first = on_line.first().map_or(0, |(span, _)| (span.start as usize).saturating_sub(line_start));
        let visible = visible_range(line, first.min(line.len()));
        if visible.start > 0 {
            self.text.push_str(CUT);
        }
        let shift = self.text.len();
        self.text.push_str(&line[visible.clone()]);
        if visible.end < line.len() {
            self.text.push_str(CUT);
        }
        for (span, label) in on_line {
            let offset = |byte: u32| {
                let byte = (byte as usize).saturating_sub(line_start).clamp(visible.start, visible.end);
                byte - visible.start + shift
            };
            self.marks.push(Mark { span, bytes: offset(span.start)..offset(span.end), label });
        }
    }
}

/// The bytes of a line to show, so that `mark` is visible.
fn visible_range(line: &str, mark: usize) -> Range<usize> {
    // A short line needs no counting: a character has at least one byte.
    if line.len() <= LINE_CHARS_MAX || line.chars().nth(LINE_CHARS_MAX).is_none() {
        return 0..line.len();
    }
    let mark = truncated(line, mark).len();
    let back = line[..mark].char_indices().rev().take(BEFORE_CHARS_MAX).last();
    let start = back.map_or(mark, |(at, _)| at);
    let end = line[start..].char_indices().nth(LINE_CHARS_MAX).map_or(line.len(), |(at, _)| start + at);
    start..end
}

fn start_of_line(text: &str, byte: usize) -> usize {
    let before = text.get(..byte).unwrap_or_default();
    before.rfind('\n').map_or(0, |at| at + 1)
}
