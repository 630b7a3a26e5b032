//! The lines of a file that a message shows, none of them longer than a screen is wide.

use std::ops::Range;

use tidegate_core::text::truncated;

use super::super::Span;

/// Some lines, one after the other, as they are shown.
pub(super) struct Excerpt {
    pub text: String,
    pub first_line: u32,
    pub marks: Vec<Mark>,
}

/// A place in an excerpt.
pub(super) struct Mark {
    /// Where it is in the file.
    pub span: Span,
    /// Where it is in the excerpt's text.
    pub bytes: Range<usize>,
    pub label: Option<String>,
}

/// Longer lines are cut to what stands around the mark.
const LINE_CHARS_MAX: usize = 120;
/// How much of a line that is cut stands before the mark.
const BEFORE_CHARS_MAX: usize = 40;
const CUT: &str = "…";

/// The lines from the first of these places to the last. There is at least one, and all are in this text.
pub(super) fn excerpt(text: &str, mut places: Vec<(Span, Option<String>)>) -> Excerpt {
    places.sort_by_key(|(span, _)| span.start);
    let mut excerpt = Excerpt { text: String::new(), first_line: places[0].0.line, marks: Vec::new() };
    let mut places = places.into_iter().peekable();
    let mut line_number = excerpt.first_line;
    let mut line_start = places.peek().map_or(0, |(span, _)| start_of_line(text, span.start as usize));
    while places.peek().is_some() {
        let rest = text.get(line_start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        let mut here = Vec::new();
        while let Some(place) = places.next_if(|(span, _)| span.line <= line_number) {
            here.push(place);
        }
        excerpt.add_line(line, line_start, here);
        line_start = (line_start + line.len() + 1).min(text.len());
        line_number += 1;
    }
    excerpt
}

impl Excerpt {
    fn add_line(&mut self, line: &str, line_start: usize, here: Vec<(Span, Option<String>)>) {
        if !self.text.is_empty() || !self.marks.is_empty() {
            self.text.push('\n');
        }
        let line = line.strip_suffix('\r').unwrap_or(line);
        let first = here.first().map_or(0, |(span, _)| (span.start as usize).saturating_sub(line_start));
        let kept = visible_range(line, first.min(line.len()));
        if kept.start > 0 {
            self.text.push_str(CUT);
        }
        let shift = self.text.len();
        self.text.push_str(&line[kept.clone()]);
        if kept.end < line.len() {
            self.text.push_str(CUT);
        }
        for (span, label) in here {
            let within = |byte: u32| {
                let byte = (byte as usize).saturating_sub(line_start).clamp(kept.start, kept.end);
                byte - kept.start + shift
            };
            self.marks.push(Mark { span, bytes: within(span.start)..within(span.end), label });
        }
    }
}

/// The bytes of a line that are shown if what stands at `mark` has to be.
fn visible_range(line: &str, mark: usize) -> Range<usize> {
    // A character has four bytes at most: what is this short needs no counting.
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
